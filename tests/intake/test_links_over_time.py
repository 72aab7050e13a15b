"""Traces that a span link ties and that do not come together: what waits, what is stored, and what is revised when the other comes."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span as SpanMessage

from monitor.assembly.linking import How, Linked, Target
from monitor.intake import held, linking
from monitor.intake import links as links_module
from monitor.intake.later import assemble_later
from monitor.intake.links import Links
from monitor.intake.loose import Loose, packed, unpacked
from monitor.intake.sink import EarlyDrop
from monitor.model.invocation import Invocation
from monitor.model.run import Query
from monitor.sampling import sampling_number
from monitor.settings.tree import LateSpans
from monitor.store.sqlite import SqliteStore
from tests.intake.desk import Desk
from tests.intake.linked_traffic import (
    CASES,
    agent,
    asking,
    executor,
    forest,
    pieces_of,
    send,
    take,
    tool,
    worker,
    workflow,
)
from tests.intake.test_linked_traces import id_of, reconstructed
from tests.intake.traffic import trace_id, traces

ASKER = asking("asker")
WORKER = worker("worker", ("asker", "asker.send"))
ALONE = [("asker.agent", 1, (None,)), ("worker.agent", 1, (None,))]
AS_ONE = (None, "worker")

Stored = list[tuple[str, int, tuple[str | None, ...]]]


def stored(desk: Desk, *names: str) -> Stored:
    """What is stored of traces: root, revision, agents of the tool calls."""
    roots = {id_of(f"{name}.{root}"): f"{name}.{root}" for name in names for root in ("agent", "run")}
    found = [one.invocation for name in names for one in desk.stored(name)]
    made = [(roots[one.id], one.revision, tuple([call.agent_name for call in one.tool_calls])) for one in found]
    return sorted(made, key=lambda one: one[0])


def both(desk: Desk) -> Stored:
    """Asker and worker."""
    return stored(desk, "asker", "worker")


def test_what_is_sent_while_the_sender_waits_settles_with_it(desk: Desk) -> None:
    """Both are due within the same seconds: one invocation, once, and nothing is left."""
    desk.send(traces(*WORKER))
    desk.wait(20.0)
    desk.send(traces(*ASKER))
    assert desk.wait(34.0).traces == 0
    done = desk.wait(1.0)
    assert (done.traces, done.spans, done.invocations, done.revised, done.late) == (2, 6, 1, 0, 0)
    assert both(desk) == [("asker.agent", 1, AS_ONE)]
    assert (desk.index.open_items, desk.index.live_segments) == (0, set())


def test_a_sender_that_settled_long_ago_is_revised(desk: Desk) -> None:
    """What was sent comes an hour later: a revision under the sender's id, and no invocation of its own."""
    desk.send(traces(*ASKER))
    assert desk.wait(30.0).invocations == 1
    desk.clock.advance(3600.0)
    desk.send(traces(*WORKER))
    done = desk.wait(35.0)
    assert (done.invocations, done.revised, done.late) == (0, 1, 3)
    assert both(desk) == [("asker.agent", 2, AS_ONE)]
    desk.send(traces(*WORKER, *ASKER))  # once more: copies of what is stored
    desk.wait(35.0)
    assert both(desk) == [("asker.agent", 2, AS_ONE)]


@pytest.mark.parametrize("restarts", [False, True], ids=["one process", "restart"])
def test_a_receiver_that_came_first_stands_alone_until_the_sender_comes(desk: Desk, restarts: bool) -> None:
    """It waits a minute and no longer. The sender makes a revision under the id that is stored, also after a restart."""
    desk.send(traces(*WORKER))
    assert desk.wait(59.0).traces == 0
    assert desk.wait(1.0).invocations == 1
    assert both(desk) == ALONE[1:]
    if restarts:
        desk.restart()
    desk.send(traces(*ASKER))
    done = desk.wait(35.0)
    assert (done.invocations, done.revised) == (0, 1)
    [stored] = desk.stored("asker")
    assert (stored.invocation.id, stored.invocation.revision) == (id_of("worker.agent"), 2)
    assert (stored.invocation.agent_name, stored.invocation.final_response) == ("asker", "Done asker.")
    assert not desk.stored("worker")


def test_a_receiver_waits_while_the_sender_is_open(desk: Desk) -> None:
    """Some of the sender is here, but not its end: what was sent waits for idle_timeout at most."""
    for open_part, *rest in ((ASKER[0], *ASKER[1:]), (asking("late")[0],)):
        name = "asker" if rest else "late"
        desk.send(traces(open_part))
        desk.send(traces(*worker(f"w.{name}", (name, f"{name}.send"))))
        for _ in range(8):
            desk.wait(100.0)
            desk.send(traces(open_part))  # still at work
        assert not desk.store.saved
        if rest:
            desk.send(traces(*rest))
            assert desk.wait(35.0).invocations == 1
            desk.store.saved.clear()
    assert desk.wait(100.0).invocations == 1


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0), (2, 0, 1), (1, 0, 2), (0, 2, 1)])
def test_a_chain_in_any_order_ends_as_one(desk: Desk, order: Sequence[int]) -> None:
    """Three executors, each settled long before the next comes: one invocation of all model calls, whatever came first."""
    chain = [
        workflow("one"),
        executor("two", ("one", "one.message"), at=3.0),
        executor("three", ("two", "two.message"), at=6.0),
    ]
    for part in order:
        desk.send(traces(*chain[part]))
        desk.wait(1000.0)
        desk.wait(1000.0)
    found = [one.invocation for name in ("one", "two", "three") for one in desk.stored(name)]
    assert [(one.span_id, one.model_calls) for one in found] == [(id_of("one.run").partition("-")[2], 3)]


def test_a_late_sending_span_merges_what_was_stored_apart(tmp_path: Path, open_desk: Callable[..., Desk]) -> None:
    """Both were stored, because the span between them was late: it makes one of them, and the id of the other leads to it."""
    store, desk = SqliteStore(tmp_path, assemble_later), open_desk()
    desk.settled_into = store
    desk.restart()
    message, *rest = ASKER
    desk.send(traces(*rest))
    desk.wait(60.0)
    desk.send(traces(*WORKER))
    desk.wait(60.0)
    assert len(store.list_invocations(Query()).items) == 2
    desk.send(traces(message))
    desk.wait(35.0)
    [one] = store.list_invocations(Query()).items
    assert (one["id"], one["revision"]) == (id_of("asker.agent"), 2)
    merged = store.invocation(id_of("worker.agent"))
    assert merged is not None
    assert merged.id == id_of("asker.agent")
    store.close()


@pytest.mark.parametrize("first", [ASKER, WORKER])
@pytest.mark.parametrize("rule", ["ignore", "a day later", "no spans"])
def test_what_may_not_change_any_more_is_left_alone(desk: Desk, first: list[SpanMessage], rule: str) -> None:
    """late_spans: ignore, more than a day, or without stored spans: what comes is stored by itself, whichever of the two it is."""
    if rule != "a day later":
        desk.configure(**{"late_spans": LateSpans.IGNORE} if rule == "ignore" else {"keep_spans": False})
    desk.send(traces(*first))
    desk.wait(60.0)
    desk.clock.advance(24 * 3600.0 + 61 if rule == "a day later" else 0.0)
    desk.send(traces(*(ASKER if first is WORKER else WORKER)))
    desk.wait(60.0)
    assert both(desk) == ALONE


@pytest.mark.parametrize("named", ["asker", "worker"])
def test_late_spans_of_either_revise_the_whole(desk: Desk, named: str) -> None:
    """A tool run that came late, of the sender or of the receiver: one invocation still, with that call."""
    late = [span for span in (*ASKER, *WORKER) if span.name == "worker.tool"]
    if named == "asker":
        late = [tool("asker", 5.0, 6.0)]
        late[0].span_id, late[0].name = b"latespan", "asker.other"
    desk.send(traces(*(span for span in (*ASKER, *WORKER) if span not in late)))
    desk.wait(40.0)
    before = both(desk)
    desk.send(traces(*late))
    desk.wait(40.0)
    calls = (None, "worker", None) if named == "asker" else AS_ONE
    assert (len(before), both(desk)) == (1, [("asker.agent", 2, calls)])


def test_a_sender_that_was_dropped_at_intake_is_not_made_up(desk: Desk) -> None:
    """Only the receiver's trace is kept by its number: it waits as for any other, and is stored as what it is."""
    by_number = sorted((sampling_number(trace_id(name).hex()), name) for name in map("t{}".format, range(20)))
    receiver, sender = by_number[0][1], by_number[-1][1]
    desk.intake.early_drop = EarlyDrop(by_number[-1][0])
    desk.send(traces(*asking(sender), *worker(receiver, (sender, f"{sender}.send"))))
    assert desk.wait(60.0).invocations == 1
    assert stored(desk, sender, receiver) == [(f"{receiver}.agent", 1, (None,))]
    assert desk.store.saved[-1].kept_below == by_number[-1][0]


def test_what_only_forwards_is_not_kept(desk: Desk) -> None:
    """Queues without agents: nothing is stored but that the trace was read, and nothing waits on."""
    desk.send(traces(send("relay", "relay.take"), take("relay", ("gone", "gone.send"))))
    assert desk.wait(59.0).traces == 0
    assert desk.wait(1.0).traces == 1
    [told] = desk.store.saved
    assert (told.spans, told.changes, told.tie) == (None, (), None)


def test_many_that_only_forward_keep_nobody_from_waiting(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Past a quarter of all that may wait they settle as they are; what an agent did waits as before."""
    monkeypatch.setattr(held, "MAX_HELD", 4)
    for number in range(3):
        desk.send(traces(send(f"r{number}", f"r{number}.take"), take(f"r{number}", ("gone", "gone.send"))))
    desk.send(traces(*WORKER))
    assert (desk.wait(40.0).traces, desk.index.open_items) == (2, 5)
    assert (desk.wait(20.0).traces, desk.index.open_items) == (2, 0)


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (3, 2, 1, 0), (2, 0, 3, 1)])
def test_only_the_earliest_of_very_many_belong_to_a_run(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, order: Sequence[int]
) -> None:
    """Past the bound what was sent stands by itself: the latest, in whatever order they come."""
    monkeypatch.setattr(linking, "MOST_LINKED", 3)
    names = [f"w{number}" for number in range(4)]
    desk.send(traces(*ASKER))
    desk.wait(40.0)
    for number in order:
        desk.send(traces(*worker(names[number], ("asker", "asker.send"), at=3.0 + number)))
        desk.wait(70.0)
    found = {root: calls for root, _, calls in stored(desk, "asker", *names)}
    assert found == {"asker.agent": (None, "w0", "w1"), "w2.agent": (None,), "w3.agent": (None,)}


def test_a_run_of_a_session_that_is_open(desk: Desk) -> None:
    """The sender was stored out of an open trace: what it sent is stored alone, and becomes a part of it when the trace ends."""
    runs = [agent("talk", "talk.session", at, at + 9.0, f"At {at}?") for at in (0.0, 20.0, 40.0)]
    for number, run in enumerate(runs):
        run.span_id = bytes([number + 1]) * 8
    called = tool("talk")
    called.parent_span_id = runs[0].span_id
    session = tool("talk", 0.0, 90.0)
    session.span_id, session.parent_span_id, session.name = send("talk", "talk.session").parent_span_id, b"", "session"
    del session.attributes[:]
    desk.send(traces(send("talk", "talk.tool"), called, *runs))
    desk.wait(40.0)
    desk.send(traces(*worker("worker", ("talk", "talk.send"))))
    for _ in range(12):
        desk.wait(80.0)
        desk.send(traces(runs[2]))
    before = [len(desk.stored(name)) for name in ("talk", "worker")]
    desk.send(traces(session))
    desk.wait(1000.0)
    found = [one.invocation for name in ("talk", "worker") for one in desk.stored(name)]
    assert before == [3, 1]
    assert sorted(len(one.tool_calls) for one in found) == [0, 0, 2]


TOGETHER = sorted(
    set(CASES) - {"a queue, by what only forwards"}
)  # what only forwards is not kept when it settles apart


@pytest.mark.parametrize("case", [*TOGETHER, *(f"forest {number}" for number in range(12))])
def test_traces_that_settle_apart_end_as_reconstruct_says(case: str, open_desk: Callable[..., Desk]) -> None:
    """In any order, with pauses in which they settle and with restarts: the same runs, whatever id they had got."""

    def told(found: Iterable[Invocation]) -> list[tuple[object, ...]]:
        return sorted(
            (
                one.agent_name or "",
                one.user_input or "",
                one.final_response or "",
                one.model_calls,
                tuple(c.name for c in one.tool_calls),
            )
            for one in found
        )

    spans = (
        CASES[case]
        if case in CASES
        else forest(random.Random(case), ("asker", "worker", "worker", "executor", "clerk"))
    )
    expected = told(reconstructed(pieces_of(spans)))
    names = sorted({span.trace_id.hex() for span in spans})
    for seed in range(2):
        draw, desk = random.Random(f"{case} {seed}"), open_desk()
        for trace in draw.sample(names, len(names)):
            desk.send(traces(*(span for span in spans if span.trace_id.hex() == trace)))
            desk.wait(draw.choice((1.0, 32.0, 40.0, 70.0, 1000.0)))
            if draw.random() < 0.3:
                desk.restart()
        desk.wait(1000.0)
        desk.wait(1000.0)
        assert told([one.invocation for name in names for one in desk.store.invocations(name)]) == expected


def test_what_is_kept_of_a_linked_trace_is_small_and_comes_back() -> None:
    """Some sixty bytes for one link; packing loses nothing, and an older program's pieces are still read."""
    linked = Linked(trace_id("a").hex(), (Target("b" * 16, How.QUEUED), Target("c" * 16, How.PASSED)))
    for one in (Loose("d" * 32, "e" * 32, (), linked, 7), Loose("d" * 32, None, (), None, 2**62)):
        kept = packed(one)
        assert unpacked(one.trace_id, one.turn, kept) == one
        assert 0 < len(kept) < 65
    assert unpacked("d" * 32, None, b"") == Loose("d" * 32, None)


def test_what_is_awaited_has_a_bound(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Past it the oldest is forgotten."""
    monkeypatch.setattr(links_module, "MAX_AWAITED", 2)
    waiting = desk.settler._turns._links
    assert isinstance(waiting, Links)
    waiting.remember()
    for name in ("one", "two", "one", "three"):
        waiting.note(Linked(name, ()))
    assert [waiting.awaited(name) for name in ("one", "two", "three")] == [True, False, True]
