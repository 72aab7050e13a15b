"""Judges checked against themselves and against golden cases: verdicts asked for again, beside the evaluations and never counted as any.

A step asks a few and keeps what came of them. What fails is asked again later; a process that dies asks again what it had not kept.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from monitor.clock import Clock
from monitor.judging.definitions import Definitions, DrawnFor
from monitor.judging.golden import GoldenCase
from monitor.judging.judge import Judge
from monitor.model.evidence import LoggedVerdict
from monitor.model.invocation import Invocation
from monitor.model.labels import Against, JudgeCheck
from monitor.model.run import RubricRef
from monitor.model.verdict import Outcome
from monitor.settings.privacy import NOTHING, Redaction
from monitor.store.protocol import Store

LOG = logging.getLogger(__name__)

AT_ONCE = 4
LOG_BATCH = 200
RETRY_SECONDS = 600.0
_CURSOR = "self_checks"


@dataclass(frozen=True, slots=True)
class CheckPlan:
    """How the judges of a monitor are checked: the share of verdicts asked for twice, the golden cases, and every how many seconds those; and what
    its judges are not to see.
    """

    monitor: str
    rubrics: tuple[RubricRef, ...]
    judge_twice: float = 0.0
    golden: tuple[GoldenCase, ...] = ()
    every: float = 86400.0
    redaction: Redaction = NOTHING


@dataclass(frozen=True, slots=True)
class _Question:
    """One verdict to ask for again."""

    against: Against
    ref: RubricRef
    key: str
    expected: str
    invocation: Invocation
    round: float
    redaction: Redaction


class JudgeChecks:
    """Asks judges again. Used from one event loop; `step` is called again and again."""

    def __init__(
        self,
        store: Store,
        judges: Callable[[], Mapping[str, Judge]],
        clock: Clock,
        plans: Callable[[], Sequence[CheckPlan]],
    ) -> None:
        self._store, self._judges, self._clock, self._plans = store, judges, clock, plans
        self._definitions = Definitions(store)
        self._asked_at: dict[tuple[str, str, float], float] = {}

    async def step(self) -> bool:
        """Ask what is due; whether there may be more at once."""
        plans = [plan for plan in self._plans() if plan.rubrics and (plan.judge_twice > 0 or plan.golden)]
        if not plans:
            return False
        golden = await asyncio.to_thread(self._golden_due, plans)
        for begin in range(0, len(golden), AT_ONCE):
            await self._ask(golden[begin : begin + AT_ONCE])
        rows, cursor = await asyncio.to_thread(self._logged)
        again = await asyncio.to_thread(self._drawn_twice, rows, plans)
        for begin in range(0, len(again), AT_ONCE):
            await self._ask(again[begin : begin + AT_ONCE])
        if rows:
            await asyncio.to_thread(self._store.set_state, _CURSOR, cursor)
        return len(rows) == LOG_BATCH

    # -- golden cases
    def _golden_due(self, plans: Sequence[CheckPlan]) -> list[_Question]:
        """The cases of rounds that are due and not yet answered."""
        now, due = self._clock.now(), []
        for plan in plans:
            if not plan.golden:
                continue
            round_ = now // plan.every * plan.every
            checks = self._store.judge_checks(round_)
            answered = {(c.rubric_version, c.key) for c in checks if c.against is Against.GOLDEN and c.round == round_}
            refs = {ref.rubric: ref for ref in plan.rubrics if ref.judge is not None}
            for case in plan.golden:
                ref = refs.get(case.rubric)
                if ref is None or (ref.version, case.key) in answered:
                    continue
                if now - self._asked_at.get((ref.version, case.key, round_), -RETRY_SECONDS) >= RETRY_SECONDS:
                    due.append(
                        _Question(Against.GOLDEN, ref, case.key, case.label, case.invocation, round_, plan.redaction)
                    )
        return due

    # -- verdicts asked for twice
    def _logged(self) -> tuple[Sequence[LoggedVerdict], int]:
        """First verdicts since the last step; at the first step only those still to come, for history was not asked for."""
        cursor = self._store.state(_CURSOR)
        if cursor is None:
            cursor = self._store.regression_state().cursor
            self._store.set_state(_CURSOR, cursor)
        rows = self._store.verdict_log(cursor, LOG_BATCH)
        return rows, rows[-1].seq if rows else cursor

    def _drawn_twice(self, rows: Sequence[LoggedVerdict], plans: Sequence[CheckPlan]) -> list[_Question]:
        by_name = {plan.monitor: plan for plan in plans}
        refs = {(plan.monitor, ref.version): ref for plan in plans for ref in plan.rubrics if ref.judge is not None}
        found = []
        for row in rows:
            ref, plan = refs.get((row.monitor, row.rubric_version)), by_name.get(row.monitor)
            if ref is None or plan is None:
                continue
            if _number(f"{row.invocation_id}/{row.rubric_version}") >= plan.judge_twice:
                continue
            invocation = self._store.invocation(row.invocation_id)
            if invocation is not None:
                said = "pass" if row.passed else "fail"
                found.append(_Question(Against.SELF, ref, row.invocation_id, said, invocation, 0.0, plan.redaction))
        return found

    # -- asking
    async def _ask(self, questions: Sequence[_Question]) -> None:
        answers = await asyncio.gather(*(self._answer(question) for question in questions))
        checks = [check for check in answers if check is not None]
        if checks:
            await asyncio.to_thread(self._store.add_judge_checks, checks)

    async def _answer(self, question: _Question) -> JudgeCheck | None:
        """What the judge says this time; None where it gives no verdict, or cannot be asked now."""
        ref, now = question.ref, self._clock.now()
        self._asked_at[ref.version, question.key, question.round] = now
        judge = self._judges().get(ref.judge or "")
        drawn_for = await asyncio.to_thread(self._definitions.get, ref.version)
        if judge is None or judge.stopped is not None or not isinstance(drawn_for, DrawnFor):
            return None
        redaction = drawn_for.redaction.joined(question.redaction)
        judgement = await judge.evaluate(drawn_for.rubric, question.invocation, drawn_for.parameters, redaction)
        if judgement.outcome is None:
            LOG.warning("a judge's check failed", extra={"judge": ref.judge, "rubric": ref.rubric})
            return None
        if judgement.outcome is Outcome.UNJUDGEABLE and question.against is Against.SELF:
            return None  # its content has been erased meanwhile: that says nothing of the judge
        return JudgeCheck(
            against=question.against,
            rubric=ref.rubric,
            rubric_version=ref.version,
            judge=ref.judge or "",
            key=question.key,
            expected=question.expected,
            verdict=judgement.outcome.value,
            round=question.round,
            checked_at=self._clock.now(),
        )


def _number(key: str) -> float:
    """A number in [0, 1) that decides who is judged twice; independent of the one that decides who is judged."""
    digest = hashlib.sha256(f"rubricd:twice:{key}".encode(errors="surrogatepass")).digest()
    return int.from_bytes(digest[:6], "big") / 2**48
