"""How many of a stratum are expected to be drawn under a cap, exactly."""

from __future__ import annotations

import math
from collections.abc import Iterator

_NEGLIGIBLE = 1e-18


def inclusion_probability(size: int, rate: float, cap: int | None, kept_below: float = 1.0) -> float:
    """The probability with which each of `size` eligible invocations of a stratum is drawn (contract section 2).

    Without a cap it is the rate; with one, E[min(Binomial(N, rate), cap)] / N. After an early drop at intake `size` is the number K that
    was kept, those below d = `kept_below`: d * E[min(Binomial(K, rate / d), cap)] / K.
    """
    effective = min(1.0, rate / kept_below)
    if cap is None or cap >= size:
        return kept_below * effective
    return kept_below * expected_minimum(size, effective, cap) / size


def expected_minimum(n: int, p: float, cap: int) -> float:
    """E[min(B, cap)] for B ~ Binomial(n, p).

    The probabilities are summed outwards from the mode relative to the mode's, and divided by their own sum: no logarithm of a factorial
    loses digits, every term is positive, and only about 20 standard deviations are visited. Relative error below 1e-12 up to n = 1e6.
    """
    if cap <= 0 or n <= 0 or p <= 0.0:
        return 0.0
    if p >= 1.0:
        return float(min(n, cap))
    if cap >= n:
        return n * p
    mode = min(n, int((n + 1) * p))
    weights = [(mode, 1.0), *_downwards(n, p, mode), *_upwards(n, p, mode, cap)]
    total = math.fsum(weight for _, weight in weights)
    return math.fsum(weight * min(k, cap) for k, weight in weights) / total


def _downwards(n: int, p: float, mode: int) -> Iterator[tuple[int, float]]:
    """(k, P(k) / P(mode)) for k below the mode, as far as it matters."""
    odds, weight = (1.0 - p) / p, 1.0
    for k in range(mode, 0, -1):
        weight *= odds * k / (n - k + 1)
        if weight < _NEGLIGIBLE:
            return
        yield k - 1, weight


def _upwards(n: int, p: float, mode: int, cap: int) -> Iterator[tuple[int, float]]:
    """(k, P(k) / P(mode)) for k above the mode, as far as it matters; with the mode at 0 the first of them is all there is."""
    odds, weight = p / (1.0 - p), 1.0
    seen = float(min(mode, cap))
    for k in range(mode, n):
        weight *= odds * (n - k) / (k + 1)
        yield k + 1, weight
        seen += weight * min(k + 1, cap)
        if weight * min(k + 1, cap) < _NEGLIGIBLE * seen:
            return
