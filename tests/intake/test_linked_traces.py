"""Traces that only a span link ties: the daemon and `reconstruct` make the same of them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span as SpanMessage

from monitor.assembly import AssemblyContext, assemble
from monitor.intake.recorded import recorded_traces
from monitor.model.invocation import Invocation, SettledBy
from monitor.model.wire import invocation_json
from tests.intake.linked_traffic import CASES, forest, pieces_of
from tests.intake.recorded_items import Piece
from tests.intake.test_recorded_cases import Sending, any_order, compared, in_order, reversed_order, stored
from tests.intake.traffic import span_id, trace_id

RUNS = {  # by case: the root of each invocation, the agents of its tool calls, its model calls
    "executors over two traces": [("one.run", (), 2)],
    "executors over three traces": [("one.run", (), 3)],
    "a queue": [("asker.agent", (None, "worker"), 0)],
    "a queue, by what only forwards": [("asker.agent", (None, "worker"), 0)],
    "a queue, by an agent that does nothing else": [("asker.agent", ("worker",), 0)],
    "two workers of one agent": [("asker.agent", (None, "first", "second"), 0)],
    "model calls without agents": [("web.root", (), 2)],
    "model calls that ask an agent": [("web.root", (), 1), ("worker.agent", (None,), 0)],
    "lone model calls of one turn": [("one.chat", (None,), 2), ("three.take", (), 1)],
    "a batch": [("asker.agent", (None,), 0), ("other.agent", (None,), 0), ("worker.agent", (None,), 0)],
    "a new turn": [("before.agent", (), 0), ("turn.agent", (), 0)],
    "a run that goes on": [("one.agent", (None,), 1), ("three.agent", (), 0)],
    "a run that goes on with what is not here": [("two.agent", (), 0)],
    "a new turn out of a queue": [("before.agent", (), 0), ("turn.agent", (None,), 0)],
    "a request without an agent": [("worker.agent", (None,), 0)],
    "a sender that was set up elsewhere": [("asker.agent", (None, "worker"), 0)],
    "the sender is missing": [("worker.agent", (None,), 0)],
    "the sender's trace is here, but not its span": [("asker.agent", (None,), 0), ("worker.agent", (None,), 0)],
}


def reconstructed(pieces: list[Piece]) -> list[Invocation]:
    """What `reconstruct` gives."""
    context = AssemblyContext(SettledBy.IDLE, "file")
    groups = recorded_traces([(piece.body, piece.signal) for piece in pieces])
    return [made.invocation for one in groups for made in assemble(one.spans, one.logs, context, one.beside)]


def id_of(name: str) -> str:
    """The id of the invocation with that root."""
    return f"{trace_id(name.split('.', maxsplit=1)[0]).hex()}-{span_id(name).hex()}"


@pytest.mark.parametrize("case", RUNS)
def test_what_a_link_ties(case: str) -> None:
    """A message's receiver is a part of the run that sent it; a batch, a new turn, and who is sent nothing by a run stand by themselves."""
    found = [
        (one.id, tuple([call.agent_name for call in one.tool_calls]), one.model_calls)
        for one in reconstructed(pieces_of(CASES[case]))
    ]
    assert sorted(found) == sorted([(id_of(root), calls, models) for root, calls, models in RUNS[case]])


def test_a_run_that_goes_on_ends_with_its_last_answer() -> None:
    """The first run asked before it called its tool; the next has the tool's answer and the final one. Its question is the first one's."""
    [one, _] = sorted(reconstructed(pieces_of(CASES["a run that goes on"])), key=lambda run: run.started_at)
    assert (one.agent_name, one.user_input, one.final_response) == ("clerk", "Refund it.", "Paid.")
    assert [(call.name, call.result) for call in one.tool_calls] == [("refund", "paid")]
    assert one.ended_at - one.started_at == 11 * 10**9


@pytest.mark.parametrize("restarts", [False, True], ids=["one process", "restart"])
@pytest.mark.parametrize("sending", [in_order, reversed_order, any_order])
def test_the_daemon_makes_the_same_of_them(sending: Sending, restarts: bool) -> None:
    """In order, reversed, shuffled with half of it twice; with and without a restart in the middle: equal JSON for every case."""
    differing = []
    for case, spans in CASES.items():
        draw = random.Random(case)
        batches = sending(pieces_of(spans), draw)
        restart_at = draw.randrange(len(batches)) if restarts else -1
        expected: list[dict[str, Any]] = [invocation_json(one) for one in reconstructed(pieces_of(spans))]
        if stored(batches, restart_at) != compared(expected):
            differing.append(case)
    assert differing == []


def test_whatever_is_linked_to_whatever() -> None:
    """Twenty forests of traces at random, sent in any way: equal JSON."""
    sizes = []
    for seed in range(20):
        draw = random.Random(seed)
        spans = forest(draw)
        found = reconstructed(pieces_of(spans))
        sent = draw.choice([in_order, reversed_order, any_order])(pieces_of(spans), draw)
        expected: list[dict[str, Any]] = [invocation_json(one) for one in found]
        assert stored(sent, draw.choice([-1, draw.randrange(len(sent))])) == compared(expected), seed
        sizes.append((len({span.trace_id for span in spans}), len(found)))
    assert any(runs < traces for traces, runs in sizes)


def test_links_lose_and_double_nothing() -> None:
    """A hundred forests with their links and without: other runs, but together the same model calls and tool calls."""

    def work(spans: Sequence[SpanMessage]) -> tuple[int, int, list[str]]:
        found = reconstructed(pieces_of(spans))
        return (
            len(found),
            sum(one.model_calls or 0 for one in found),
            sorted(c.name for one in found for c in one.tool_calls),
        )

    merged = 0
    for seed in range(100):
        spans = forest(random.Random(seed))
        runs, *tied = work(spans)
        for span in spans:
            del span.links[:]
        apart, *others = work(spans)
        assert tied == others, seed
        merged += runs < apart
    assert merged > 30
