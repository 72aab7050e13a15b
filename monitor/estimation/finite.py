"""Bounds of what happened in a window: the pass rate of its own invocations, of which the judged are a sample without replacement.

The finite-population correction makes them narrow where much was judged, and a point where everything was. They say nothing of what the agent
will do next; `bounds` does. Sampling probabilities are the only chance here: whether turns of a conversation hang together does not matter.

- Equal weights: the exact interval of the hypergeometric distribution where few failed or passed, or where it is asked for.
- Else Korn and Graubard's (1998): Clopper and Pearson's on the number of draws that would have the variance of Hájek's mean under independent
  sampling, the sum of (1 - pi) / pi^2 (y - rate)^2 over the squared weight. Conservative for samples that were drawn stratum by stratum.
- Unequal weights where few of those that stand for others failed or passed: what was judged is known, and the share that passes of what was not
  is bounded by a bet on the judged with the weights w - 1, whose sum over the passed is unbiased for the unseen ones that pass.

"Few" is counted among those that stand for others: a hundred failures that were judged whole say nothing of failures that were not seen.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

from monitor.estimation.beta import beta_quantile
from monitor.estimation.evidence import betting_interval
from monitor.estimation.intervals import Interval, normal_quantile
from monitor.model.totals import Totals

_NOTHING = 1e-9
FEW = 5.0
_MOST_TERMS = 1000
"""Beyond so many of the rarer outcome the exact interval would take long, and the other is as good."""


def finite_interval(sums: Totals, confidence: float = 0.95, *, simple: bool, exact: bool = False) -> Interval:
    """The interval of the window's own pass rate; something passed or failed. `simple`: all weigh the same."""
    scored = sums.passed_weight + sums.failed_weight
    unseen = sums.squared_weight - scored
    rate = sums.passed_weight / scored
    if unseen <= _NOTHING * scored:
        return rate, rate
    rarer = min(sums.passed, sums.failed)
    if simple and (exact or rarer < FEW) and rarer <= _MOST_TERMS:
        found = hypergeometric_interval(sums.passed, sums.passed + sums.failed, round(scored), confidence)
    elif exact or (not simple and min(_standing_for_others(sums)) < FEW):
        found = _unseen_by_bet(sums, confidence)
    else:
        found = _korn_graubard(sums, rate, confidence)
    return min(found[0], rate), max(found[1], rate)


def _standing_for_others(sums: Totals) -> tuple[float, float]:
    """The passed and the failed as Kish's sizes, each by the weight that it has besides its own: 0 where all were judged whole."""
    squared = (sums.passed_squared, sums.squared_weight - sums.passed_squared)
    weights, counts = (sums.passed_weight, sums.failed_weight), (sums.passed, sums.failed)
    passed, failed = (
        (weight - count) ** 2 / (square - weight) if square - weight > _NOTHING * square else 0.0
        for weight, count, square in zip(weights, counts, squared, strict=True)
    )
    return passed, failed


def _unseen_by_bet(sums: Totals, confidence: float) -> Interval:
    """How many were not seen is itself estimated, with a variance of the sum of w (w - 1); its bounds are tried out with those of the bet."""
    scored, judged = sums.passed_weight + sums.failed_weight, sums.passed + sums.failed
    heaviest = max(sums.heaviest, sums.squared_weight / scored) - 1.0
    passed, failed = (sums.passed_weight - sums.passed) / heaviest, (sums.failed_weight - sums.failed) / heaviest
    shares = betting_interval(max(0.0, passed), max(0.0, failed), confidence)
    slack = normal_quantile(0.5 + confidence / 2.0) * math.sqrt(sums.squared_weight - scored)
    found = [
        (sums.passed + unseen * share) / (judged + unseen)
        for unseen in (max(0.0, scored - judged - slack), scored - judged + slack)
        for share in shares
    ]
    return min(found), max(found)


def hajek_variance(sums: Totals) -> float:
    """Variance of Hájek's mean under independent sampling without replacement, linearised; 0 where everything was judged."""
    scored = sums.passed_weight + sums.failed_weight
    rate = sums.passed_weight / scored
    passed = max(0.0, sums.passed_squared - sums.passed_weight)
    failed = max(0.0, sums.squared_weight - sums.passed_squared - sums.failed_weight)
    return ((1.0 - rate) ** 2 * passed + rate**2 * failed) / scored**2


def _korn_graubard(sums: Totals, rate: float, confidence: float) -> Interval:
    judged, variance = sums.passed + sums.failed, hajek_variance(sums)
    if variance <= 0.0 or judged < 2:
        return rate, rate
    draws = rate * (1.0 - rate) / variance * (judged - 1) / judged
    successes, tail = rate * draws, (1.0 - confidence) / 2.0
    lower = beta_quantile(tail, successes, draws - successes + 1.0)
    return lower, beta_quantile(1.0 - tail, successes + 1.0, draws - successes)


@lru_cache(maxsize=4096)
def hypergeometric_interval(passed: int, drawn: int, population: int, confidence: float = 0.95) -> Interval:
    """The exact interval of the share that passes in a finite population, from `drawn` of it without replacement (two one-sided tests)."""
    failed, population = drawn - passed, max(population, drawn)
    if failed > passed:
        lower, upper = hypergeometric_interval(failed, drawn, population, confidence)
        return 1.0 - upper, 1.0 - lower
    tail = (1.0 - confidence) / 2.0
    most = _turn(failed, population - passed, lambda total: _at_most(failed, total, drawn, population) > tail)
    least = failed
    if failed and 1.0 - _at_most(failed - 1, failed, drawn, population) <= tail:
        least = 1 + _turn(failed, most, lambda total: 1.0 - _at_most(failed - 1, total, drawn, population) <= tail)
    return 1.0 - most / population, 1.0 - least / population


def _turn(low: int, high: int, holds: Callable[[int], bool]) -> int:
    """The last whole number of a range for which a condition holds that holds at its beginning, and from some number on no more."""
    while low < high:
        middle = (low + high + 1) // 2
        if holds(middle):
            low = middle
        else:
            high = middle - 1
    return low


def _at_most(count: int, marked: int, drawn: int, population: int) -> float:
    """Probability of at most `count` marked ones among the drawn."""
    whole = _log_choose(population, drawn)
    first = max(0, drawn - (population - marked))
    terms = (
        _log_choose(marked, k) + _log_choose(population - marked, drawn - k) - whole
        for k in range(first, min(count, marked, drawn) + 1)
    )
    return math.fsum(math.exp(term) for term in terms)


def _log_choose(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
