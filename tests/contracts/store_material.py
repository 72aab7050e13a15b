"""Invocations, settlements, runs and verdicts for the contract of the store."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from monitor.model.invocation import (
    Capture,
    Completeness,
    Invocation,
    Message,
    SettledBy,
    ToolCall,
    ToolDefinition,
    ToolStatus,
)
from monitor.model.run import (
    Candidate,
    Decision,
    Evaluation,
    InvocationChange,
    JournalPosition,
    Page,
    Query,
    RubricRef,
    RunPlan,
    RunRequest,
    Stratum,
    TraceSettlement,
)
from monitor.model.verdict import (
    Criterion,
    ErrorType,
    EvaluationFailure,
    Judgement,
    NotSelected,
    Outcome,
    Usage,
    Verdict,
)
from monitor.store.protocol import Store

T0 = 1_790_000_000.0
BOOKING = RubricRef("booking", "aaaaaaaaaaaa", "default")
TONE = RubricRef("tone", "bbbbbbbbbbbb", None, shadow=True)
SECRET = "table for Ada Lovelace"


def hex_id(name: str, digits: int) -> str:
    """An id that looks random and is told by its name."""
    return hashlib.sha256(name.encode()).hexdigest()[:digits]


def invocation(name: str = "a", **changes: Any) -> Invocation:
    """An invocation with all that a store must give back, told by its name; everything can be changed."""
    trace, span = hex_id(name, 32), hex_id(f"{name}/root", 16)
    plain: dict[str, Any] = {
        "id": f"{trace}-{span}",
        "trace_id": trace,
        "span_id": span,
        "started_at": int(T0 * 1e9) + 1_234,
        "ended_at": int(T0 * 1e9) + 5_000_000_789,
        "convention": "gen_ai",
        "collector": "otlp",
        "conversation_id": "conversation-1",
        "agent_name": "restaurant-bot",
        "agent_version": "1.4",
        "environment": "production",
        "service": "bookings",
        "model": "gpt-4.1-mini",
        "operation": "invoke_agent",
        "system_instructions": "Be kind.",
        "user_input": SECRET,
        "history": (Message("user", ({"type": "text", "content": "Hello \U0001f600"},)),),
        "tool_definitions": (ToolDefinition("book_table", "Books.", {"type": "object"}),),
        "tool_calls": (
            ToolCall(
                "find_table",
                id="c1",
                arguments={"size": 4},
                result=None,
                result_known=True,
                status=ToolStatus.UNKNOWN,
                span_id=hex_id("c1", 16),
                started_at=int(T0 * 1e9) + 2,
                ended_at=int(T0 * 1e9) + 3,
            ),
            ToolCall(
                "book_table", id="c2", arguments="{broken", result=[1, "x"], result_known=True, status=ToolStatus.OK
            ),
            ToolCall("book_table", error="sold out", status=ToolStatus.ERROR, agent_name="helper"),
        ),
        "final_response": "Your table is booked.",
        "model_calls": 2,
        "input_tokens": 1_000,
        "output_tokens": 50,
        "attributes": {"tenant": "gold", "n": 7, "flags": [True, "x"]},
        "inclusion_probability": 0.25,
        "completeness": Completeness(
            SettledBy.ROOT_ENDED, ("system_instructions",), {"tool_calls[2].result": Capture.NOT_CAPTURED}, 1
        ),
    }
    return Invocation(**(plain | changes))


def settlement(*invocations: Invocation, **changes: Any) -> TraceSettlement:
    """A settlement of one trace with these invocations, for the monitor `m`, settled 30 s after T0."""
    rejudge = changes.pop("rejudge", False)
    digest = changes.pop("digest", "d1")
    first = invocations[0]
    plain: dict[str, Any] = {
        "trace_id": first.trace_id,
        "collector": "otlp",
        "settled_by": "root_ended",
        "settled_at": T0 + 30,
        "consumed": JournalPosition(1, 100),
        "span_count": 3,
        "late_spans": 0,
        "changes": tuple(
            InvocationChange(one, frozenset({one.span_id, hex_id(f"{one.id}/child", 16)}), digest, rejudge)
            for one in invocations
        ),
        "monitors": ("m",),
        "spans": b"raw spans of " + first.id.encode() + SECRET.encode(),
    }
    return TraceSettlement(**(plain | changes))


def request(
    monitor: str = "m", tick: float = T0 + 60, rubrics: Sequence[RubricRef] = (BOOKING,), **changes: Any
) -> RunRequest:
    """One tick, settled and started at its own time."""
    plain = {"settled_before": tick, "started_at": tick}
    return RunRequest(monitor=monitor, tick=tick, rubrics=tuple(rubrics), **(plain | changes))


def number_of(invocation_id: str) -> float:
    """A number in [0, 1) for a fake draw."""
    return int(hex_id(f"u/{invocation_id}", 8), 16) / 2**32


def take_all(candidates: Sequence[Candidate], carry: float) -> RunPlan:
    """A draw that takes everybody with probability 1/2, in one stratum."""
    decisions = tuple(Decision(c.invocation_id, True, None, number_of(c.invocation_id), 0.5, "all") for c in candidates)
    stratum = Stratum("all", len(decisions), 0.5, None, len(decisions), 0.5)
    return RunPlan(decisions, carry + 1.5, (stratum,))


def take_below(rate: float) -> Callable[[Sequence[Candidate], float], RunPlan]:
    """A draw that takes those whose fake number is below a rate."""

    def decide(candidates: Sequence[Candidate], carry: float) -> RunPlan:
        decisions = []
        for c in candidates:
            u = number_of(c.invocation_id)
            drawn = u < rate
            decisions.append(
                Decision(c.invocation_id, drawn, None if drawn else NotSelected.SAMPLED_OUT, u, rate, "all")
            )
        count = sum(d.drawn for d in decisions)
        return RunPlan(tuple(decisions), 0.0, (Stratum("all", len(decisions), rate, None, count, rate),))

    return decide


def leave_all(reason: NotSelected, detail: str = "") -> Callable[[Sequence[Candidate], float], RunPlan]:
    """A draw that takes nobody, for one reason."""
    return lambda candidates, carry: RunPlan(
        tuple(Decision(c.invocation_id, False, reason, 0.75, 0.0, "", detail) for c in candidates), carry
    )


def verdict_of(evaluation: Evaluation, outcome: Outcome = Outcome.PASS, **changes: Any) -> Verdict:
    """What a judge may say of an evaluation."""
    judged_at = changes.pop("judged_at", T0 + 100)
    plain: dict[str, Any] = {
        "outcome": outcome,
        "score": 0.72,
        "threshold": 0.5,
        "explanation": f"because of {SECRET}",
        "criteria": (
            Criterion("policy", 5, True, 5, f"policy: {SECRET}", ("quote",), {"5": 2, "4": 1}),
            Criterion("quality", None, False, 5, "does not apply"),
        ),
        "usage": Usage(3, 700, 40, 0.002),
        "judge_model": "gpt-4.1-mini-2025",
        "details": {"note": SECRET},
    }
    return verdict_with(evaluation, Judgement(**(plain | changes)), judged_at)


def failure_of(evaluation: Evaluation, kind: ErrorType = ErrorType.TIMEOUT, judged_at: float = T0 + 100) -> Verdict:
    """An evaluation that failed."""
    failure = EvaluationFailure(kind, "no answer within 60 s")
    return verdict_with(
        evaluation, Judgement(None, failure=failure, explanation=f"half an answer about {SECRET}"), judged_at
    )


def verdict_with(evaluation: Evaluation, judgement: Judgement, judged_at: float) -> Verdict:
    """A judgement tied to its evaluation."""
    one = evaluation.invocation
    return Verdict(
        invocation_id=one.id,
        trace_id=one.trace_id,
        span_id=one.span_id,
        conversation_id=one.conversation_id,
        agent_name=one.agent_name,
        agent_version=one.agent_version,
        environment=one.environment,
        ended_at=one.ended_at / 1e9,
        monitor=evaluation.monitor,
        rubric=evaluation.rubric.rubric,
        rubric_version=evaluation.rubric.version,
        judge=evaluation.rubric.judge,
        judgement=judgement,
        inclusion_probability=evaluation.inclusion_probability,
        revision=evaluation.revision,
        judged_at=judged_at,
        agent=one.label_agent,
    )


def draw_and_claim(
    store: Store, *invocations: Invocation, rubrics: Sequence[RubricRef] = (BOOKING,)
) -> list[Evaluation]:
    """Store invocations, one trace each, run a tick that takes all of them, and claim all evaluations."""
    store.save_traces([settlement(one) for one in invocations])
    store.execute_run(request(rubrics=rubrics), take_all)
    return list(store.claim_evaluations(1_000, T0 + 61, 60))


def figures(store: Store, metric: str) -> dict[tuple[str, ...], float]:
    """The tallies of a metric above 0, by the values of their labels in the order of the labels' names."""
    return {
        tuple(value for _, value in sorted(tally.labels.items())): tally.value
        for tally in store.tallies()
        if tally.metric == metric and tally.value
    }


def pages(listing: Callable[[Query], Page], **query: Any) -> Iterator[Mapping[str, Any]]:
    """All items of a listing, a page after the other."""
    page = listing(Query(**query))
    yield from page.items
    while page.next_cursor is not None:
        page = listing(Query(**query, cursor=page.next_cursor))
        yield from page.items
