"""From accepted requests to settlements: when traces settle, what late data does, what outlives restarts and faults."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from collectors.sink import Encoding, Overloaded, Signal
from monitor.intake.compaction import rewrite_survivors
from monitor.intake.options import SettlementOptions
from monitor.intake.revisions import digest
from monitor.intake.segment import list_segments
from monitor.intake.settling import SettlingRules
from monitor.model.invocation import SettledBy
from monitor.settings.tree import LateSpans
from monitor.store.protocol import StoreUnwritable
from tests.intake.desk import Desk
from tests.intake.traffic import Sent, agent, log, logs, run, span_id, tool, trace_id, traces

OpenDesk = Callable[..., Desk]


# -- settling ------------------------------------------------------------------------------------------------------


def test_a_trace_settles_after_its_root_ended_and_silence(desk: Desk) -> None:
    """Root and children ended, then settle_after without data: one invocation with its tool calls, settled_by root_ended."""
    desk.send(traces(*run("t")))
    assert desk.wait(29.0).traces == 0
    done = desk.wait(1.0)
    assert (done.traces, done.spans, done.invocations) == (1, 3, 1)
    [settlement] = desk.store.saved
    assert settlement.settled_by == "root_ended"
    assert settlement.settled_at == desk.clock.now()
    assert settlement.monitors == ("quality",)
    assert settlement.span_count == 3
    [stored] = desk.stored("t")
    assert stored.invocation.id == f"{trace_id('t').hex()}-{span_id('t.root').hex()}"
    assert [call.name for call in stored.invocation.tool_calls] == ["tool1", "tool2"]
    assert stored.invocation.completeness.settled_by is SettledBy.ROOT_ENDED
    assert stored.invocation.collector == "otlp"
    assert stored.digest == digest(stored.invocation)
    assert desk.count("spans_settled_total") == 3


def test_new_data_starts_the_silence_anew(desk: Desk) -> None:
    """Spans and log records alike are activity: the trace settles settle_after the last of them."""
    desk.send(traces(agent("t")))
    desk.wait(20.0)
    desk.send(traces(tool("t")))
    desk.wait(20.0)
    desk.send(logs(log("t", "t.root")), Signal.LOGS)
    assert desk.wait(29.0).traces == 0
    assert desk.wait(1.0).traces == 1


@pytest.mark.parametrize(
    "spans",
    [[tool("t")], [agent("t", end=None)], [agent("t"), tool("t", end=None)], [agent("t"), tool("t", parent="gone")]],
    ids=["root missing", "root open", "child open", "parent missing"],
)
def test_an_incomplete_trace_waits_for_the_idle_timeout(desk: Desk, spans: list[Sent]) -> None:
    """Without an ended root, with an open span or a missing parent, it settles as idle after 15 minutes."""
    desk.send(traces(*spans))
    assert desk.wait(60.0).traces == 0
    assert desk.wait(839.0).traces == 0
    assert desk.wait(1.0).traces == 1
    assert desk.store.saved[0].settled_by == "idle"


def test_an_open_span_that_ends_later_completes_the_trace(desk: Desk) -> None:
    """A trace that waits for its idle timeout settles settle_after the data that completes it."""
    desk.send(traces(agent("t", end=None)))
    desk.wait(400.0)
    desk.send(traces(agent("t", answer="Ready.")))
    assert desk.wait(29.0).traces == 0
    assert desk.wait(1.0).duplicates == 1
    [stored] = desk.stored("t")
    assert stored.invocation.final_response == "Ready."
    assert desk.store.saved[0].settled_by == "root_ended"


@pytest.mark.parametrize("signal", list(Signal))
def test_an_end_marker_settles_at_once(desk: Desk, signal: Signal) -> None:
    """`rubricd.invocation.end` on any span or log record of the trace settles it without silence."""
    desk.send(traces(*run("t")))
    if signal is Signal.TRACES:
        desk.send(traces(tool("t", 3, attributes={"rubricd.invocation.end": True})))
    else:
        desk.send(logs(log("t", event="done", **{"rubricd.invocation.end": True})), Signal.LOGS)
    assert desk.step().traces == 1
    assert desk.store.saved[0].settled_by == "end_marker"


def test_a_chatty_trace_settles_at_its_greatest_age(desk: Desk) -> None:
    """Data every ten seconds for six hours: settled as max_age, once."""
    desk.rules = SettlingRules(max_age=120.0)
    desk.restart()
    for number in range(12):
        desk.send(traces(tool("t", number)))
        assert desk.wait(9.0).traces == 0
        desk.clock.advance(1.0)
    assert desk.step().traces == 1
    assert desk.store.saved[0].settled_by == "max_age"


def test_a_trace_with_too_many_spans_settles_at_once_and_takes_no_more(desk: Desk) -> None:
    """Past max_spans a trace settles as max_age, and what comes for it later is dropped by count, not merged."""
    desk.rules = SettlingRules(max_spans=5)
    desk.options = SettlementOptions(max_spans=5)
    desk.restart()
    desk.send(traces(*(tool("t", number) for number in range(4))))
    desk.send(traces(*(tool("t", number) for number in range(4))))
    assert desk.step().traces == 0
    desk.send(traces(*(tool("t", number) for number in range(4, 8))))
    assert desk.step().traces == 1
    assert desk.store.saved[0].settled_by == "max_age"
    assert desk.store.saved[0].span_count == 8
    desk.send(traces(tool("t", 9)))
    desk.wait(30.0)
    desk.step()
    assert desk.count("spans_dropped_total", reason="over_limit") == 1
    assert desk.store.saved[-1].changes == ()
    assert desk.index.open_items == 0


def test_nothing_settles_while_we_do_not_listen(desk: Desk) -> None:
    """While the collectors are closed nothing settles, and silence counts from their opening."""
    desk.send(traces(*run("t")))
    desk.settler.pause()
    assert desk.wait(3600.0).traces == 0
    desk.settler.listen(desk.clock.now())
    assert desk.wait(29.0).traces == 0
    assert desk.wait(1.0).traces == 1


def test_log_records_join_their_spans(desk: Desk) -> None:
    """Log records are stored with the trace and read by the assembly, also when they come before its spans."""
    desk.send(logs(log("t", "t.root", "gen_ai.user.message")), Signal.LOGS)
    desk.send(traces(agent("t")))
    desk.wait(30.0)
    [settlement] = desk.store.saved
    assert settlement.span_count == 1
    assert len(settlement.changes) == 1


# -- duplicates and late data ------------------------------------------------------------------------------------------


def test_the_same_batch_twice_counts_once(desk: Desk) -> None:
    """A batch sent again before the settling is one invocation; its spans are counted as duplicates."""
    body = traces(*run("t"))
    desk.send(body)
    desk.send(body)
    done = desk.wait(30.0)
    assert (done.spans, done.duplicates, done.invocations) == (3, 3, 1)
    assert desk.count("duplicate_spans_total") == 3


@pytest.mark.parametrize("mode", list(LateSpans))
def test_a_duplicate_of_a_settled_trace_is_not_late(desk: Desk, mode: LateSpans) -> None:
    """The same batch after the settling changes nothing and counts as duplicates, not as late, soon after it came."""
    desk.configure(late_spans=mode)
    desk.send(traces(*run("t")))
    desk.wait(30.0)
    desk.send(traces(*run("t")[:2]))
    done = desk.wait(30.0)
    assert (done.duplicates, done.late, done.revised) == (2, 0, 0)
    assert desk.store.saved[-1].changes == ()
    assert desk.count("late_spans_total") == 0
    assert desk.index.open_items == 0


def test_an_older_version_that_comes_late_changes_nothing(desk: Desk) -> None:
    """The unfinished version of a span that is stored finished is a duplicate."""
    desk.send(traces(agent("t", answer="Ready.")))
    desk.wait(30.0)
    desk.send(traces(agent("t", end=None, attributes={})))
    done = desk.wait(30.0)
    assert (done.duplicates, done.late) == (1, 0)
    assert desk.stored("t")[0].invocation.final_response == "Ready."


def test_late_spans_revise_the_invocation(desk: Desk) -> None:
    """A tool span after the settling makes revision 2 under the same id, soon after it came; judged before: judged again."""
    desk.send(traces(agent("t")))
    desk.wait(30.0)
    first = desk.stored("t")[0].invocation
    settled_at = desk.store.saved[0].settled_at
    desk.store.judged.add(first.id)
    desk.clock.advance(100.0)
    desk.send(traces(tool("t")))
    done = desk.wait(30.0)
    assert (done.late, done.revised, done.spans, done.invocations) == (1, 1, 1, 0)
    settlement = desk.store.saved[-1]
    [change] = settlement.changes
    assert change.rejudge
    assert (change.invocation.id, change.invocation.revision) == (first.id, 2)
    assert [call.name for call in change.invocation.tool_calls] == ["tool1"]
    assert change.invocation.completeness.late_spans == 1
    assert change.invocation.completeness.settled_by is SettledBy.ROOT_ENDED
    assert settlement.settled_at == settled_at
    assert (settlement.late_spans, settlement.span_count) == (1, 2)
    assert desk.count("late_spans_total") == 1
    desk.send(traces(tool("t", 2)))
    desk.wait(30.0)
    assert desk.stored("t")[0].invocation.revision == 3
    assert len(desk.stored("t")[0].invocation.tool_calls) == 2


def test_late_data_that_says_nothing_new_makes_no_revision(desk: Desk) -> None:
    """A late span that the invocation does not show counts as late, and the invocation stays as it is."""
    desk.send(traces(agent("t")))
    desk.wait(30.0)
    desk.send(traces(Sent("t", "http", "t.root", attributes={"http.request.method": "GET"})))
    done = desk.wait(30.0)
    assert (done.late, done.revised) == (1, 0)
    assert desk.stored("t")[0].invocation.revision == 1
    assert desk.store.saved[-1].late_spans == 1


def test_late_spans_are_ignored_where_the_configuration_says_so(desk: Desk) -> None:
    """`late_spans: ignore`: counted as late, nothing changes, the verdict stands."""
    desk.configure(late_spans=LateSpans.IGNORE)
    desk.send(traces(agent("t")))
    desk.wait(30.0)
    desk.send(traces(tool("t")))
    done = desk.wait(30.0)
    assert (done.late, done.revised) == (1, 0)
    assert desk.stored("t")[0].invocation.tool_calls == ()
    assert desk.index.open_items == 0


def test_data_later_than_a_day_changes_nothing(desk: Desk) -> None:
    """After 24 hours late data is only counted."""
    desk.send(traces(agent("t")))
    desk.wait(30.0)
    desk.clock.advance(24 * 3600.0 + 1)
    desk.send(traces(tool("t")))
    done = desk.wait(30.0)
    assert (done.late, done.revised) == (1, 0)


def test_without_stored_spans_late_data_is_only_counted(desk: Desk) -> None:
    """`store_content: none`: no raw spans are stored, so late data cannot be merged; copies are still told from late spans."""
    desk.configure(keep_spans=False)
    desk.send(traces(*run("t", 1)))
    desk.wait(30.0)
    assert desk.store.saved[0].spans is None
    desk.send(traces(tool("t"), tool("t", 2)))
    done = desk.wait(30.0)
    assert (done.late, done.duplicates, done.revised) == (1, 1, 0)
    assert desk.store.saved[-1].spans is None


def test_without_stored_spans_another_invocation_of_the_trace_is_still_taken(desk: Desk) -> None:
    """Where the earlier spans are not stored, a later run of the same trace that shares none of them is a new invocation."""
    desk.configure(keep_spans=False)
    desk.send(traces(*run("t", 1)))
    desk.wait(30.0)
    later = agent("t", question="And tomorrow?")
    desk.send(traces(Sent("t", "second", "", 100.0, 101.0, later.attributes)))
    done = desk.wait(30.0)
    assert (done.invocations, done.revised) == (1, 0)
    assert {stored.invocation.user_input for stored in desk.stored("t")} == {"Open today?", "And tomorrow?"}


def test_plain_web_traffic_is_not_stored_and_hinders_no_agent(desk: Desk) -> None:
    """A trace in which no convention reads anything leaves no spans in the store; an agent's spans that come later are its invocation."""
    desk.configure(late_spans=LateSpans.IGNORE)
    for _ in range(2):
        desk.send(traces(Sent("t", "web", attributes={"http.request.method": "GET"})))
        assert desk.wait(30.0).late == 0
    assert desk.store.saved[0].spans is None
    assert desk.store.saved[0].changes == ()
    root = agent("t")
    desk.send(traces(Sent("t", "t.root", "web", 0.5, 0.9, root.attributes), tool("t")))
    done = desk.wait(30.0)
    assert (done.invocations, done.late) == (1, 2)
    assert len(desk.stored("t")[0].invocation.tool_calls) == 1


def test_a_late_root_keeps_the_id(desk: Desk) -> None:
    """A trace that settled without its root gets the root as a revision under the old id, now settled by root_ended."""
    desk.send(traces(tool("t"), tool("t", 2)))
    desk.wait(900.0)
    [before] = desk.stored("t")
    assert before.invocation.completeness.settled_by is SettledBy.IDLE
    desk.send(traces(agent("t")))
    desk.wait(30.0)
    [after] = desk.stored("t")
    assert after.invocation.id == before.invocation.id
    assert after.invocation.revision == 2
    assert after.invocation.final_response == "Until six."
    assert after.invocation.completeness.settled_by is SettledBy.ROOT_ENDED


def test_a_new_invocation_in_a_settled_trace_is_new(desk: Desk) -> None:
    """Late data that holds another run of the same trace stores it as revision 1, settled now, for all monitors."""
    desk.send(traces(agent("t")))
    desk.wait(30.0)
    desk.clock.advance(600.0)
    later = agent("t", question="And tomorrow?", answer="Closed.", start=100.0, end=101.0)
    desk.send(traces(Sent("t", "second", "", later.start, later.end, later.attributes)))
    done = desk.wait(30.0)
    assert (done.invocations, done.revised) == (1, 0)
    assert desk.store.saved[-1].settled_at == desk.clock.now()
    assert {stored.invocation.user_input for stored in desk.stored("t")} == {"Open today?", "And tomorrow?"}


# -- restarts and faults ---------------------------------------------------------------------------------------------


def test_open_traces_outlive_a_restart(desk: Desk) -> None:
    """After a restart the trace is open again; the silence starts when we listen again, and parts from before and after are one."""
    desk.send(traces(tool("t")))
    desk.send(traces(agent("t")))
    desk.clock.advance(500.0)
    desk.restart()
    assert desk.replayed == 2
    assert desk.wait(29.0).traces == 0
    desk.send(traces(tool("t", 2)))
    assert desk.wait(30.0).spans == 3
    assert len(desk.stored("t")[0].invocation.tool_calls) == 2


def test_what_was_stored_is_not_settled_again_after_a_crash(desk: Desk) -> None:
    """A replay skips what a stored settlement has consumed, and takes what came for the trace after it."""
    desk.send(traces(*run("t")))
    desk.send(traces(*run("open", 1)[:1]))  # keeps the segment
    desk.wait(30.0)
    desk.send(traces(tool("t", 3)))
    desk.restart()
    assert desk.replayed == 2
    desk.wait(30.0)
    assert len(desk.store.saved) == 2
    assert desk.store.saved[1].late_spans == 1
    desk.restart()
    assert desk.replayed == 1
    desk.wait(30.0)
    assert len(desk.store.saved) == 2


def test_a_batch_resent_across_a_restart_is_one_invocation(desk: Desk) -> None:
    """Case same-batch-twice: the repeat comes after a restart, with one span more."""
    desk.send(traces(*run("t", 1)))
    desk.restart()
    desk.send(traces(*run("t", 1), tool("t", 2)))
    done = desk.wait(30.0)
    assert (done.spans, done.duplicates, done.invocations) == (3, 2, 1)


@pytest.mark.parametrize("fault", [StoreUnwritable("disk full"), RuntimeError("anything")])
def test_a_store_that_fails_loses_nothing(desk: Desk, fault: Exception) -> None:
    """While the store fails, settled traces stay in the journal; they are stored once it works, with what came meanwhile."""
    desk.send(traces(agent("t")))
    desk.store.fault = fault
    done = desk.wait(30.0)
    assert done.traces == 0
    assert done.fault
    desk.send(traces(tool("t")))
    assert desk.wait(5.0).fault
    desk.store.fault = None
    done = desk.wait(30.0)
    assert (done.traces, done.spans, done.fault) == (1, 2, None)
    assert len(desk.store.saved) == 1


def test_a_store_that_fails_over_one_trace_stores_the_others(desk: Desk) -> None:
    """One settlement that the store cannot take does not keep the others; it is kept in the journal and tried again."""
    for name in ("a", "b", "c"):
        desk.send(traces(*run(name)))
    desk.store.refused = {trace_id("b").hex()}
    done = desk.wait(30.0)
    assert done.traces == 2
    assert trace_id("b").hex() in (done.fault or "")
    desk.store.refused = set()
    assert desk.wait(60.0).traces == 1
    assert desk.wait(30.0).fault is None


def test_a_trace_that_cannot_be_assembled_stops_no_other(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A fault of our own in assembly costs that trace its invocation, keeps its spans, is counted, and logs no content."""
    import monitor.intake.settlement as settlement

    real = settlement.reading

    def failing(spans, records, context, **rest):  # type: ignore[no-untyped-def]
        if spans[0].trace_id == trace_id("bad").hex():
            raise KeyError("secret words")
        return real(spans, records, context, **rest)

    monkeypatch.setattr(settlement, "reading", failing)
    desk.send(traces(*run("bad")))
    desk.send(traces(*run("good")))
    assert desk.wait(30.0).traces == 2
    assert desk.stored("bad") == []
    assert len(desk.stored("good")) == 1
    assert desk.store.saved[0].spans
    assert desk.count("spans_dropped_total", reason="unreadable") == 3
    assert "secret words" not in caplog.text
    assert trace_id("bad").hex() in caplog.text


def test_the_journal_is_trimmed_when_all_has_settled(open_desk: OpenDesk) -> None:
    """Segments whose traces have settled are deleted; the one being written goes as well after a quiet minute."""
    desk = open_desk(segment_bytes=3_000)
    for number in range(20):
        desk.send(traces(*run(f"t{number}")))
    assert len(desk.journal.segments()) == 5
    desk.wait(30.0)
    assert len(desk.journal.segments()) == 1
    desk.wait(40.0)
    assert desk.journal.size < 100


def test_a_long_open_trace_does_not_pin_the_journal(open_desk: OpenDesk) -> None:
    """Past the journal's max_age the survivors of an old segment are rewritten, and the trace settles whole from there."""
    desk = open_desk(segment_bytes=20_000, options=SettlementOptions(journal_max_age=300.0))
    for number in range(1, 9):
        desk.send(traces(*run(f"other{number}"), tool("long", number)))
    desk.wait(30.0)
    before = desk.journal.size
    for step in range(22):
        desk.wait(60.0)
        if step == 10:
            desk.send(traces(tool("long", 9)))
    assert desk.index.open_items > 0
    assert desk.journal.size < before / 3
    desk.restart()
    desk.send(traces(agent("long")))
    done = desk.wait(30.0)
    assert done.spans == 10
    assert len(desk.stored("long")[0].invocation.tool_calls) == 9


def test_under_pressure_mostly_settled_segments_are_rewritten(open_desk: OpenDesk) -> None:
    """A journal near its largest size is compacted before its age asks for it, so that intake goes on."""
    desk = open_desk(segment_bytes=10_000, max_bytes=60_000)
    for number in range(30):
        desk.send(traces(*run(f"other{number}"), tool("long", number)))
        desk.wait(31.0)
    assert desk.journal.size < 60_000
    desk.send(traces(agent("long")))
    desk.wait(30.0)
    assert len(desk.stored("long")[0].invocation.tool_calls) == 30


@pytest.mark.parametrize("held", [False, True])
def test_a_full_journal_of_one_segment_takes_data_again_once_all_has_settled(open_desk: OpenDesk, held: bool) -> None:
    """Within seconds, not after the minute of quiet; also where one trace of the segment stays open, which then is whole."""
    desk = open_desk(max_bytes=60_000)
    if held:
        desk.send(traces(tool("long")))
    with pytest.raises(Overloaded, match="little room"):
        for number in range(1000):
            desk.send(traces(*run(f"other{number}")))
    desk.wait(30.0)
    desk.wait(1.0)
    assert desk.journal.fullness < 0.1
    desk.send(traces(*run("next")))
    desk.send(traces(agent("long")))
    desk.wait(31.0)
    assert len(desk.stored("long")[0].invocation.tool_calls) == held


def test_a_crash_between_rewriting_and_deleting_changes_nothing(desk: Desk) -> None:
    """Survivors that lie in the old segment and in the new one are copies: one invocation, its spans once."""
    desk.send(traces(*run("other"), tool("t")))
    desk.wait(30.0)
    old = desk.journal.active
    desk.journal.rotate().result(10)
    assert rewrite_survivors(desk.journal, desk.index, old)
    assert desk.index.live_segments == {desk.journal.active}
    desk.restart()
    assert desk.replayed == 2
    desk.send(traces(agent("t")))
    done = desk.wait(30.0)
    assert (done.spans, done.duplicates, done.invocations) == (2, 1, 1)


def test_a_segment_with_much_that_is_open_is_not_rewritten_under_pressure(desk: Desk) -> None:
    """Survivors larger than the limit stay where they are."""
    desk.send(traces(tool("t"), tool("t", 2)))
    old = desk.journal.active
    desk.journal.rotate().result(10)
    assert not rewrite_survivors(desk.journal, desk.index, old, max_bytes=100)
    assert desk.index.live_segments == {old}


def test_a_frame_that_rots_costs_its_items_and_is_told(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    """A frame that cannot be read back any more is counted and logged; the rest of the trace settles."""
    desk.send(traces(tool("t")))
    desk.send(traces(agent("t")))
    path = list_segments(desk.journal.folder)[-1].path
    raw = bytearray(path.read_bytes())
    raw[raw.index(b"tool1")] ^= 0x20
    path.write_bytes(raw)
    done = desk.wait(30.0)
    assert (done.traces, done.spans, done.invocations) == (1, 1, 1)
    assert desk.count("spans_dropped_total", reason="unreadable") == 1
    assert "no intact frame" in caplog.text
    assert desk.index.open_items == 0


def test_a_frame_that_rotted_while_we_were_away_is_told(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    """A replay over a damaged frame indexes all others, counts the damage and logs where it is."""
    desk.send(traces(tool("t")))
    desk.send(traces(agent("t")))
    desk.journal.close()
    path = list_segments(desk.journal.folder)[-1].path
    raw = bytearray(path.read_bytes())
    raw[raw.index(b"tool1")] ^= 0x20
    path.write_bytes(raw)
    desk.start()
    assert desk.replayed == 1
    assert desk.count("spans_dropped_total", reason="unreadable") == 1
    assert "corrupt" in caplog.text
    assert desk.wait(30.0).invocations == 1


def test_figures_of_intake(desk: Desk) -> None:
    """Open traces, the lag of the oldest and the size of the journal are shown, and go back when all has settled."""
    desk.send(traces(tool("a"), agent("b")))
    desk.wait(10.0)
    assert desk.count("open_traces", collector="otlp") == 2
    assert desk.count("ingest_lag_seconds", collector="otlp") == 10.0
    assert desk.count("journal_bytes") == desk.journal.size > 100
    desk.wait(900.0)
    desk.wait(1.0)
    assert desk.count("open_traces", collector="otlp") == 0
    assert desk.count("ingest_lag_seconds", collector="otlp") == 0.0


def test_half_a_surrogate_pair_is_repaired_once(desk: Desk) -> None:
    """A value repaired at decoding is counted when its trace settles; late data does not count it again."""
    body = traces(agent("t")).replace(b"Until six.", b"Until si\xc3.")
    desk.send(body)
    desk.wait(30.0)
    assert desk.count("values_repaired_total") == 1
    assert desk.stored("t")[0].invocation.final_response == "Until si\ufffd."
    desk.send(traces(tool("t")))
    desk.wait(30.0)
    assert desk.count("values_repaired_total") == 1


def test_json_and_protobuf_are_one_trace(desk: Desk, shared) -> None:  # type: ignore[no-untyped-def]
    """OTLP/JSON goes to the same journal: the recorded case spans-after-the-decision, its second file within the waiting time."""
    folder = shared / "cases" / "public-reports"
    desk.send((folder / "spans-after-the-decision.1.otlp.json").read_bytes(), encoding=Encoding.JSON)
    desk.wait(10.0)
    desk.send((folder / "spans-after-the-decision.2.otlp.json").read_bytes(), encoding=Encoding.JSON)
    assert desk.wait(30.0).invocations == 1
    [change] = desk.store.saved[0].changes
    assert [call.name for call in change.invocation.tool_calls] == ["hours"]
