"""Criteria ranked by what they cost: how much of the score is lost to each, and how often it falls short. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from monitor.model.browsing import CriteriaCount


@dataclass(slots=True)
class _Sums:
    applied: int = 0
    short: int = 0
    failing: int = 0
    lost: float = 0.0


@dataclass(frozen=True, slots=True)
class CriterionCost:
    """One criterion of a rubric. `lost` is the mean share of the score that a judged invocation loses to it, over all `judged` of the rubric.

    It applied to `applied` of them, fell short of its best in `short`, and in `failing` of those the verdict was a fail.
    """

    rubric: str
    id: str
    judged: int
    applied: int
    short: int
    failing: int
    lost: float


def ranked(counts: Iterable[CriteriaCount]) -> dict[str, list[CriterionCost]]:
    """By rubric, the dearest first. The share lost to a criterion is its weight times what it lacks, by the weight of all that applied."""
    sums: dict[str, dict[str, _Sums]] = defaultdict(lambda: defaultdict(_Sums))
    judged: dict[str, int] = defaultdict(int)
    for row in counts:
        if row.verdict not in ("pass", "fail"):
            continue
        judged[row.rubric] += row.count
        applicable = [score for score in row.scores if score.applicable and score.score is not None]
        weight = sum(score.weight or 1.0 for score in applicable)
        for score in applicable:
            found = sums[row.rubric][score.id]
            found.applied += row.count
            lack = 1.0 - min(1.0, (score.score or 0.0) / score.best)
            if lack > 0:
                found.short += row.count
                found.failing += row.count * (row.verdict == "fail")
                found.lost += row.count * lack * (score.weight or 1.0) / weight
    return {
        rubric: sorted(
            (
                CriterionCost(
                    rubric, name, judged[rubric], one.applied, one.short, one.failing, one.lost / judged[rubric]
                )
                for name, one in criteria.items()
            ),
            key=lambda cost: (-cost.lost, -cost.short, cost.id),
        )
        for rubric, criteria in sums.items()
    }
