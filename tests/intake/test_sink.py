"""What accept takes, rejects, drops and refuses, and that the index follows the journal."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span as SpanMessage

from collectors.sink import Encoding, MalformedRequest, Overloaded, Signal
from monitor.intake.index import Index
from monitor.intake.settling import SettlingRules
from monitor.intake.sink import EarlyDrop, Intake
from monitor.model.origin import of_backfill
from monitor.sampling import sampling_number
from tests.intake.desk import RULES, Desk
from tests.intake.traffic import agent, log, logs, pairs, run, span_id, tool, trace_id, traces

OpenDesk = Callable[..., Desk]


def names_by_draw(rate: float) -> tuple[str, str]:
    """Names of a trace that is drawn below the rate, and of one that is not."""
    numbers = {f"t{n}": sampling_number(trace_id(f"t{n}").hex()) for n in range(200)}
    return min(numbers, key=numbers.__getitem__), min(
        (n for n in numbers if numbers[n] >= rate), key=numbers.__getitem__
    )


def test_a_request_of_good_spans_is_taken_whole(desk: Desk) -> None:
    """All spans taken: no partial success, counted as received, and indexed once durable."""
    accepted = desk.send(traces(*run("t", 2)))
    assert (accepted.accepted, accepted.rejected, accepted.message) == (3, 0, "")
    assert desk.count("spans_received_total", collector="otlp") == 3
    assert desk.index.open_items == 3


def test_invalid_spans_are_rejected_one_by_one(desk: Desk) -> None:
    """A span with a wrong id is rejected alone, with a message that names the field and never its value."""
    bad = SpanMessage(trace_id=b"short", span_id=span_id("x"), name="secret", attributes=pairs({"k": "secret"}))
    accepted = desk.send(traces(agent("t"), bad, tool("t")))
    assert (accepted.accepted, accepted.rejected) == (2, 1)
    assert "spans[1].traceId" in accepted.message
    assert "secret" not in accepted.message
    assert desk.count("spans_rejected_total", collector="otlp", reason="invalid_id") == 1
    assert desk.wait(30.0).spans == 2


def test_a_request_without_a_good_span_is_answered_without_the_journal(desk: Desk) -> None:
    """Nothing kept: the answer comes at once, and nothing is written."""
    before = desk.journal.size
    accepted = desk.send(traces(SpanMessage(trace_id=bytes(16), span_id=span_id("x"))))
    assert (accepted.accepted, accepted.rejected) == (0, 1)
    assert desk.send(b"").accepted == 0
    assert desk.journal.size == before


def test_malformed_bytes_are_refused(desk: Desk) -> None:
    """Bytes that are no request raise MalformedRequest, are counted, and hold nothing in flight."""
    for _ in range(3):
        with pytest.raises(MalformedRequest):
            desk.send(b"\xff\xff\xff")
    with pytest.raises(MalformedRequest):
        desk.send(b"{", encoding=Encoding.JSON)
    assert desk.count("spans_rejected_total", collector="otlp", reason="malformed") == 4
    assert desk.intake._in_flight_bytes == 0


def test_our_own_telemetry_is_acknowledged_and_not_kept(desk: Desk) -> None:
    """Spans of the resource rubricd, and evaluation results, are dropped before the index and extend no trace."""
    desk.send(traces(agent("t")))
    desk.clock.advance(20.0)
    accepted = desk.send(traces(tool("t"), resource={"service.name": "rubricd"}))
    assert accepted.accepted == 1
    desk.send(logs(log("t", "t.root", "gen_ai.evaluation.result")), Signal.LOGS)
    assert desk.count("spans_dropped_total", reason="own_telemetry") == 2
    assert desk.wait(10.0).spans == 1


def test_only_log_records_of_agents_are_kept(desk: Desk) -> None:
    """Log records without trace id or without a GenAI event or attribute are acknowledged and dropped by count."""
    records = [log("t", "t.root"), log("t", event="http.access"), log("t", event="x", **{"gen_ai.system": "openai"})]
    untraced = log("t")
    untraced.trace_id = b""
    accepted = desk.send(logs(*records, untraced), Signal.LOGS)
    assert (accepted.accepted, accepted.rejected) == (4, 0)
    assert desk.count("log_records_received_total") == 4
    assert desk.count("spans_dropped_total", reason="not_genai") == 2
    assert desk.index.open_items == 2


def test_repaired_values_of_json_are_counted(desk: Desk, shared: Path) -> None:
    """Case half-a-surrogate-pair: taken whole, the repaired value counted."""
    body = (shared / "cases/public-reports/half-a-surrogate-pair.otlp.json").read_bytes()
    assert desk.send(body, encoding=Encoding.JSON).rejected == 0
    assert desk.count("values_repaired_total") == 1


def test_traces_that_cannot_be_drawn_are_dropped_early(desk: Desk) -> None:
    """With an early drop, spans of traces at or above the rate are acknowledged, counted and not kept; the others record the rate."""
    drawn, undrawn = names_by_draw(0.5)
    desk.intake.early_drop = EarlyDrop(0.5)
    accepted = desk.send(traces(*run(drawn), *run(undrawn)))
    assert (accepted.accepted, accepted.rejected) == (6, 0)
    assert desk.count("spans_dropped_total", reason="sampled_out") == 3
    desk.restart()
    desk.wait(30.0)
    assert [settlement.trace_id for settlement in desk.store.saved] == [trace_id(drawn).hex()]
    assert desk.store.saved[0].kept_below == 0.5
    assert len(desk.stored(drawn)[0].invocation.tool_calls) == 2


def test_an_open_trace_is_kept_whole_when_the_rate_falls(desk: Desk) -> None:
    """A reload that lowers the rate cuts no trace in the middle."""
    name = names_by_draw(0.3)[1]
    desk.send(traces(tool(name)))
    desk.intake.early_drop = EarlyDrop(0.3)
    desk.send(traces(agent(name)))
    assert desk.wait(30.0).spans == 2


def test_an_open_trace_stands_for_what_it_stood_for_at_its_beginning(desk: Desk) -> None:
    """When the rate falls or rises meanwhile, the invocation keeps the probability with which its trace was kept; a restart changes nothing."""
    drawn, undrawn = names_by_draw(0.3)
    desk.send(traces(tool(undrawn)))
    desk.intake.early_drop = EarlyDrop(0.3)
    desk.send(traces(agent(undrawn), tool(drawn)))
    desk.intake.early_drop = EarlyDrop(None)
    desk.clock.advance(1.0)
    desk.send(traces(agent(drawn)))
    desk.restart()
    desk.wait(30.0)
    assert {one.trace_id: one.kept_below for one in desk.store.saved} == {
        trace_id(undrawn).hex(): 1.0,
        trace_id(drawn).hex(): 0.3,
    }


def test_a_trace_that_was_cut_is_not_judged_as_whole_when_the_rate_rises(desk: Desk) -> None:
    """Spans dropped, then a reload to a higher rate: the rest of that trace is dropped too, as long as it goes on."""
    drawn, undrawn = names_by_draw(0.3)
    desk.intake.early_drop = EarlyDrop(0.3)
    desk.send(traces(tool(undrawn)))
    desk.intake.early_drop = EarlyDrop(None)
    for number in range(3):
        desk.clock.advance(500.0)
        desk.send(traces(tool(undrawn, number)))
    desk.send(traces(agent(undrawn), agent(drawn)))
    desk.wait(30.0)
    assert [one.trace_id for one in desk.store.saved] == [trace_id(drawn).hex()]
    assert desk.count("spans_dropped_total", reason="sampled_out") == 5


def test_a_higher_rate_holds_after_the_idle_timeout(desk: Desk) -> None:
    """From then on new traces are kept by it; until then the old rate is what kept traces stand for."""
    drawn, undrawn = names_by_draw(0.3)
    desk.intake.early_drop = EarlyDrop(0.3)
    desk.intake.early_drop = EarlyDrop(None)
    desk.clock.advance(RULES.idle_timeout - 1.0)
    desk.send(traces(agent(drawn)))
    desk.clock.advance(1.0)
    desk.send(traces(agent(undrawn)))
    desk.wait(30.0)
    assert {one.trace_id: one.kept_below for one in desk.store.saved} == {
        trace_id(drawn).hex(): 0.3,
        trace_id(undrawn).hex(): 1.0,
    }


def test_early_drop_keeps_what_the_sampling_number_says(desk: Desk) -> None:
    """Over many traces exactly those with u below the rate are kept."""
    names = [f"n{n}" for n in range(300)]
    desk.intake.early_drop = EarlyDrop(0.2)
    desk.send(traces(*(agent(name) for name in names)))
    kept = {name for name in names if trace_id(name) in desk.index}
    assert kept == {name for name in names if sampling_number(trace_id(name).hex()) < 0.2}
    assert 30 < len(kept) < 90


def test_too_much_in_flight_is_overloaded(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Past the bound of bytes in flight a request is refused at once; one request always fits; the rest is taken later."""
    reached, opened, real = threading.Event(), threading.Event(), os.fdatasync

    def held(descriptor: int) -> None:
        reached.set()
        assert opened.wait(10)
        real(descriptor)

    monkeypatch.setattr(os, "fdatasync", held)
    intake = Intake(desk.journal, desk.index, desk.telemetry, desk.clock, max_in_flight_bytes=100)
    first = intake.accept(traces(*run("a")), Signal.TRACES, Encoding.PROTOBUF, "otlp")
    assert reached.wait(10)
    with pytest.raises(Overloaded, match="in flight") as refused:
        intake.accept(traces(*run("b")), Signal.TRACES, Encoding.PROTOBUF, "otlp")
    assert 1.0 <= refused.value.retry_after_seconds <= 3.0
    assert not first.done()
    assert trace_id("a") not in desk.index
    opened.set()
    assert first.result(timeout=10).accepted == 3
    assert trace_id("a") in desk.index
    assert intake.accept(traces(*run("b")), Signal.TRACES, Encoding.PROTOBUF, "otlp").result(timeout=10).accepted == 3


def test_too_many_open_spans_are_overloaded(desk: Desk) -> None:
    """Past the bound of open spans intake refuses until something has settled."""
    index = Index(SettlingRules(), max_open_items=100)
    intake = Intake(desk.journal, index, desk.telemetry, desk.clock)
    taken = 0
    with pytest.raises(Overloaded, match="wait to settle"):
        for taken in range(100):
            intake.accept(traces(*run(f"t{taken}")), Signal.TRACES, Encoding.PROTOBUF, "otlp").result(timeout=10)
    assert 3 < taken < 10
    index.finish(index.take_due(desk.clock.now() + 30.0, 0.0, 10).taken)
    intake.accept(traces(*run("more")), Signal.TRACES, Encoding.PROTOBUF, "otlp").result(timeout=10)


def test_what_a_backfill_brings_is_counted_for_its_collector(desk: Desk) -> None:
    """Shed or refused, it has the collector's label, and no series of its own."""
    desk.index.max_open_items = 1000
    for number in range(6):
        desk.send(traces(*run(f"t{number}", 130)))
    for number in range(6, 9):
        desk.index.max_open_items = 800 if number == 8 else 1000
        with suppress(Overloaded):
            desk.intake.accept(
                traces(*run(f"t{number}")), Signal.TRACES, Encoding.PROTOBUF, of_backfill("otlp", "b")
            ).result(timeout=10)
    assert {sample.labels["collector"] for family in desk.registry.collect() if family.name == "rubricd_spans_rejected"
            for sample in family.samples if sample.value} == {"otlp"}  # fmt: skip


def test_a_full_journal_is_overloaded(open_desk: OpenDesk) -> None:
    """A journal full of unsettled data refuses, says so, and goes on when its traces have settled."""
    desk = open_desk(segment_bytes=2_000, max_bytes=10_000)
    with pytest.raises(Overloaded, match="unsettled"):
        for number in range(100):
            desk.send(traces(*run(f"t{number}")))
    assert desk.count("spans_rejected_total", collector="otlp", reason="overloaded") == 3
    desk.wait(30.0)
    desk.send(traces(*run("again")))


def test_a_disk_that_cannot_be_written_is_overloaded(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """What could not be made durable is not acknowledged and not indexed: the future fails with Overloaded, later requests at once."""
    real = os.pwritev
    broken = True

    def failing(*given: object) -> int:
        if broken:
            raise OSError(errno.ENOSPC, "full")
        return real(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "pwritev", failing)
    with pytest.raises(Overloaded, match="disk_full") as refused:
        desk.send(traces(*run("t")))
    assert refused.value.retry_after_seconds == 3.0
    with pytest.raises(Overloaded, match="disk_full") as refused:
        desk.send(traces(*run("t")))
    assert str(desk.journal.folder) not in str(refused.value)
    assert f"user id {os.geteuid()}" in str(desk.journal.fault)
    assert trace_id("t") not in desk.index
    assert desk.count("spans_received_total", collector="otlp") == 0
    broken = False
    for _ in range(1000):
        if desk.journal.fault is None:
            break
        desk.journal._committer.join(0.01)
    desk.send(traces(*run("t")))
    desk.restart()
    assert desk.replayed == 3


def test_a_closed_journal_is_overloaded(desk: Desk) -> None:
    """While closing, a request is refused as Overloaded, so that its sender tries again elsewhere or later."""
    desk.journal.close()
    with pytest.raises(Overloaded, match="closing"):
        desk.send(traces(*run("t")))
    assert desk.intake._in_flight_bytes == 0


def test_a_client_that_goes_away_cancels_nothing(desk: Desk) -> None:
    """The answer's future cannot be cancelled; the request is taken."""
    answer = desk.intake.accept(traces(*run("t")), Signal.TRACES, Encoding.PROTOBUF, "otlp")
    answer.cancel()
    assert answer.result(timeout=10).accepted == 3


def test_many_threads_at_once(desk: Desk) -> None:
    """Requests from many threads are all taken, each trace whole, and the index is what a replay would make of the journal."""

    def send(number: int) -> int:
        return desk.send(traces(*run(f"t{number % 40}", 3)[number // 40 :: 2])).accepted

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(send, range(80))) == 160
    assert desk.index.open_traces == {"otlp": 40}
    desk.restart()
    assert desk.replayed == desk.index.open_items == 160
    done = desk.wait(30.0)
    assert (done.traces, done.spans) == (40, 160)
