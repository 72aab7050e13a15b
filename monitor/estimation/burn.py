"""Burn rates of a pass-rate objective (SRE workbook, chapter 5), and what low objectives and low traffic do to them."""

from __future__ import annotations

import math


def burn_multiple(budget_share: float, window_hours: float, period_hours: float = 720.0) -> float:
    """How many times as fast as allowed failures come when a window uses up that share of the period's budget: 14.4 for 2 % in 1 h of 30 d."""
    return budget_share * period_hours / window_hours


def largest_burn(objective: float) -> float:
    """The burn rate when everything fails: 1 / (1 - objective). A rule that asks for more can never fire."""
    return 1.0 / (1.0 - objective)


def false_page_probability(objective: float, judged: int, burn: float, failing: float | None = None) -> float:
    """Chance that a window of `judged` invocations exceeds the burn rate while the failing share is as allowed (or `failing`)."""
    share = 1.0 - objective if failing is None else failing
    limit = math.floor(burn * (1.0 - objective) * judged + 1e-9)
    within = math.fsum(
        math.comb(judged, k) * share**k * (1.0 - share) ** (judged - k) for k in range(min(limit, judged) + 1)
    )
    return max(0.0, 1.0 - within)
