"""Confidence sequences for means of values in [0, 1], such as scores: valid at every time they are looked at."""

from __future__ import annotations

import math
from collections.abc import Sequence

from monitor.estimation.intervals import Interval


def gaussian_mixture_half_width(n: int, alpha: float = 0.05, rho: float = 0.2, sigma: float = 0.5) -> float:
    """Half-width of the normal mixture sequence after n values; sigma 1/2 holds for any value in [0, 1] (Waudby-Smith et al. 2021)."""
    spread = n * rho * rho + 1.0
    return sigma * math.sqrt(spread / (n * rho) ** 2 * 2.0 * math.log(math.sqrt(spread) / alpha))


def empirical_bernstein_sequence(values: Sequence[float], alpha: float = 0.05, largest: float = 0.5) -> Interval:
    """Predictable plug-in empirical Bernstein interval (Waudby-Smith and Ramdas 2024, theorem 2), cut to [0, 1]; `largest` bounds the bets."""
    centre, half = empirical_bernstein(values, alpha, largest)
    return max(0.0, centre - half), min(1.0, centre + half)


def empirical_bernstein(values: Sequence[float], alpha: float = 0.05, largest: float = 0.5) -> tuple[float, float]:
    """Centre and half-width of `empirical_bernstein_sequence`."""
    mean, variance, total, squares = 0.5, 0.25, 0.5, 0.25
    bets = weighted = spread = 0.0
    for t, value in enumerate(values, 1):
        bet = min(math.sqrt(2.0 * math.log(2.0 / alpha) / (variance * t * math.log1p(t))), largest)
        bets += bet
        weighted += bet * value
        spread += 4.0 * (value - mean) ** 2 * (-math.log1p(-bet) - bet) / 4.0
        total += value
        mean = total / (t + 1)
        squares += (value - mean) ** 2
        variance = squares / (t + 1)
    return weighted / bets, (math.log(2.0 / alpha) + spread) / bets


def hedged_capital_interval(values: Sequence[float], alpha: float = 0.05, steps: int = 1000) -> Interval:
    """The means of a grid that hedged bets did not win 1 / alpha against (Waudby-Smith and Ramdas 2024, theorem 3); (1, 0) for none."""
    kept = [step / steps for step in range(1, steps) if _wealth(values, step / steps, alpha) < 1.0 / alpha]
    return (kept[0], kept[-1]) if kept else (1.0, 0.0)


def _wealth(values: Sequence[float], mean: float, alpha: float) -> float:
    """What half the capital bet on "above" or half bet on "below" has grown to."""
    estimate, variance, total, squares = 0.5, 0.25, 0.5, 0.25
    above = below = 1.0
    for t, value in enumerate(values, 1):
        bet = math.sqrt(2.0 * math.log(2.0 / alpha) / (variance * t * math.log1p(t)))
        above *= 1.0 + min(bet, 0.5 / mean) * (value - mean)
        below *= 1.0 - min(bet, 0.5 / (1.0 - mean)) * (value - mean)
        total += value
        estimate = total / (t + 1)
        squares += (value - estimate) ** 2
        variance = squares / (t + 1)
    return max(above, below) / 2.0
