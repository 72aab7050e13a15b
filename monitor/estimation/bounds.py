"""Which interval a pass rate gets: one that keeps its confidence for how the sample was drawn, and how little failed.

- Equal weights, no conversation with two judged invocations: Wilson's; the exact one where asked for or where few failed or passed.
- Unequal weights or conversations: Wilson's on the number of equal, independent draws that would have the same variance (linearised, over
  conversations), with Student's quantile; where few failed or passed the betting interval, whose guarantee needs no large numbers.

"Few" is fewer than 5: of so few, weights and conversations counted in, no variance can be estimated.

These are about what the agent does, of which the window's invocations are a sample themselves: judging all of them leaves an interval. What
share of the window's own invocations passed is `window_bounds`, with the finite-population correction.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from monitor.estimation.beta import beta_quantile
from monitor.estimation.evidence import betting_interval
from monitor.estimation.finite import finite_interval
from monitor.estimation.intervals import clopper_pearson_interval, wilson_interval, wilson_with
from monitor.model.totals import Totals

FEW = 5.0
_EQUAL = 1e-6


class Method(StrEnum):
    """How an interval was made."""

    WILSON = "wilson"
    EXACT = "exact"
    LINEARISED = "linearised"
    BETTING = "betting"
    FINITE = "finite_population"


@dataclass(frozen=True, slots=True)
class Bounds:
    """A two-sided interval of a pass rate."""

    lower: float
    upper: float
    method: Method


def bounds(sums: Totals, confidence: float = 0.95, *, exact: bool = False) -> Bounds:
    """The interval of the sums' pass rate; something passed or failed."""
    judged = sums.passed + sums.failed
    if _is_simple(sums, judged):
        if exact or min(sums.passed, sums.failed) < FEW:
            return Bounds(*clopper_pearson_interval(sums.passed, judged, confidence), Method.EXACT)
        return Bounds(*wilson_interval(sums.passed / judged, judged, confidence), Method.WILSON)
    if exact or min(effective_failures(sums), effective_passes(sums)) < FEW:
        return _betting(sums, confidence)
    return _linearised(sums, confidence)


def window_bounds(sums: Totals, confidence: float = 0.95, *, exact: bool = False) -> Bounds:
    """The interval of what share of the window's own invocations passed; something passed or failed."""
    interval = finite_interval(sums, confidence, simple=_equal_weights(sums), exact=exact)
    return Bounds(*interval, Method.FINITE)


def _equal_weights(sums: Totals) -> bool:
    scored = sums.passed_weight + sums.failed_weight
    return sums.squared_weight * (sums.passed + sums.failed) <= scored * scored * (1.0 + _EQUAL)


def _is_simple(sums: Totals, judged: int) -> bool:
    """Whether all weigh the same and nobody was judged twice in a conversation."""
    return _equal_weights(sums) and sums.clusters in (0, judged)


def effective_failures(sums: Totals) -> float:
    """As how many equal, independent failures the failed count: Kish's size of their weights by conversation."""
    squared = sums.cluster_squared - 2.0 * sums.cluster_cross + sums.cluster_passed_squared
    return sums.failed_weight**2 / squared if squared > _EQUAL * sums.cluster_squared else 0.0


def effective_passes(sums: Totals) -> float:
    """The same of the passed."""
    squared = sums.cluster_passed_squared
    return sums.passed_weight**2 / squared if squared > _EQUAL * sums.cluster_squared else 0.0


def linearised_variance(sums: Totals) -> float:
    """Variance of Hájek's mean over independent conversations, linearised: C / (C - 1) times the sum of (P - rate W)^2 over the weight squared."""
    scored = sums.passed_weight + sums.failed_weight
    rate = sums.passed_weight / scored
    spread = sums.cluster_passed_squared - 2.0 * rate * sums.cluster_cross + rate * rate * sums.cluster_squared
    return max(0.0, spread) / scored**2 * sums.clusters / max(1, sums.clusters - 1)


def _linearised(sums: Totals, confidence: float) -> Bounds:
    rate = sums.passed_weight / (sums.passed_weight + sums.failed_weight)
    variance = linearised_variance(sums)
    if variance <= 0.0:
        return _betting(sums, confidence)
    draws = min(rate * (1.0 - rate) / variance, float(sums.passed + sums.failed))
    quantile = student_quantile(0.5 + confidence / 2.0, _freedom(sums))
    return Bounds(*wilson_with(rate, draws, quantile), Method.LINEARISED)


def _freedom(sums: Totals) -> int:
    """Degrees of freedom of the variance: it is made of the rarer outcome, so by how many of those there are, not by all draws."""
    rarer = min(effective_failures(sums), effective_passes(sums))
    return max(2, min(sums.clusters - 1, int(2.0 * rarer)))


def _betting(sums: Totals, confidence: float) -> Bounds:
    heaviest = sums.heaviest or max(1.0, sums.squared_weight / max(1e-300, sums.passed_weight + sums.failed_weight))
    lower, upper = betting_interval(sums.passed_weight / heaviest, sums.failed_weight / heaviest, confidence)
    return Bounds(lower, upper, Method.BETTING)


@lru_cache(maxsize=4096)
def student_quantile(probability: float, freedom: int) -> float:
    """Quantile of Student's t above the median, from the beta distribution: t^2 = df (1 - x) / x with x from Beta(df / 2, 1 / 2)."""
    x = beta_quantile(2.0 * (1.0 - probability), freedom / 2.0, 0.5)
    return math.sqrt(freedom * (1.0 - x) / x)
