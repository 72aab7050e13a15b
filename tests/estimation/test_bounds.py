"""Which interval a pass rate gets, and that weights and conversations widen it as they should."""

from __future__ import annotations

import math
import random

import pytest
from scipy import stats

from monitor.estimation.bounds import Method, bounds, linearised_variance, student_quantile
from monitor.estimation.passrate import estimate, totals
from monitor.estimation.weighting import cluster_robust_error
from monitor.model.verdict import Outcome

PASS, FAIL = Outcome.PASS, Outcome.FAIL


def test_few_failures_get_the_exact_interval() -> None:
    """With fewer than 5 failures or passes, and where it is asked for, the interval is Clopper and Pearson's; else Wilson's."""
    few, many = totals([(PASS, 1.0)] * 46 + [(FAIL, 1.0)] * 4), totals([(PASS, 1.0)] * 45 + [(FAIL, 1.0)] * 5)
    exact = stats.binomtest(46, 50).proportion_ci(0.95, method="exact")
    assert bounds(few).method is Method.EXACT
    assert (bounds(few).lower, bounds(few).upper) == pytest.approx((exact.low, exact.high))
    assert bounds(many).method is Method.WILSON
    asked = stats.binomtest(45, 50).proportion_ci(0.95, method="exact")
    assert bounds(many, exact=True).lower == pytest.approx(asked.low)


def test_sampling_probability_alone_changes_nothing() -> None:
    """The same probability for all gives the interval of a simple sample."""
    half, whole = ([(PASS, p)] * 40 + [(FAIL, p)] * 10 for p in (0.5, 1.0))
    assert bounds(totals(half)) == bounds(totals(whole))


def test_conversations_are_the_unit() -> None:
    """Turns of one conversation that pass or fail together are worth fewer draws; the variance is that of the cluster-robust error."""
    turns = [[1.0] * 4] * 24 + [[0.0] * 4] * 8 + [[1.0, 0.0, 1.0]] * 4
    results = [(PASS if turn else FAIL, 1.0) for conversation in turns for turn in conversation]
    names = [f"c{n}" for n, conversation in enumerate(turns) for _ in conversation]
    clustered, alone = totals(results, names), totals(results)
    count = len(turns)
    robust = cluster_robust_error(turns) * math.sqrt(count / (count - 1))
    assert linearised_variance(clustered) == pytest.approx(robust**2)
    wide, narrow = bounds(clustered), bounds(alone)
    assert (wide.method, narrow.method) == (Method.LINEARISED, Method.WILSON)
    assert wide.lower < narrow.lower - 0.03 and wide.upper > narrow.upper + 0.02


def test_a_single_heavy_failure_is_no_certainty() -> None:
    """One failure that stands for a hundred unseen ones cannot be outweighed by many light passes: the bet knows little."""
    sample = totals([(PASS, 1.0)] * 300 + [(FAIL, 0.01)])
    found = bounds(sample)
    assert found.method is Method.BETTING
    assert found.lower < 0.2 and found.upper > 0.9


def test_all_passed_of_a_weighted_sample() -> None:
    """Without a failure the lower bound is a bet's: below the exact one of as many equal draws, and no 1."""
    found = estimate(totals([(PASS, 0.1)] * 50 + [(PASS, 1.0)] * 30))
    assert found is not None and found.rate == 1.0 and found.upper == 1.0
    assert found.lower is not None and 0.75 < found.lower < stats.beta.ppf(0.025, 53, 1)


@pytest.mark.parametrize("freedom", [1, 2, 5, 30, 400])
def test_students_quantile(freedom: int) -> None:
    """Student's quantile is SciPy's."""
    assert student_quantile(0.975, freedom) == pytest.approx(stats.t.ppf(0.975, freedom), rel=1e-9)


def test_weighted_intervals_hold_the_rate() -> None:
    """A seeded simulation of over-sampled failures keeps 0.92 of nominal 0.95 (the benchmark does the full grid)."""
    chance, hits, reps = random.Random(11), 0, 300
    for _ in range(reps):
        sample = []
        for _ in range(200):
            flagged = chance.random() < 5 / 7  # a fifth of the traffic, taken whole; of the rest a tenth
            failed = chance.random() < (0.2 if flagged else 0.075)
            sample.append((FAIL if failed else PASS, 1.0 if flagged else 0.1))
        found = bounds(totals(sample))
        hits += found.lower <= 0.9 <= found.upper
    assert hits / reps >= 0.92
