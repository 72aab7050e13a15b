"""Scoring without a daemon: invocations from files, each judged by each rubric, nothing sampled and nothing stored."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from monitor.clock import Clock
from monitor.judging.judge import Judge, judge_deterministic
from monitor.model.invocation import Invocation
from monitor.model.verdict import ErrorType, EvaluationFailure, Judgement, Verdict
from monitor.rubrics.rubric import Rubric
from monitor.rubrics.version import rubric_version

MONITOR = "offline"


@dataclass(frozen=True, slots=True)
class Scoring:
    """What is judged by what. `judge` is None where all rubrics are deterministic."""

    invocations: Sequence[Invocation]
    rubrics: Sequence[Rubric]
    judge: Judge | None = None


async def score(scoring: Scoring, clock: Clock, done: Callable[[Verdict], None]) -> list[Verdict]:
    """Judge everything; `done` hears of each result as it comes. The result is in the order of invocations, then rubrics."""
    judge = scoring.judge
    room = asyncio.Semaphore(judge.settings.max_concurrency if judge else 1)

    async def one(invocation: Invocation, rubric: Rubric) -> Verdict:
        async with room:
            verdict = _verdict(invocation, rubric, judge, await _judged(invocation, rubric, judge, clock), clock.now())
        done(verdict)
        return verdict

    tasks = [one(invocation, rubric) for invocation in scoring.invocations for rubric in scoring.rubrics]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        if judge is not None:
            await judge.close()


async def _judged(invocation: Invocation, rubric: Rubric, judge: Judge | None, clock: Clock) -> Judgement:
    """One judgement; temporary failures are tried again as the daemon would, without giving the place up."""
    if not rubric.judged:
        return await asyncio.to_thread(judge_deterministic, rubric, invocation)
    if judge is None:
        failure = EvaluationFailure(ErrorType.EVALUATOR_FAILED, "no judge is configured for this rubric")
        return Judgement(None, failure=failure, threshold=rubric.threshold)
    judgement = await judge.evaluate(rubric, invocation)
    for attempt in range(1, judge.settings.max_attempts):
        if judgement.failure is None or not judgement.failure.temporary:
            break
        await clock.sleep(judgement.failure.retry_after_seconds or min(30.0, 2.0**attempt))
        judgement = await judge.evaluate(rubric, invocation)
    return judgement


def _verdict(invocation: Invocation, rubric: Rubric, judge: Judge | None, judgement: Judgement, now: float) -> Verdict:
    settings = judge.settings if judge and rubric.judged else None
    return Verdict(
        invocation_id=invocation.id,
        trace_id=invocation.trace_id,
        span_id=invocation.span_id,
        conversation_id=invocation.conversation_id,
        agent_name=invocation.agent_name,
        agent_version=invocation.agent_version,
        environment=invocation.environment,
        ended_at=invocation.ended_at / 1e9,
        monitor=MONITOR,
        rubric=rubric.name,
        rubric_version=rubric_version(rubric, settings),
        judge=judge.name if judge and rubric.judged else None,
        judgement=judgement,
        inclusion_probability=invocation.inclusion_probability,
        revision=invocation.revision,
        judged_at=now,
        agent=invocation.label_agent,
    )
