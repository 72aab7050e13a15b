"""Burn-rate arithmetic, checked against SciPy's binomial and the published multiples."""

from __future__ import annotations

import math

import pytest
from scipy.stats import binom

from monitor.exporters.rules.burn import CHANCE, HOUR, PAIRS, burns, failure_share, least_samples, surplus
from monitor.exporters.rules.rule import Severity

OBJECTIVES = (0.3, 0.5, 0.8, 0.9, 0.93, 0.95, 0.99, 0.999)


@pytest.mark.parametrize(
    ("objective", "shares"), [(0.99, (0.144, 0.06, 0.03, 0.01)), (0.999, (0.0144, 0.006, 0.003, 0.001))]
)
def test_high_objectives_keep_the_published_multiples(objective: float, shares: tuple[float, ...]) -> None:
    """With two and three nines the shares are 14.4, 6, 3 and 1 times the budget."""
    found = [burn.share for severity in Severity for burn in burns(objective, 60, severity)]
    assert found == pytest.approx(shares)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_every_threshold_can_be_reached(objective: float) -> None:
    """No share lies above half-way from the budget to everything failing, so that a total failure always exceeds it; the order of severity is kept."""
    shares = [failure_share(pair.multiple, objective) for pair in PAIRS]
    assert all(1 - objective <= share * (1 + 1e-12) and share <= (2 - objective) / 2 for share in shares)
    assert shares == sorted(shares, reverse=True)


def test_an_objective_of_ninety_percent_has_a_share_below_one() -> None:
    """14.4 times a budget of 10 % would be 144 % failing; the cut share is 55 %."""
    assert failure_share(14.4, 0.90) == pytest.approx(0.55)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_minimum_samples_hold_what_they_promise(objective: float) -> None:
    """With the stated number of judged invocations, and with more, an agent at its objective exceeds the share with at most the stated chance."""
    budget = 1 - objective
    for multiple in (14.4, 6.0, 3.0):
        share = failure_share(multiple, objective)
        least = least_samples(share, budget)
        assert least is not None
        for samples in (*range(least, least + 60), 2 * least, 10 * least):
            assert binom.sf(math.floor(share * samples), samples, budget) <= CHANCE


def test_minimum_samples_are_not_needlessly_many() -> None:
    """Half of the stated number is not enough by the exact binomial, at 95 % and three times the budget."""
    least = least_samples(0.15, 0.05)
    assert least is not None
    assert binom.sf(math.floor(0.15 * (least // 2)), least // 2, 0.05) > CHANCE


@pytest.mark.parametrize("budget", [1 - objective for objective in OBJECTIVES])
def test_a_surplus_is_more_than_chance_at_any_number_of_samples(budget: float) -> None:
    """The bound of the slow pair is exceeded with at most the stated chance from 1 to 100,000 judged invocations."""
    bound = surplus(budget)
    for samples in (1, 2, 5, 10, 30, 100, 300, 1000, 10_000, 100_000):
        limit = bound.budget * samples + math.sqrt(bound.spread * samples) + bound.constant
        assert binom.sf(math.floor(limit), samples, budget) <= CHANCE


def test_windows_grow_with_the_schedule() -> None:
    """The short window holds two schedule intervals and the long one four; windows that became equal keep the smallest share."""
    (only,) = burns(0.95, 12 * HOUR, Severity.PAGE)
    assert (only.pair.long, only.pair.short) == (48 * HOUR, 24 * HOUR)
    assert only.share == pytest.approx(0.30)
    assert [(burn.pair.long, burn.pair.short) for burn in burns(0.95, 60, Severity.PAGE)] == [
        (HOUR, 300),
        (6 * HOUR, 1800),
    ]
