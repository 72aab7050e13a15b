"""E[min(Binomial(N, rate), cap)] and the inclusion probability that follows."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from monitor.sampling import expected_minimum, inclusion_probability


def by_scipy(n: int, p: float, cap: int) -> float:
    """The same by distribution functions: n p P(B' <= cap - 2) + cap P(B >= cap), B' of n - 1."""
    return n * p * binom.cdf(cap - 2, n - 1, p) + cap * binom.sf(cap - 1, n, p)


@pytest.mark.parametrize("n", [2, 3, 10, 100, 10_000, 1_000_000])
@pytest.mark.parametrize("p", [1e-12, 1e-6, 1e-3, 0.1, 0.5, 0.9, 0.999999])
def test_expectation_agrees_with_scipy(n: int, p: float) -> None:
    """From 2 to a million trials, for caps below, at and above the mean, the expectation is SciPy's to 11 digits."""
    mean = int(n * p)
    for cap in {1, 2, 60, max(1, mean - 1), max(1, mean), mean + 1, max(1, n // 2), n - 1, n}:
        assert expected_minimum(n, p, cap) == pytest.approx(by_scipy(n, p, cap), rel=1e-11), cap


@settings(deadline=None, max_examples=150)
@given(n=st.integers(2, 3_000), p=st.floats(1e-6, 1 - 1e-6), cap=st.integers(1, 3_000))
def test_expectation_agrees_with_scipy_anywhere(n: int, p: float, cap: int) -> None:
    """For any rate and cap the expectation is SciPy's."""
    assert expected_minimum(n, p, cap) == pytest.approx(by_scipy(n, p, cap), rel=1e-10)


@pytest.mark.parametrize(
    ("n", "p", "cap", "expected"),
    [(0, 0.5, 3, 0.0), (5, 0.5, 0, 0.0), (5, 0.0, 3, 0.0), (5, 1.0, 3, 3.0), (5, 1.0, 9, 5.0), (1, 0.25, 1, 0.25)],
)
def test_edges_are_exact(n: int, p: float, cap: int, expected: float) -> None:
    """Nothing to draw from, nothing allowed, all drawn: these need no sum."""
    assert expected_minimum(n, p, cap) == expected


def test_probability_without_a_cap_is_the_rate() -> None:
    """Where there is no cap, or one that cannot bind, the rate is the inclusion probability."""
    assert inclusion_probability(1_000, 0.1, None) == 0.1
    assert inclusion_probability(10, 0.1, 10) == 0.1


def test_probability_is_not_cap_over_population() -> None:
    """With 10 eligible, rate 0.3 and cap 3, a draw is rarer than 3 in 10: fewer than 3 are often below the rate."""
    assert inclusion_probability(10, 0.3, 3) == pytest.approx(by_scipy(10, 0.3, 3) / 10)
    assert inclusion_probability(10, 0.3, 3) < 0.25


def test_early_drop_gives_d_times_the_share_of_what_was_kept() -> None:
    """With K kept below d, pi = d * E[min(Binomial(K, rate / d), cap)] / K."""
    assert inclusion_probability(40, 0.1, 5, 0.2) == pytest.approx(0.2 * by_scipy(40, 0.5, 5) / 40)
    assert inclusion_probability(40, 0.1, None, 0.2) == pytest.approx(0.1)


def test_a_rate_above_what_was_kept_takes_all_that_was_kept() -> None:
    """After a reload that raised the rate, traces dropped before it stay dropped: the probability is d."""
    assert inclusion_probability(40, 0.5, None, 0.2) == pytest.approx(0.2)
    assert inclusion_probability(40, 0.5, 10, 0.2) == pytest.approx(0.2 * 10 / 40)
