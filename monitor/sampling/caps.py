"""How many a run may draw, so that the schedule never changes what a monitor spends."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

_ROUNDING = 1e-9
"""60 an hour on a minute's schedule is 1 a run, also where 60 * (60 / 3600) is a hair below it."""

Key = TypeVar("Key")


@dataclass(frozen=True, slots=True)
class Allowance:
    """What a run may draw: `carry` left by the last run and `max_per_hour` for each hour since the previous tick.

    It is a real number; the run's cap is its whole part, and what the run did not draw is carried on, a fraction as well as whole draws that
    too little traffic left unused. So every schedule spends the same on the same traffic: an hourly run may draw 60 out of a busy minute, and so
    may sixty runs a minute apart. What is carried is bounded by one hour's worth (at least by 1, that a small `max_per_hour` can save up for
    its next draw): a quiet week does not release a burst, no hour costs more than twice `max_per_hour`, and a day at most one hour's
    worth above 24.

    Each stratum draws at least 1, which may be more than the cap. That is a debt: the carry goes below 0, and the runs that follow wait until
    it is paid. A run whose cap is 0 leaves the eligible invocations unconsidered for the next one, instead of giving them the
    inclusion probability 0, under which no estimate would know of them.
    """

    max_per_hour: float
    hours: float
    carry: float = 0.0

    @property
    def amount(self) -> float:
        """The draws allowed, a real number; negative while a debt lasts."""
        return self.carry + self.max_per_hour * max(0.0, self.hours)

    @property
    def cap(self) -> int:
        """The whole draws allowed."""
        return max(0, math.floor(self.amount + _ROUNDING))

    def left(self, drawn: int) -> float:
        """The carry for the next run after this one drew so many."""
        return min(self.amount - drawn, max(1.0, self.max_per_hour))


def split_cap(sizes: Mapping[Key, int], cap: int) -> dict[Key, int]:
    """Split a cap over strata in proportion to their size, at least 1 each (contract section 2).

    Strata whose share is below 1 get 1 and the others share the rest, so that the sum is the cap wherever the cap allows 1 for each. What does not
    divide goes to the largest fractions, in the order of the strata where those are equal. Empty strata get nothing.
    """
    sharing = {key: size for key, size in sizes.items() if size > 0}
    shares = dict.fromkeys(sizes, 0)
    while small := [key for key, size in sharing.items() if cap * size < sum(sharing.values())]:
        for key in small:
            shares[key] = 1
            del sharing[key]
        cap -= len(small)
        if not sharing:
            return shares
        if cap < len(sharing):
            return shares | dict.fromkeys(sharing, 1)
    return shares | _largest_remainder(sharing, cap) if sharing else shares


def _largest_remainder(sizes: Mapping[Key, int], cap: int) -> dict[Key, int]:
    total = sum(sizes.values())
    shares = {key: cap * size // total for key, size in sizes.items()}
    by_fraction = sorted(sizes, key=lambda key: -(cap * sizes[key] % total))
    for key in by_fraction[: cap - sum(shares.values())]:
        shares[key] += 1
    return shares
