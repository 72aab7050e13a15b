"""One turn over several traces: plain model clients give each model call a trace of its own."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from monitor.assembly.pieces import Call, Piece
from monitor.intake import held as held_module
from monitor.intake import turn_settling
from monitor.intake.held import Held
from monitor.intake.loose import Loose, piece_keys
from monitor.model.invocation import SettledBy
from monitor.model.run import Query, TraceSettlement
from monitor.settings.tree import LateSpans
from monitor.store.protocol import StoreUnwritable
from monitor.store.sqlite import SqliteStore
from tests.intake.desk import Desk
from tests.intake.traffic import START, Sent, agent, span_id, trace_id, traces

QUESTION = {"role": "user", "parts": [{"type": "text", "content": "Is a table free?"}]}


def wants(number: int) -> dict[str, object]:
    """The model asks for a tool."""
    call = {"type": "tool_call", "id": f"call{number}", "name": f"tool{number}", "arguments": {"n": number}}
    return {"role": "assistant", "parts": [call]}


def got(number: int) -> dict[str, object]:
    """The tool's answer."""
    return {"role": "tool", "parts": [{"type": "tool_call_response", "id": f"call{number}", "response": f"r{number}"}]}


def said(words: str) -> dict[str, object]:
    """The model answers."""
    return {"role": "assistant", "parts": [{"type": "text", "content": words}]}


def call(number: int, *messages: dict[str, object], at: float = 0.0) -> Sent:
    """A model call in a trace of its own, `c<number>`; the last message is its output."""
    *given, out = messages
    attributes = {
        "gen_ai.operation.name": "chat",
        "gen_ai.input.messages": json.dumps(given),
        "gen_ai.output.messages": json.dumps([out]),
    }
    return Sent(f"c{number}", f"c{number}.root", start=at, end=at + 1, attributes=attributes)


FIRST = call(1, QUESTION, wants(1))
SECOND = call(2, QUESTION, wants(1), got(1), wants(2), at=10)
THIRD = call(3, QUESTION, wants(1), got(1), wants(2), got(2), said("At nine."), at=20)
LINKED = call(3, got(2), said("At nine."), at=20)
"""The third as a provider that keeps the history is sent it: it tells only of the call before."""

ONLY = call(4, QUESTION, said("Yes."), at=30)
ID = f"{trace_id('c1').hex()}-{span_id('c1.root').hex()}"


def everything(desk: Desk) -> list[tuple[str, int, int, str | None]]:
    """What is stored: id, revision, model calls, answer."""
    found = [one.invocation for number in range(1, 5) for one in desk.stored(f"c{number}")]
    return [(one.id, one.revision, one.model_calls, one.final_response) for one in found]


def test_a_turn_settles_as_one(desk: Desk) -> None:
    """Its calls come one after the other, each when the one before has been quiet for long: one invocation, once, of all of them."""
    for one in (FIRST, SECOND, THIRD):
        desk.send(traces(one))
        assert desk.wait(300.0 if one is not THIRD else 34.0).traces == 0
    done = desk.wait(1.0)
    assert (done.traces, done.spans, done.invocations, done.revised, done.late) == (3, 3, 1, 0, 0)
    assert everything(desk) == [(ID, 1, 3, "At nine.")]
    [stored] = desk.stored("c1")
    assert [made.result for made in stored.invocation.tool_calls] == ["r1", "r2"]
    assert stored.invocation.completeness.settled_by is SettledBy.ROOT_ENDED
    assert desk.index.open_items == 0
    assert not desk.index.live_segments


def test_a_call_that_waits_for_nothing_settles_soon(desk: Desk) -> None:
    """settle_after, and a moment for what came with the next batch of its sender."""
    desk.send(traces(ONLY))
    assert desk.wait(34.0).traces == 0
    assert desk.wait(1.0).invocations == 1


def test_an_agent_neither_waits_nor_asks(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """A trace with an agent's span costs no look-up and settles after settle_after. (An agent's first run asks for its set-up.)"""
    desk.send(traces(agent("first")))
    desk.wait(30.0)
    monkeypatch.setattr(desk.store, "tied_traces", None)
    desk.send(traces(agent("t")))
    assert desk.wait(30.0).invocations == 1


def test_a_turn_that_never_goes_on_settles_by_itself(desk: Desk) -> None:
    """It waits for idle_timeout; what goes on from it after that makes a revision under its id, and is no invocation of its own."""
    desk.send(traces(FIRST))
    assert desk.wait(899.0).traces == 0
    assert desk.wait(1.0).invocations == 1
    desk.send(traces(SECOND))
    desk.send(traces(THIRD))
    done = desk.wait(35.0)
    assert (done.invocations, done.revised, done.late, done.traces) == (0, 1, 2, 2)
    assert everything(desk) == [(ID, 2, 3, "At nine.")]
    [stored] = desk.stored("c1")
    assert stored.invocation.completeness.late_spans == 2
    desk.send(traces(SECOND, THIRD))  # once more: copies of what is stored
    assert (desk.wait(35.0).late, everything(desk)[0][1]) == (0, 2)


def test_what_goes_on_may_come_first(desk: Desk) -> None:
    """A call whose beginning is not here waits for it a while; after that the beginning makes a revision under the id that is stored."""
    desk.send(traces(THIRD))
    assert desk.wait(59.0).traces == 0
    assert desk.wait(1.0).invocations == 1
    desk.send(traces(FIRST, SECOND))
    desk.wait(35.0)
    [(known, revision, calls, answer)] = everything(desk)
    assert known == f"{trace_id('c3').hex()}-{span_id('c3.root').hex()}"
    assert (revision, calls, answer) == (2, 3, "At nine.")
    assert desk.store.saved[-1].changes or desk.stored("c1")[0].invocation.trace_id == trace_id("c1").hex()


def test_the_missing_link_merges_what_was_stored_apart(desk: Desk) -> None:
    """Beginning and end were stored as two; the call between them makes one of them: the later one is marked, nothing counts twice."""
    desk.send(traces(FIRST))
    desk.wait(900.0)
    desk.send(traces(LINKED))
    desk.wait(900.0)
    assert len(everything(desk)) == 2
    desk.send(traces(SECOND))
    done = desk.wait(35.0)
    assert (done.invocations, done.revised) == (0, 1)
    assert everything(desk) == [(ID, 2, 3, "At nine.")]
    merged = {gone: into for settlement in desk.store.saved for gone, into in settlement.merged.items()}
    assert merged == {f"{trace_id('c3').hex()}-{span_id('c3.root').hex()}": ID}


def test_ignored_late_calls_change_nothing(desk: Desk) -> None:
    """late_spans: ignore: what goes on from a stored turn counts as late, belongs to it, and leaves it as it is."""
    desk.configure(late_spans=LateSpans.IGNORE)
    desk.send(traces(FIRST))
    desk.wait(900.0)
    desk.send(traces(SECOND))
    desk.wait(900.0)
    desk.send(traces(THIRD))
    desk.wait(35.0)
    assert everything(desk) == [(ID, 1, 1, None)]
    assert desk.count("late_spans_total") == 2


def test_a_call_a_day_later_changes_nothing(desk: Desk) -> None:
    """What goes on more than 24 hours after the turn was stored changes it no more."""
    desk.send(traces(FIRST))
    desk.wait(900.0)
    desk.clock.advance(24 * 3600.0 + 1)
    desk.send(traces(SECOND, THIRD))
    desk.wait(900.0)
    assert everything(desk) == [(ID, 1, 1, None)]


@pytest.mark.parametrize("restart_after", [1, 2, 3])
def test_a_turn_outlives_a_restart(desk: Desk, restart_after: int) -> None:
    """Whatever had come by then, and was waiting in memory: the turn is one invocation."""
    for number, one in enumerate((FIRST, SECOND, THIRD), start=1):
        desk.send(traces(one))
        desk.wait(31.0)
        if number == restart_after:
            desk.restart()
    desk.wait(35.0)
    assert everything(desk) == [(ID, 1, 3, "At nine.")]


def test_a_store_that_fails_keeps_the_turn_together(desk: Desk) -> None:
    """While nothing can be stored the turn waits; then it is stored once."""
    desk.send(traces(FIRST))
    desk.wait(40.0)
    desk.send(traces(SECOND, THIRD))
    desk.store.fault = StoreUnwritable("no room")
    for _ in range(3):
        desk.wait(40.0)
    assert desk.index.open_items == 3
    desk.store.fault = None
    assert desk.wait(40.0).invocations == 1
    assert everything(desk) == [(ID, 1, 3, "At nine.")]
    assert desk.index.open_items == 0


def test_a_waiting_part_that_could_not_be_stored_is_due_with_the_rest(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its turn was complete, so it waits no more: whole and at once it is stored when that can be done."""
    desk.send(traces(FIRST))
    desk.wait(40.0)
    desk.send(traces(SECOND, THIRD))

    def full(settlements: Sequence[TraceSettlement]) -> None:
        raise StoreUnwritable("no room")

    with monkeypatch.context() as patched:
        patched.setattr(desk.store, "save_traces", full)
        assert desk.wait(35.0).fault == "no room"
    desk.wait(2.0)
    assert everything(desk) == [(ID, 1, 3, "At nine.")]


MORE = Sent("c4", "c4.more", "c4.root", 30.1, 30.2, {"gen_ai.operation.name": "embeddings"})


@pytest.mark.parametrize("changes", [{"keep_spans": False}, {"late_spans": LateSpans.IGNORE}])
def test_late_data_that_cannot_join_its_call(
    desk: Desk, caplog: pytest.LogCaptureFixture, changes: dict[str, object]
) -> None:
    """A span of a stored call comes late, where the call's spans are not kept or late data is ignored: it counts, changes nothing, and stops no other."""
    desk.configure(**changes)
    desk.send(traces(ONLY))
    desk.wait(35.0)
    desk.send(traces(MORE))
    desk.send(traces(agent("t")))
    assert desk.wait(35.0).fault is None
    assert desk.count("late_spans_total") == 1
    assert (len(desk.stored("t")), everything(desk)) == (1, [(everything(desk)[0][0], 1, 1, "Yes.")])
    assert (caplog.records, desk.index.open_items) == ([], 0)


def test_an_agent_that_comes_after_its_call(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    """A model call whose agent runs for longer than the idle timeout is stored by itself; when the agent's span comes, it is a revision of that."""
    under = replace(ONLY, parent="c4.agent")
    desk.send(traces(under))
    desk.wait(901.0)
    asked = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "desk"}
    desk.send(traces(Sent("c4", "c4.agent", start=29, end=2000, attributes=asked)))
    assert desk.wait(35.0).fault is None
    [(_, revision, calls, _)] = everything(desk)
    assert (revision, calls, desk.stored("c4")[0].invocation.agent_name) == (2, 1, "desk")
    assert caplog.records == []


def test_turns_that_cannot_be_told_stop_no_other(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault of ours in finding what belongs together: each trace settles by itself."""

    def broken(*_: object) -> None:
        raise IndexError

    monkeypatch.setattr(turn_settling, "affected", broken)
    desk.send(traces(FIRST, SECOND))
    desk.send(traces(agent("t")))
    desk.wait(40.0)
    assert (len(desk.stored("t")), len(everything(desk)), desk.index.open_items) == (1, 2, 0)


def test_a_turn_that_the_store_refuses_stops_no_other(desk: Desk) -> None:
    """All its traces stay in the journal and are tried again much later; others are stored."""
    desk.send(traces(FIRST, SECOND, THIRD))
    desk.send(traces(agent("t")))
    desk.store.refused = {trace_id("c2").hex()}
    desk.wait(35.0)
    assert len(desk.stored("t")) == 1
    assert everything(desk) == []
    desk.store.refused = set()
    desk.wait(61.0)
    assert everything(desk) == [(ID, 1, 3, "At nine.")]


def test_when_too_many_wait_they_settle(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Past the bound a turn is stored as far as it has come, and what follows makes revisions."""
    monkeypatch.setattr(held_module, "MAX_HELD", 0)
    for one in (FIRST, SECOND, THIRD):
        desk.send(traces(one))
        desk.wait(30.0)
    assert everything(desk) == [(ID, 3, 3, "At nine.")]


def test_a_turn_is_not_older_than_max_age(desk: Desk) -> None:
    """An application whose calls go on from one another for hours is stored when its oldest call is as old as may be."""
    for number in range(1, 40):
        messages = [QUESTION, *(one for n in range(1, number) for one in (wants(n), got(n))), wants(number)]
        desk.send(traces(call(number, *messages, at=number * 600.0)))
        desk.wait(600.0)
    [stored] = desk.stored("c1")
    assert stored.invocation.model_calls > 30
    assert stored.invocation.completeness.settled_by is SettledBy.MAX_AGE


def test_the_rest_of_a_call_that_waits(desk: Desk) -> None:
    """A span of a trace that waits, an embedding say, joins it there and is part of what is stored."""
    desk.send(traces(FIRST))
    desk.wait(100.0)
    more = Sent("c1", "c1.more", "c1.root", 0.1, 0.2, {"gen_ai.operation.name": "embeddings"})
    desk.send(traces(more))
    desk.wait(100.0)
    desk.send(traces(SECOND, THIRD))
    assert desk.wait(35.0).spans == 4
    assert everything(desk) == [(ID, 1, 3, "At nine.")]


def test_a_call_that_turns_out_to_be_an_agent(desk: Desk) -> None:
    """A richer copy of a call says that it is an agent's run: it leaves the turn, whose id and first call stay."""
    desk.send(traces(FIRST, SECOND))
    desk.wait(900.0)
    assert everything(desk) == [(ID, 1, 2, None)]
    desk.send(traces(replace(agent("c2"), start=10.0, end=12.0)))
    desk.wait(35.0)
    found = {one.invocation.id: one.invocation for number in (1, 2) for one in desk.stored(f"c{number}")}
    assert len(found) == 2
    assert (found[ID].revision, found[ID].model_calls) == (2, 1)
    assert desk.index.open_items == 0
    desk.send(traces(THIRD))
    desk.wait(900.0)
    assert len(everything(desk)) == 2


def test_a_waiting_trace_takes_about_a_kilobyte() -> None:
    """Ten thousand of them with keys of their own, in memory, measured."""
    first = Call(START, START + 1, 1, 2, 3, 4, True, (5, 6, 7))
    piece = Piece("a" * 32, "b" * 16, START, START + 1, (), 8, 9, 8, 9, False, True, 10, 10, (first,))
    waiting = Held()
    tracemalloc.start()
    for number in range(10_000):
        keys = tuple(-(10**9) * number - n for n in range(3))
        own = replace(piece, trace_id=f"{number:032x}", last_asked=10**9 + number, asked=10**9 + number)
        own = replace(own, calls=(replace(first, leaves=keys, response=2 * 10**9 + number),))
        waiting.put(Loose(own.trace_id, None, (own,)), 0.0)
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert 300 < used / 10_000 < 1_300


def test_a_key_that_very_many_have_is_looked_up_quickly() -> None:
    """Of thousands that wait under one key only those near the window are looked at, and the newest of them are found."""

    class Counted(dict[str, object]):
        """Counts how often one of them is looked at."""

        looked = 0

        def __getitem__(self, key: str) -> object:
            Counted.looked += 1
            return super().__getitem__(key)

    waiting = Held()
    waiting._traces = Counted()  # type: ignore[assignment]
    for number in range(1, 3_000):
        at = START + number * 10**9
        piece = Piece(
            "a" * 32, "b" * 16, at, at + 1, (), 8, 9, 8, 9, True, False, 10, 10, (Call(at, at, 1, 2, 3, 0, True),)
        )
        waiting.put(Loose(f"{number:032x}", None, (replace(piece, trace_id=f"{number:032x}"),)), 0.0)
    [key] = {key for key, _ in piece_keys((piece,)) if len(list(waiting.find([key], [], 9))) == 9 and key != 8} - {
        key for key, _ in piece_keys((replace(piece, says_nothing=False),))
    }
    Counted.looked = 0
    second = START // 10**9
    newest = {int(one.trace_id, 16) for one in waiting.find([], [(key, second, second + 2_500)], 4)}
    none = list(waiting.find([], [(key, second + 5_000, second + 9_000)], 4))
    assert (newest, none) == ({2_500, 2_499, 2_498, 2_497}, [])
    assert Counted.looked < 520
    for number in range(1, 3_000):
        waiting.drop(f"{number:032x}")
    assert waiting._by_key == {}


def test_turns_in_the_real_store(open_desk: Callable[..., Desk], tmp_path: Path) -> None:
    """Stored, gone on from after a restart, merged, asked for by any of its traces, counted once."""
    store = SqliteStore(tmp_path)
    desk = open_desk()
    desk.settled_into = store
    desk.restart()
    desk.send(traces(FIRST))
    desk.wait(900.0)
    desk.send(traces(LINKED))
    desk.wait(900.0)
    desk.restart()
    desk.send(traces(SECOND))
    desk.wait(35.0)
    for number in (1, 2, 3):
        [one] = store.list_invocations(Query(trace_id=trace_id(f"c{number}").hex())).items
        assert (one["id"], one["revision"], one["model_calls"], one["trace_id"]) == (ID, 2, 3, trace_id("c1").hex())
    gone = store.invocation(f"{trace_id('c3').hex()}-{span_id('c3.root').hex()}")
    assert gone is not None
    assert gone.id == ID
    store.close()
