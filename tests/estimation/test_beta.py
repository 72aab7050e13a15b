"""The incomplete beta function and exact intervals against SciPy."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special, stats

from monitor.estimation.beta import beta_quantile, regularised_beta
from monitor.estimation.intervals import clopper_pearson_interval, normal_quantile, wilson_interval

shape = st.floats(0.05, 5000.0)


@given(x=st.floats(0.0, 1.0), a=shape, b=shape)
@settings(max_examples=300, deadline=None)
def test_distribution_is_scipys(x: float, a: float, b: float) -> None:
    """I_x(a, b) equals SciPy's betainc for any shapes."""
    assert regularised_beta(x, a, b) == pytest.approx(special.betainc(a, b, x), rel=1e-9, abs=1e-11)


@given(probability=st.floats(0.001, 0.999), a=st.floats(0.5, 2000.0), b=st.floats(0.5, 2000.0))
@settings(max_examples=60, deadline=None)
def test_quantile_is_scipys(probability: float, a: float, b: float) -> None:
    """The beta quantile equals SciPy's."""
    assert beta_quantile(probability, a, b) == pytest.approx(stats.beta.ppf(probability, a, b), rel=1e-8, abs=1e-11)


@given(data=st.data(), n=st.integers(1, 5000), confidence=st.sampled_from([0.8, 0.9, 0.95, 0.99]))
@settings(max_examples=60, deadline=None)
def test_intervals_are_scipys(data: st.DataObject, n: int, confidence: float) -> None:
    """Wilson's and the exact interval equal SciPy's for any count."""
    successes = data.draw(st.integers(0, n))
    test = stats.binomtest(successes, n)
    exact = test.proportion_ci(confidence, method="exact")
    wilson = test.proportion_ci(confidence, method="wilson")
    assert clopper_pearson_interval(successes, n, confidence) == pytest.approx(
        (exact.low, exact.high), rel=1e-8, abs=1e-10
    )
    assert wilson_interval(successes / n, n, confidence) == pytest.approx((wilson.low, wilson.high), abs=1e-10)


def test_exact_interval_of_very_many() -> None:
    """With a million judged invocations the exact interval still has six right digits."""
    exact = stats.binomtest(900_000, 1_000_000).proportion_ci(0.95, method="exact")
    assert clopper_pearson_interval(900_000, 1_000_000) == pytest.approx((exact.low, exact.high), rel=1e-6)


def test_nothing_known_is_the_whole_range() -> None:
    """Without a judged invocation every share is possible."""
    assert wilson_interval(0.5, 0) == clopper_pearson_interval(0, 0) == (0.0, 1.0)


def test_normal_quantile() -> None:
    """The two-sided 95 % quantile is the textbook's."""
    assert normal_quantile(0.975) == pytest.approx(stats.norm.ppf(0.975), rel=1e-12)
