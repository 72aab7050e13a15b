"""Invocations of a trace that stays open: sessions, batches, connections settle run by run, and nothing is judged too soon or twice."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from monitor.intake import index
from monitor.intake.opentrace import OpenTrace
from monitor.intake.parting import Parting
from monitor.model.invocation import SettledBy
from monitor.model.run import NOT_READ, Query
from monitor.settings.tree import LateSpans
from monitor.store.protocol import StoreUnwritable
from monitor.store.sqlite import SqliteStore
from tests.intake.desk import Desk
from tests.intake.traffic import Sent, agent, message, span_id, tool, trace_id, traces

RUNS = 6
CONNECTION = Sent("t", "t.connection", end=RUNS * 60.0, attributes={"http.request.method": "GET"})


def run(number: int, name: str = "desk", parent: str = "t.connection", **changes: object) -> list[Sent]:
    """A run of an agent with a tool, below a span that has not come."""
    start = number * 60.0
    root = Sent(
        "t",
        f"t.run{number}",
        parent,
        start,
        start + 4,
        {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": name,
            "gen_ai.input.messages": message("user", f"Question {number}?"),
            "gen_ai.output.messages": message("assistant", f"Answer {number}."),
            **changes,
        },
    )
    return [tool("t", number, f"run{number}", start=start + 1, end=start + 2), root]


def stored(desk: Desk) -> list[tuple[str, int, SettledBy]]:
    """Name of the run, revision, and by what it settled."""
    names = {span_id(f"t.run{number}").hex(): f"run{number}" for number in range(20)}
    found = [one.invocation for one in desk.stored("t")]
    return sorted((names.get(one.span_id, one.span_id), one.revision, one.completeness.settled_by) for one in found)


ENDED = SettledBy.ROOT_ENDED


def test_a_session_settles_run_by_run(desk: Desk) -> None:
    """The first run may be a step of something and waits; with the second both are stored, then each when it has been quiet; the end
    of the session changes nothing.
    """
    for number in range(RUNS):
        desk.send(traces(*run(number)))
        desk.wait(29.0)
        assert len(stored(desk)) == (number if number > 1 else 0)
        done = desk.wait(2.0)
        assert done.invocations == (2 if number == 1 else 1 if number else 0)
        desk.wait(29.0)
    expected = [(f"run{number}", 1, ENDED) for number in range(RUNS)]
    assert stored(desk) == expected
    assert all(settlement.consumed == NOT_READ for settlement in desk.store.saved)
    desk.send(traces(CONNECTION))
    done = desk.wait(31.0)
    assert (done.traces, done.invocations, done.revised, done.late) == (1, 0, 0, 0)
    assert (done.spans, stored(desk)) == (2 * RUNS + 1, expected)
    assert desk.index.open_items == 0
    assert desk.store.saved[-1].spans


def test_the_last_run_of_a_session_that_breaks_off(desk: Desk) -> None:
    """The session's span never comes: what was stored stays, and the runs are settled as ended, not as idle."""
    desk.send(traces(*run(0)))
    desk.send(traces(*run(1)))
    desk.wait(31.0)
    desk.send(traces(*run(2, name="other")))
    for _ in range(2):
        desk.wait(600.0)
    assert stored(desk) == [("run0", 1, ENDED), ("run1", 1, ENDED), ("run2", 1, SettledBy.IDLE)]


@pytest.mark.parametrize("also", ["another agent", "the same question"])
def test_steps_of_a_run_that_is_under_way_are_not_stored(desk: Desk, also: str) -> None:
    """Agents below a workflow whose span comes last are its steps: nothing is stored before it has ended, then one invocation."""
    asked = {"gen_ai.input.messages": message("user", "Question 0?")} if also == "the same question" else {}
    desk.send(traces(*run(0, name="writer")))
    desk.send(traces(*run(1, name="editor" if also == "another agent" else "writer", **asked)))
    desk.wait(300.0)
    assert stored(desk) == []
    workflow = {"gen_ai.operation.name": "invoke_workflow", "gen_ai.workflow.name": "press"}
    desk.send(traces(Sent("t", "t.connection", end=400.0, attributes=workflow)))
    desk.wait(31.0)
    assert [(one, revision) for one, revision, _ in stored(desk)] == [(span_id("t.connection").hex(), 1)]


def test_late_data_of_a_stored_run(desk: Desk) -> None:
    """It revises that run alone, long before the session ends."""
    for number in range(3):
        desk.send(traces(*run(number)))
    desk.wait(31.0)
    desk.send(traces(tool("t", 7, "run0", start=3.0, end=3.5)))
    done = desk.wait(31.0)
    assert (done.invocations, done.revised) == (0, 1)
    assert stored(desk) == [("run0", 2, ENDED), ("run1", 1, ENDED), ("run2", 1, ENDED)]
    [first] = [one.invocation for one in desk.stored("t") if one.invocation.revision == 2]
    assert [call.name for call in first.tool_calls] == ["tool0", "tool7"]
    assert first.completeness.late_spans == 1
    desk.send(traces(CONNECTION))
    assert desk.wait(31.0).revised == 0


def test_ignored_late_data_of_a_stored_run(desk: Desk) -> None:
    """late_spans: ignore holds for runs of open traces, too, and at the trace's end."""
    desk.configure(late_spans=LateSpans.IGNORE)
    desk.send(traces(*run(0)))
    desk.send(traces(*run(1)))
    desk.wait(31.0)
    desk.send(traces(tool("t", 7, "run0", start=3.0, end=3.5)))
    desk.wait(31.0)
    desk.send(traces(CONNECTION, *run(2)))
    desk.wait(31.0)
    assert [(name, revision) for name, revision, _ in stored(desk)] == [("run0", 1), ("run1", 1), ("run2", 1)]
    assert len(desk.stored("t")[0].invocation.tool_calls) == 1


@pytest.mark.parametrize("restart_after", [1, 2, 3])
def test_a_restart_stores_nothing_twice(desk: Desk, restart_after: int) -> None:
    """The journal still holds the whole trace: what is stored is found again, what came meanwhile is stored."""
    invocations = 0
    for number in range(4):
        desk.send(traces(*run(number)))
        done = desk.wait(31.0)
        invocations += done.invocations
        assert done.revised == 0
        if number == restart_after:
            desk.restart()
            assert desk.replayed == 2 * (number + 1)
    assert (invocations, len(stored(desk))) == (4, 4)
    desk.send(traces(CONNECTION))
    assert desk.wait(31.0).revised == 0


def test_a_crash_after_storing_changes_nothing(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stored, but the process died before it was noted: the next one finds it stored."""
    desk.send(traces(*run(0)))
    desk.send(traces(*run(1)))
    with monkeypatch.context() as patched:
        patched.setattr(desk.index, "looked_into", lambda *_: None)
        desk.wait(31.0)
    desk.restart()
    done = desk.wait(31.0)
    assert (done.invocations, done.revised, len(stored(desk))) == (0, 0, 2)


def test_a_store_that_fails_is_tried_again(desk: Desk) -> None:
    """What could not be stored out of an open trace is stored when it is looked into again."""
    desk.send(traces(*run(0)))
    desk.send(traces(*run(1)))
    desk.store.fault = StoreUnwritable("no room")
    assert desk.wait(31.0).fault == "no room"
    desk.store.fault = None
    desk.send(traces(*run(2)))
    desk.wait(31.0)
    assert len(stored(desk)) == 3


def test_a_session_that_the_store_refuses_stops_no_other(desk: Desk) -> None:
    """A fault of one open trace is logged, and the runs of the others are stored."""
    desk.send(traces(*run(0)))
    desk.send(traces(*run(1)))
    for number in (0, 1):
        desk.send(traces(*(replace(one, trace="other") for one in run(number))))
    desk.store.refused = {trace_id("t").hex()}
    desk.wait(31.0)
    assert len(desk.stored("other")) == 2


def test_many_sessions_are_looked_into_in_turn(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a start all open traces are due for a look: a few in each step, and none is left out."""
    monkeypatch.setattr(index, "OPEN_AT_ONCE", 2)
    for number in (0, 1):
        for session in range(5):
            desk.send(traces(*(replace(one, trace=f"s{session}") for one in run(number))))
    desk.restart()
    counts = []
    for _ in range(4):
        desk.wait(31.0 if not counts else 1.0)
        counts.append(sum(len(desk.stored(f"s{session}")) for session in range(5)))
    assert counts == [4, 8, 10, 10]


def test_turns_of_model_calls_alone(desk: Desk) -> None:
    """Model calls below one open span, split by what they were told: all turns but the last, which may go on, are stored."""
    history: list[dict[str, object]] = []
    for number in range(4):
        history.append({"role": "user", "parts": [{"type": "text", "content": f"Question {number}?"}]})
        answer = {"role": "assistant", "parts": [{"type": "text", "content": f"Answer {number}."}]}
        attributes = {
            "gen_ai.operation.name": "chat",
            "gen_ai.input.messages": json.dumps(history),
            "gen_ai.output.messages": json.dumps([answer]),
        }
        history.append(answer)
        start = number * 60.0
        desk.send(traces(Sent("t", f"t.run{number}", "t.connection", start, start + 2, attributes)))
        desk.wait(31.0)
        assert len(stored(desk)) == number
    desk.send(traces(CONNECTION))
    assert desk.wait(31.0).invocations == 1
    assert stored(desk) == [(f"run{number}", 1, ENDED) for number in range(4)]


@pytest.mark.parametrize("at", [2.0, 10.0])
def test_a_root_of_its_own_waits_for_no_other(desk: Desk, at: float) -> None:
    """A trace with two roots: the agent whose root has ended is stored, whatever else is open, unless that may be a part of it."""
    desk.send(traces(agent("t", parent=""), Sent("t", "t.other", "t.gone", at, at + 1)))
    assert desk.wait(31.0).invocations == (0 if at < 4.0 else 1)
    assert desk.index.open_items == 2


def test_an_end_marker_settles_an_open_trace_as_ever(desk: Desk) -> None:
    """The marker of a session settles what is left of it at once."""
    desk.send(traces(*run(0)))
    desk.send(traces(*run(1)))
    desk.wait(31.0)
    desk.send(traces(Sent("t", "t.connection", end=100.0, attributes={"rubricd.invocation.end": True})))
    assert desk.wait(0.0).traces == 1
    assert [(name, revision) for name, revision, _ in stored(desk)] == [("run0", 1), ("run1", 1)]


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many items each look into an open trace has read."""
    counts: list[int] = []
    plain = Parting.__init__

    def watched(self: Parting, index: object, store: object, reads: Callable[[OpenTrace], object]) -> None:
        def counted(trace: OpenTrace) -> object:
            counts.append(trace.item_count)
            return reads(trace)

        plain(self, index, store, counted)  # type: ignore[arg-type]

    monkeypatch.setattr(Parting, "__init__", watched)
    return counts


def test_a_long_session_is_read_about_once(open_desk: Callable[..., Desk], read: list[int]) -> None:
    """What has been stored is not read again: a session of 200 runs costs no more than a few times its spans."""
    desk = open_desk()
    for number in range(200):
        desk.send(traces(*run(number)))
        desk.wait(31.0)
    assert len(desk.stored("t")) == 200
    assert sum(read) < 4 * 400


def test_a_long_run_is_looked_into_seldom(open_desk: Callable[..., Desk], read: list[int]) -> None:
    """A single agent at work for hours, whose span comes last, is read a few times, each when there is four times as much of it."""
    desk = open_desk()
    for number in range(300):
        desk.send(traces(tool("t", number, "connection", start=number * 40.0, end=number * 40.0 + 1)))
        desk.wait(40.0)
    assert desk.stored("t") == []
    assert len(read) <= 5
    assert sum(read) < 300


def test_open_traces_in_the_real_store(open_desk: Callable[..., Desk], tmp_path: Path) -> None:
    """Runs are stored once while their trace is open, its position in the journal only at its end, then its spans."""
    store = SqliteStore(tmp_path)
    desk = open_desk()
    desk.settled_into = store
    desk.restart()
    trace = trace_id("t").hex()
    for number in range(3):
        desk.send(traces(*run(number)))
        desk.wait(31.0)
    assert store.consumed_positions([trace]) == {trace: NOT_READ}
    desk.restart()
    desk.send(traces(CONNECTION, tool("t", 7, "run1", start=63.0, end=63.5)))
    done = desk.wait(31.0)
    assert (done.traces, done.invocations, done.revised) == (1, 0, 1)
    found = store.trace(trace)
    assert found is not None
    assert found.spans
    assert found.consumed > NOT_READ
    listed = sorted(store.list_invocations(Query(trace_id=trace)).items, key=lambda one: str(one["started_at"]))
    assert [one["revision"] for one in listed] == [1, 2, 1]
    store.close()


@pytest.mark.parametrize("seed", range(12))
def test_a_session_in_any_order_ends_the_same(open_desk: Callable[..., Desk], seed: int) -> None:
    """Spans in any order, half of them twice, settling and a restart in between: the same runs with the same meanings, none twice."""
    draw = random.Random(seed)
    spans = [one for number in range(4) for one in run(number)] + [CONNECTION]
    order = [*spans, *(one for one in spans if draw.random() < 0.5)]
    draw.shuffle(order)
    desk = open_desk()
    restart_at = draw.randrange(len(order))
    for number, one in enumerate(order):
        if number == restart_at:
            desk.restart()
        desk.send(traces(one))
        desk.wait(draw.choice([1.0, 31.0, 65.0]))
    for _ in range(2):
        desk.wait(901.0)
    found = [one.invocation for one in desk.stored("t")]
    assert sorted(one.user_input or "" for one in found) == [f"Question {number}?" for number in range(4)]
    assert sorted(len(one.tool_calls) for one in found) == [1, 1, 1, 1]
    assert desk.index.open_items == 0
