"""Settlements in the real store: what is consumed, revised and merged there is what intake meant."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from collectors.sink import Encoding, Signal
from monitor.model.origin import of_backfill, waits_as
from monitor.model.run import Query, StoredTrace
from monitor.model.tallies import TallyName
from monitor.store.sqlite import SqliteStore
from tests.contracts.store_material import request, take_all, verdict_of
from tests.intake.desk import Desk
from tests.intake.pipeline import Pipeline
from tests.intake.traffic import agent, run, span_id, tool, trace_id, traces

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    """A store in a folder of its own."""
    opened = SqliteStore(tmp_path)
    yield opened
    opened.close()


@pytest.fixture
def desk(open_desk: Callable[..., Desk], store: SqliteStore) -> Desk:
    """A desk over the real store."""
    made: Desk = open_desk()
    made.settled_into = store
    made.restart()
    return made


def test_a_trace_is_stored_revised_and_not_read_again(desk: Desk, store: SqliteStore) -> None:
    """First settlement, duplicates, late data, and a restart that finds nothing to do."""
    trace = trace_id("t").hex()
    desk.send(traces(*run("t", 1)))
    desk.send(traces(tool("open")))
    assert desk.wait(30.0).invocations == 1
    desk.send(traces(*run("t", 1)))
    done = desk.wait(30.0)
    assert (done.duplicates, done.late) == (2, 0)
    desk.send(traces(tool("t", 2)))
    assert desk.wait(30.0).revised == 1
    stored = store.trace(trace)
    assert stored is not None
    [one] = stored.invocations
    assert one.invocation.id == f"{trace}-{span_id('t.root').hex()}"
    assert one.invocation.revision == 2
    full = store.invocation(one.invocation.id)
    assert full is not None
    assert [call.name for call in full.tool_calls] == ["tool1", "tool2"]
    assert stored.late_spans == 1
    desk.restart()
    assert desk.replayed == 1


def test_erased_content_does_not_come_back_with_late_data(desk: Desk, store: SqliteStore) -> None:
    """After `forget`, late spans are counted and bring nothing back."""
    desk.send(traces(agent("t")))
    desk.wait(30.0)
    assert store.forget(trace_id=trace_id("t").hex()) == 1
    desk.send(traces(tool("t")))
    done = desk.wait(30.0)
    assert (done.late, done.revised) == (1, 0)
    stored = store.trace(trace_id("t").hex())
    assert stored is not None
    assert stored.spans is None
    assert stored.invocations[0].invocation.final_response is None


@pytest.mark.parametrize("kind", [[], ["few"], ["turns"]], ids=["traces", "parked", "turns"])
def test_every_acknowledged_trace_is_stored_once_whatever_dies(tmp_path: Path, kind: list[str]) -> None:
    """A process killed while it accepts, settles, stores and trims: afterwards each acknowledged trace, or turn over two traces, is one
    invocation, counted once.
    """
    acknowledged: set[int] = set()
    for killing in range(3):
        command = [sys.executable, "-m", "tests.intake.pipeline", str(tmp_path), str(killing * 1_000_000), *kind]
        child = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE)
        assert child.stdout is not None
        lines = [child.stdout.readline() for _ in range(60 + 41 * killing)]
        child.send_signal(signal.SIGKILL)
        lines += child.stdout.read().splitlines(keepends=True)
        child.wait(10)
        child.stdout.close()
        acknowledged |= {int(line) for line in lines if line.endswith(b"\n")}
    pipeline = Pipeline(tmp_path)
    pipeline.settler.listen(0.0)
    while pipeline.index.open_items:
        pipeline.settler.step(pipeline.clock.now() + 1000.0)
    stored = {number: pipeline.store.trace(trace_id(f"t{number}").hex()) for number in acknowledged}
    counted = sum(tally.value for tally in pipeline.store.tallies() if tally.metric == TallyName.INVOCATIONS)
    traces_stored = len(pipeline.store.list_invocations(Query(limit=1000)).items)
    pipeline.close()
    assert len(acknowledged) > 250
    for trace in stored.values():
        assert trace is not None
        [one] = trace.invocations
        assert len(one.span_ids) == 2
    assert counted == traces_stored
    assert len(acknowledged) <= traces_stored <= len(acknowledged) + 6  # two under way at each kill


def test_late_data_for_a_damaged_row_holds_up_no_other_trace(desk: Desk, store: SqliteStore) -> None:
    """A stored invocation that cannot be read costs its own late data, counted as unreadable; all other traces settle."""
    desk.send(traces(agent("bad")))
    desk.wait(30.0)
    store._writer.call(lambda c: c.execute("UPDATE invocation_content SET body = X'0178ff'"))
    desk.send(traces(tool("bad")))
    desk.send(traces(agent("good")))
    done = desk.wait(30.0)
    assert (done.invocations, done.fault) == (1, None)
    assert store.trace(trace_id("good").hex()) is not None
    assert desk.count("spans_dropped_total", reason="unreadable") == 1
    assert desk.index.open_items == 0


def test_a_verdict_that_comes_while_late_data_settles_is_replaced(
    desk: Desk, store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that finishes between the settler's reading and its storing judged the old revision: the new one is judged too."""
    desk.send(traces(agent("t")))
    desk.wait(30.0)
    now = desk.clock.now()
    store.execute_run(request("quality", now + 1.0), take_all)
    [evaluation] = store.claim_evaluations(10, now, 600.0)
    read = store.trace

    def finish_then_give(trace: str) -> StoredTrace | None:
        found = read(trace)
        store.finish_evaluations([(evaluation, verdict_of(evaluation))])
        return found

    monkeypatch.setattr(store, "trace", finish_then_give)
    desk.send(traces(tool("t")))
    assert desk.wait(30.0).revised == 1
    [again] = store.claim_evaluations(10, desk.clock.now(), 600.0)
    assert (again.id, again.revision) == (evaluation.id, 2)


def test_what_was_read_again_waits_for_its_backfill_alone(desk: Desk, store: SqliteStore) -> None:
    """Spans of a backfill wait for no monitor, also after a restart; they keep their collector; what is delivered live besides is live."""
    origin = of_backfill("tempo/prod", "backfill-3")
    past, both = traces(*run("past", 1)), traces(*run("both", 1))
    for body in (past, both):
        desk.intake.accept(body, Signal.TRACES, Encoding.PROTOBUF, origin).result(timeout=10)
    assert desk.index.unsettled(origin) == 2
    desk.restart()
    assert desk.index.unsettled(origin) == 2
    desk.send(both)
    assert desk.index.unsettled(origin) == 1
    assert desk.wait(30.0).invocations == 2
    assert desk.index.unsettled(origin) == 0
    assert store.oldest_waiting("quality") is not None
    run_ = store.execute_run(request("quality", settled_before=desk.clock.now() + 1), take_all)
    assert run_.considered == 1
    [invocation] = store.list_invocations(Query(trace_id=trace_id("past").hex(), limit=10)).items
    assert invocation["collector"] == "tempo/prod"
    assert [one["monitor"] for one in store.decisions(trace_id("past").hex())] == ["backfill-3"]
    assert store.drop_unwanted_content() == 0
    store.retire_monitors(["quality"])
    assert store.release_waiting(waits_as("backfill-3")) == 1
    assert store.drop_unwanted_content() == 1
