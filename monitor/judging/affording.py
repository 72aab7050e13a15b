"""How many draws a budget has room for. Pure.

The first half of a day's budget is spent as the sampling rule says. The second half is paced evenly over what is left of the day, so that a budget
that runs short lowers the sampling probability instead of ending in silence. What is allowed depends on the past alone (what was
spent, what waits, what an evaluation has cost on average), never on the candidates of the run, so probabilities stay exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

_HOUR = 3600.0
_SPENT_FREELY = 0.5


@dataclass(frozen=True, slots=True)
class Purse:
    """One daily limit as one monitor sees it: in tokens or USD, what is left, what one draw costs on average, how many monitors share it."""

    limit: float
    left: float
    cost: float
    sharers: int = 1

    @property
    def free(self) -> float:
        """Draws that may be made at once."""
        return (self.left - self.limit * (1 - _SPENT_FREELY)) / self.cost / self.sharers

    def pace(self, hours_left: float) -> float:
        """Draws an hour that make it last until the end of the day."""
        return max(0.0, self.left) / self.cost / self.sharers / max(hours_left, 1 / 60)


def hours_left(now: float) -> float:
    """Hours until the next day (UTC) begins."""
    return (24 * _HOUR - now % (24 * _HOUR)) / _HOUR


def affordable(purses: Sequence[Purse], now: float, saved: float) -> int | None:
    """The most that a run may draw; None where nothing is limited. `saved` are draws of the pace that earlier runs left."""
    if not purses:
        return None
    if any(purse.left < purse.cost for purse in purses):
        return 0
    return int(max(0.0, min(purse.free if purse.free >= 1 else saved for purse in purses)))


def pace(purses: Sequence[Purse], now: float) -> float:
    """Draws an hour at which the scarcest purse lasts until the end of the day; 0 without purses."""
    return min((purse.pace(hours_left(now)) for purse in purses), default=0.0)
