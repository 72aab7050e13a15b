"""Confidence intervals of a share, two-sided unless said otherwise. `confidence` is 1 - alpha, 0.95 for 95 %."""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist

from monitor.estimation.beta import beta_quantile

Interval = tuple[float, float]
"""Lower and upper bound, both in [0, 1] for a share."""


def normal_quantile(probability: float) -> float:
    """The standard normal quantile, 1.959964 for 0.975."""
    return NormalDist().inv_cdf(probability)


def wilson_interval(rate: float, n: float, confidence: float = 0.95) -> Interval:
    """Wilson's score interval (1927) of a share; `n` may be an effective sample size and need not be whole. Whole range when n <= 0."""
    return wilson_with(rate, n, normal_quantile(0.5 + confidence / 2.0))


def wilson_with(rate: float, n: float, z: float) -> Interval:
    """Wilson's interval with a given quantile, such as Student's where the variance behind `n` was estimated."""
    if n <= 0:
        return 0.0, 1.0
    shrink = 1.0 + z * z / n
    centre = (rate + z * z / (2.0 * n)) / shrink
    half = z / shrink * math.sqrt(max(0.0, rate * (1.0 - rate)) / n + z * z / (4.0 * n * n))
    lower = 0.0 if rate <= 0.0 else max(0.0, centre - half)
    upper = 1.0 if rate >= 1.0 else min(1.0, centre + half)
    return min(lower, rate), max(upper, rate)


@lru_cache(maxsize=65536)
def clopper_pearson_interval(successes: int, n: int, confidence: float = 0.95) -> Interval:
    """The exact interval of Clopper and Pearson (1934): never below its confidence, so wider than Wilson's. Whole range when n is 0."""
    if n <= 0:
        return 0.0, 1.0
    tail = (1.0 - confidence) / 2.0
    lower = beta_quantile(tail, successes, n - successes + 1) if successes > 0 else 0.0
    upper = beta_quantile(1.0 - tail, successes + 1, n - successes) if successes < n else 1.0
    return lower, upper


def zero_failures_upper(n: int, confidence: float = 0.95) -> float:
    """One-sided exact upper bound of the failure share when n of n passed; about 3 / n at 95 % (rule of three)."""
    return 1.0 - (1.0 - confidence) ** (1.0 / n) if n > 0 else 1.0


def newcombe_interval(
    first: float, n_first: float, second: float, n_second: float, confidence: float = 0.95
) -> tuple[float, float]:
    """Interval of the difference first - second of two independent shares, from their Wilson intervals (Newcombe 1998, method 10)."""
    low_first, high_first = wilson_interval(first, n_first, confidence)
    low_second, high_second = wilson_interval(second, n_second, confidence)
    difference = first - second
    below = math.hypot(first - low_first, high_second - second)
    above = math.hypot(high_first - first, second - low_second)
    return difference - below, difference + above
