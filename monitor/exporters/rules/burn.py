"""Error-budget burn for pass rates: which windows, which failure share, and how many judged invocations make it more than chance. Pure arithmetic.

The multi-window pairs are those of the SRE workbook (chapter 5): 14.4x and 6x for a page, 3x and 1x for a ticket. They were made for services whose
objectives have several nines. A pass rate's objective of 0.90 leaves a budget of 0.10, and no more than 10x of it can ever fail, so 14.4x would
never fire: here a share above half of the way from the budget to "everything fails" is cut down to that.
Scoring happens in bursts: a window shorter than two schedule intervals would see some runs and miss others, so windows grow with the interval.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from monitor.exporters.rules.rule import Severity

MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0
CHANCE = 1e-4
"""How likely an agent that is exactly at its objective may look like a burn in one window."""
LEAST_SAMPLES = 10
"""Fewer judged invocations never burn a budget, however surely."""
SHORT_INTERVALS, LONG_INTERVALS = 2, 4
"""How many schedule intervals the short and the long window hold at least."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A long window that says how much was burnt, and a short one that says it still is (seconds)."""

    long: float
    short: float
    multiple: float
    severity: Severity


PAIRS = (
    Pair(HOUR, 5 * MINUTE, 14.4, Severity.PAGE),
    Pair(6 * HOUR, 30 * MINUTE, 6.0, Severity.PAGE),
    Pair(DAY, 2 * HOUR, 3.0, Severity.TICKET),
    Pair(3 * DAY, 6 * HOUR, 1.0, Severity.TICKET),
)


@dataclass(frozen=True, slots=True)
class Burn:
    """A pair for an objective: `share` of failures that must be exceeded in both windows, by at least `samples` judged in the long one.

    `samples` is None where the share is the budget itself: no number of samples makes that sure, see `surplus`.
    """

    pair: Pair
    share: float
    samples: int | None


def burns(objective: float, interval: float, severity: Severity) -> tuple[Burn, ...]:
    """The pairs of a severity for an objective and a schedule interval (seconds). Of equal windows only the smallest share is kept."""
    found: dict[tuple[float, float], Burn] = {}
    for pair in PAIRS:
        if pair.severity is severity:
            long, short = stretched(pair, interval)
            share = failure_share(pair.multiple, objective)
            known = found.get((long, short))
            if known is None or share < known.share:
                stretched_pair = Pair(long, short, pair.multiple, severity)
                found[long, short] = Burn(stretched_pair, share, least_samples(share, 1 - objective))
    return tuple(found.values())


def stretched(pair: Pair, interval: float) -> tuple[float, float]:
    """The windows of a pair, long enough for the schedule, in whole minutes."""
    long = max(pair.long, LONG_INTERVALS * interval)
    short = max(pair.short, SHORT_INTERVALS * interval)
    return math.ceil(long / MINUTE) * MINUTE, math.ceil(short / MINUTE) * MINUTE


def failure_share(multiple: float, objective: float) -> float:
    """The share of failures at which a budget burns `multiple` times as fast as it may, cut to half-way between the budget and all."""
    budget = 1 - objective
    return min(multiple * budget, (1 + budget) / 2)


def least_samples(share: float, budget: float, chance: float = CHANCE) -> int | None:
    """How many judged invocations are needed so that, at a failure rate of `budget`, more than `share` of them fail with at most `chance`.

    Chernoff's bound for the binomial, exp(-n KL(share, budget)): it holds for this number and for every larger one. None where share is budget.
    """
    if share <= budget * (1 + 1e-9):
        return None
    divergence = share * math.log(share / budget) + (1 - share) * math.log((1 - share) / (1 - budget))
    return max(LEAST_SAMPLES, math.ceil(-math.log(chance) / divergence))


@dataclass(frozen=True, slots=True)
class Surplus:
    """Failures beyond chance: more than `budget * n + sqrt(spread * n) + constant` of n judged."""

    budget: float
    spread: float
    constant: float


def surplus(budget: float, chance: float = CHANCE) -> Surplus:
    """How many failures an agent exactly at its objective exceeds with at most `chance`, whatever the number of samples.

    Bernstein's inequality for sums of n independent 0/1 values with mean b: P(S > nb + sqrt(2 n b (1-b) L) + L/3) <= exp(-L).
    """
    level = -math.log(chance)
    return Surplus(budget, 2 * budget * (1 - budget) * level, level / 3)


def multiple_for(window: float) -> float:
    """The burn multiple that belongs to a single window of this length (seconds)."""
    return next((pair.multiple for pair in PAIRS if window <= pair.long), PAIRS[-1].multiple)
