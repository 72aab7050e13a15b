"""How a number of draws is best split over strata, from what past windows said of them.

Only the past may decide: an allocation that looked at the verdicts it draws would make the weights depend on them, and every estimate and test
built on the weights with them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

SPREAD_FLOOR = 0.1
"""The least standard deviation that a stratum is taken to have: one that has never failed may begin to."""

Key = TypeVar("Key")


def neyman_allocation(sizes: Sequence[float], spreads: Sequence[float], total: float) -> list[float]:
    """Draws in proportion to N_h S_h, which gives the overall rate the least variance (Neyman 1934); real numbers."""
    return cost_allocation(sizes, spreads, [1.0] * len(sizes), total)


def cost_allocation(
    sizes: Sequence[float], spreads: Sequence[float], costs: Sequence[float], budget: float
) -> list[float]:
    """Draws in proportion to N_h S_h / sqrt(c_h), so that their costs add up to the budget (Cochran 1977, section 5.5)."""
    weights = [size * spread / math.sqrt(cost) for size, spread, cost in zip(sizes, spreads, costs, strict=True)]
    spent = math.fsum(weight * cost for weight, cost in zip(weights, costs, strict=True))
    return [budget * weight / spent if spent > 0 else 0.0 for weight in weights]


@dataclass(frozen=True, slots=True)
class PastVerdicts:
    """What passed and failed of a stratum in windows that are over."""

    passed: int = 0
    failed: int = 0

    @property
    def spread(self) -> float:
        """Standard deviation of a verdict, from a rate smoothed by one pass and one failure, and not below the floor."""
        rate = (self.passed + 1.0) / (self.passed + self.failed + 2.0)
        return max(SPREAD_FLOOR, math.sqrt(rate * (1.0 - rate)))


def neyman_caps(
    sizes: Mapping[Key, int], past: Mapping[Key, PastVerdicts], cap: int, at_least: int = 1
) -> dict[Key, int]:
    """Split a cap over strata by Neyman's allocation, at least so many each and none above its size.

    A stratum without a past has the spread of an even chance, so what is new is looked at closely. What a stratum cannot take up goes to the others. The
    sum is the cap wherever the least for each allows it, as in `split_cap`. Empty strata get nothing.
    """
    unknown = PastVerdicts()
    open_ = {key: size * past.get(key, unknown).spread for key, size in sizes.items() if size > 0}
    shares = dict.fromkeys(sizes, 0)
    while open_:
        wanted = dict(zip(open_, neyman_allocation([1.0] * len(open_), list(open_.values()), max(0, cap)), strict=True))
        fixed = {key: min(at_least, sizes[key]) for key in open_ if wanted[key] < min(at_least, sizes[key])}
        fixed = fixed or {key: sizes[key] for key in open_ if wanted[key] > sizes[key]}
        if not fixed:
            return shares | _whole(wanted, cap)
        shares |= fixed
        cap -= sum(fixed.values())
        open_ = {key: weight for key, weight in open_.items() if key not in fixed}
    return shares


def _whole(wanted: Mapping[Key, float], cap: int) -> dict[Key, int]:
    """Whole numbers that add up to the cap: what is left over goes to the largest fractions."""
    shares = {key: math.floor(value + 1e-9) for key, value in wanted.items()}
    by_fraction = sorted(wanted, key=lambda key: shares[key] - wanted[key])
    for key in by_fraction[: max(0, cap - sum(shares.values()))]:
        shares[key] += 1
    return shares
