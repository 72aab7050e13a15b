"""Scoring without a daemon: invocations from files, each judged by each rubric, nothing sampled and nothing stored."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from monitor.clock import Clock
from monitor.judging.judge import Judge
from monitor.judging.programs import judge_without_model
from monitor.judging.retry import with_retries
from monitor.judging.verdicts import verdict
from monitor.model.invocation import Invocation
from monitor.model.run import RubricRef
from monitor.model.verdict import ErrorType, EvaluationFailure, Judgement, Verdict
from monitor.rubrics.rubric import Rubric
from monitor.rubrics.version import rubric_version

MONITOR = "offline"
PROGRAMS_AT_ONCE = 4


@dataclass(frozen=True, slots=True)
class Scoring:
    """What is judged by what. `judge` is None where all rubrics are deterministic."""

    invocations: Sequence[Invocation]
    rubrics: Sequence[Rubric]
    judge: Judge | None = None


async def score(
    scoring: Scoring, clock: Clock, done: Callable[[Verdict], None], *, close: bool = True
) -> list[Verdict]:
    """Judge everything; `done` hears of each result as it comes. The result is in the order of invocations, then rubrics. The judge is closed
    at the end, unless it goes on elsewhere.
    """
    judge = scoring.judge
    room = asyncio.Semaphore(judge.settings.max_concurrency if judge else PROGRAMS_AT_ONCE)

    async def one(invocation: Invocation, rubric: Rubric) -> Verdict:
        async with room:
            judgement = await _judged(invocation, rubric, judge, clock)
        found = _verdict(invocation, rubric, judge, judgement, clock.now())
        done(found)
        return found

    tasks = [one(invocation, rubric) for invocation in scoring.invocations for rubric in scoring.rubrics]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        if judge is not None and close:
            await judge.close()


async def _judged(invocation: Invocation, rubric: Rubric, judge: Judge | None, clock: Clock) -> Judgement:
    """One judgement; temporary failures are tried again as the daemon would, without giving the place up."""
    if not rubric.judged:
        return await judge_without_model(rubric, invocation)
    if judge is None:
        failure = EvaluationFailure(ErrorType.EVALUATOR_FAILED, "no judge is configured for this rubric")
        return Judgement(None, failure=failure, threshold=rubric.threshold)
    return await with_retries(lambda: judge.evaluate(rubric, invocation), judge.settings.max_attempts, clock)


def _verdict(invocation: Invocation, rubric: Rubric, judge: Judge | None, judgement: Judgement, now: float) -> Verdict:
    asked = judge if judge and rubric.judged else None
    whole = bool(invocation.turns)
    version = (
        rubric_version(rubric, asked.settings, asked.redaction, conversations=whole)
        if asked
        else rubric_version(rubric, None, conversations=whole)
    )
    return verdict(
        invocation,
        RubricRef(rubric.name, version, asked.name if asked else None),
        judgement,
        monitor=MONITOR,
        inclusion_probability=invocation.inclusion_probability,
        revision=invocation.revision,
        judged_at=now,
    )
