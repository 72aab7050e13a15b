"""Claiming pending evaluations, each with the rubric version that it was drawn for; and judging those that need no model."""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from monitor.judging.definitions import Definitions, DrawnFor
from monitor.judging.looking import judge_deterministic
from monitor.judging.verdicts import verdict_of
from monitor.model.run import MAX_CRASHES, Evaluation
from monitor.model.verdict import ErrorType, EvaluationFailure, Judgement, Verdict
from monitor.rubrics.kinds.kind import is_program
from monitor.store.protocol import Store

LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Claimed:
    """A claimed evaluation with the rubric version it was drawn for, or why that cannot be judged by."""

    evaluation: Evaluation
    drawn_for: DrawnFor | EvaluationFailure

    @property
    def needs_no_judge(self) -> bool:
        """Whether no model is asked, also because the evaluation has failed already."""
        return isinstance(self.drawn_for, EvaluationFailure) or not self.drawn_for.rubric.judged

    @property
    def is_program(self) -> bool:
        """Whether a program of the team's own judges."""
        return isinstance(self.drawn_for, DrawnFor) and is_program(self.drawn_for.rubric.behaviour)


class Claims:
    """Takes evaluations from the store. Blocks on it; call it from a thread."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._definitions = Definitions(store)

    def take(
        self,
        limit: int,
        now: float,
        lease_seconds: float,
        paused_judges: Collection[str],
        paused_monitors: Collection[str],
    ) -> Sequence[Claimed]:
        """Up to `limit` evaluations that are due, as `Store.claim_evaluations` gives them."""
        found = self._store.claim_evaluations(limit, now, lease_seconds, paused_judges, paused_monitors)
        return [Claimed(evaluation, self._drawn_for(evaluation)) for evaluation in found]

    def _drawn_for(self, evaluation: Evaluation) -> DrawnFor | EvaluationFailure:
        """The rubric version to judge by, or why the evaluation fails without being judged."""
        if evaluation.unreadable:
            return EvaluationFailure(ErrorType.EVALUATOR_FAILED, "the stored invocation is damaged and cannot be read")
        if evaluation.crashes >= MAX_CRASHES:
            LOG.error(
                "an evaluation is given up: the process ended too often while it was judged",
                extra={"rubric": evaluation.rubric.rubric},
            )
            return EvaluationFailure(
                ErrorType.EVALUATOR_FAILED, f"the process ended {evaluation.crashes} times while it was judged"
            )
        return self._definitions.get(evaluation.rubric.version)


def holds_a_suspect(claimed: Sequence[Claimed]) -> bool:
    """Whether the claim holds one evaluation alone because the process ended with it before: others wait behind it."""
    return len(claimed) == 1 and claimed[0].evaluation.crashes > 1


def judge_by_looking(claimed: Sequence[Claimed], now: float) -> list[tuple[Evaluation, Verdict]]:
    """The verdicts of evaluations that need neither model nor program, and the failures of those that cannot be judged."""
    return [(item.evaluation, verdict_of(item.evaluation, _looked_at(item), now)) for item in claimed]


def _looked_at(item: Claimed) -> Judgement:
    drawn_for = item.drawn_for
    if isinstance(drawn_for, EvaluationFailure):
        return Judgement(None, failure=drawn_for)
    try:
        return judge_deterministic(drawn_for.rubric, item.evaluation.invocation)
    except Exception as error:
        return broke(drawn_for, error)


def broke(drawn_for: DrawnFor, error: Exception) -> Judgement:
    """A fault of ours is a failed evaluation; its message could quote content, its type cannot."""
    LOG.error("judging failed: %s", type(error).__name__, extra={"rubric": drawn_for.rubric.name})
    failure = EvaluationFailure(ErrorType.EVALUATOR_FAILED, f"judging failed: {type(error).__name__}")
    return Judgement(None, failure=failure, threshold=drawn_for.rubric.threshold)
