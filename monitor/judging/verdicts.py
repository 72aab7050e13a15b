"""A judgement tied to the evaluation that it answers."""

from __future__ import annotations

from monitor.model.invocation import Invocation
from monitor.model.run import Evaluation, RubricRef
from monitor.model.verdict import Judgement, Verdict


def verdict_of(evaluation: Evaluation, judgement: Judgement, judged_at: float) -> Verdict:
    """The verdict, or the failed evaluation, of a claimed evaluation."""
    return verdict(
        evaluation.invocation,
        evaluation.rubric,
        judgement,
        monitor=evaluation.monitor,
        inclusion_probability=evaluation.inclusion_probability,
        revision=evaluation.revision,
        judged_at=judged_at,
    )


def verdict(
    invocation: Invocation,
    rubric: RubricRef,
    judgement: Judgement,
    *,
    monitor: str,
    inclusion_probability: float,
    revision: int,
    judged_at: float,
) -> Verdict:
    """The verdict of an invocation by a rubric version; `judged_at` in seconds since 1970-01-01Z."""
    return Verdict(
        invocation_id=invocation.id,
        trace_id=invocation.trace_id,
        span_id=invocation.span_id,
        conversation_id=invocation.conversation_id,
        agent_name=invocation.agent_name,
        agent_version=invocation.agent_version,
        environment=invocation.environment,
        ended_at=invocation.ended_at / 1e9,
        monitor=monitor,
        rubric=rubric.rubric,
        rubric_version=rubric.version,
        judge=rubric.judge,
        judgement=judgement,
        inclusion_probability=inclusion_probability,
        revision=revision,
        judged_at=judged_at,
        agent=invocation.label_agent,
    )
