"""What criteria cost, against numbers worked out by hand."""

from __future__ import annotations

import pytest

from monitor.model.browsing import CriteriaCount, CriterionScore
from monitor.server.pages.criteria import ranked


def dimension(name: str, score: float | None, weight: float) -> CriterionScore:
    return CriterionScore(name, score, score is not None, weight, 5.0)


def test_weighted_dimensions() -> None:
    """The share of the score lost to a dimension is weight times what it lacks of 5, by five times all weights that applied."""
    counts = [
        CriteriaCount("booking", "fail", (dimension("policy", 1, 9), dimension("quality", 3, 5)), 2),
        CriteriaCount("booking", "pass", (dimension("policy", None, 9), dimension("quality", 5, 5)), 6),
        CriteriaCount("booking", "unjudgeable", (dimension("policy", 1, 9),), 5),
    ]
    policy, quality = ranked(counts)["booking"]
    assert (policy.id, policy.judged, policy.applied, policy.short, policy.failing) == ("policy", 8, 2, 2, 2)
    assert policy.lost == pytest.approx(2 * 9 * 4 / (5 * 14) / 8)
    assert (quality.id, quality.applied, quality.short) == ("quality", 8, 2)
    assert quality.lost == pytest.approx(2 * 5 * 2 / (5 * 14) / 8)
    whole = 1 - (2 * (9 * 1 + 5 * 3) / (5 * 14) + 6) / 8
    assert policy.lost + quality.lost == pytest.approx(whole)


def test_properties() -> None:
    """Without weights every property counts the same; the dearest comes first."""
    scores = tuple(CriterionScore(name, score, True, None, 1.0) for name, score in (("a", 1), ("b", 0)))
    found = ranked([CriteriaCount("manners", "fail", scores, 3)])["manners"]
    assert [(cost.id, cost.lost) for cost in found] == [("b", 0.5), ("a", 0.0)]
    assert ranked([]) == {}
