"""The incomplete beta function and its inverse, on `math` alone: exact binomial intervals need them, and SciPy is too much for that."""

from __future__ import annotations

import math

_TINY = 1e-300
_PRECISION = 1e-15


def regularised_beta(x: float, a: float, b: float) -> float:
    """I_x(a, b), the distribution function of Beta(a, b) at x; a and b above 0. Continued fraction of DLMF 8.17.22."""
    if x <= 0.0:
        return 0.0
    if x >= 1.0:
        return 1.0
    log_front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    if x < (a + 1.0) / (a + b + 2.0):  # there the fraction converges fast; else by symmetry
        return math.exp(log_front) * _fraction(x, a, b) / a
    return 1.0 - math.exp(log_front) * _fraction(1.0 - x, b, a) / b


def _fraction(x: float, a: float, b: float) -> float:
    """The continued fraction of I_x(a, b) by Lentz's method; it needs of the order of sqrt(max(a, b)) steps."""
    c, d = 1.0, _away_from_zero(1.0 - (a + b) * x / (a + 1.0))
    d = 1.0 / d
    result = d
    for m in range(1, 100_000):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for numerator in (even, odd):
            d = 1.0 / _away_from_zero(1.0 + numerator * d)
            c = _away_from_zero(1.0 + numerator / c)
            result *= c * d
        if abs(c * d - 1.0) < _PRECISION:
            break
    return result


def _away_from_zero(value: float) -> float:
    return value if abs(value) > _TINY else _TINY


def beta_quantile(probability: float, a: float, b: float) -> float:
    """The x with I_x(a, b) = probability: Newton's steps, halved into a shrinking bracket where they leave it or hardly move."""
    low, high, x = 0.0, 1.0, a / (a + b)
    log_scale = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    for _ in range(200):
        excess = regularised_beta(x, a, b) - probability
        low, high = (x, high) if excess < 0.0 else (low, x)
        if high - low <= 1e-15 * high:
            break
        slope = math.exp(log_scale + (a - 1.0) * math.log(x) + (b - 1.0) * math.log1p(-x))
        step = x - excess / slope if slope > 0.0 else low
        if abs(step - x) <= 2e-16 * x:
            return x
        x = step if low < step < high else (low + high) / 2.0
        if x in (low, high, 0.0, 1.0):
            break
    return x
