"""Bounds of a window's own invocations, against SciPy's hypergeometric and beta distributions and recorded vectors."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from monitor.estimation.bounds import Method, bounds, window_bounds
from monitor.estimation.finite import hajek_variance, hypergeometric_interval
from monitor.estimation.passrate import estimate, totals
from monitor.estimation.weighting import Stratum, hajek_standard_error, stratified_rate
from monitor.model.verdict import Outcome

PASS, FAIL, NOT_APPLICABLE = Outcome.PASS, Outcome.FAIL, Outcome.NOT_APPLICABLE
Sample = list[tuple[Outcome | None, float]]


def of(passed: int, failed: int, probability: float = 1.0) -> Sample:
    """So many of each, drawn with one probability."""
    return [(PASS, probability)] * passed + [(FAIL, probability)] * failed


@given(population=st.integers(1, 60), data=st.data())
@settings(max_examples=60, deadline=None)
def test_the_exact_interval_holds_every_total_that_is_not_refuted(population: int, data: st.DataObject) -> None:
    """A share lies outside just where SciPy's one-sided hypergeometric test at 2.5 % refutes it."""
    drawn = data.draw(st.integers(1, population))
    passed = data.draw(st.integers(0, drawn))
    lower, upper = hypergeometric_interval(passed, drawn, population)
    for total in range(passed, population - (drawn - passed) + 1):
        law = stats.hypergeom(population, total, drawn)
        masses = (law.cdf(passed), law.sf(passed - 1))
        if min(abs(mass - 0.025) for mass in masses) < 1e-9:
            continue  # 14 of 560, say: equal but for rounding
        kept = min(masses) > 0.025
        assert (lower - 1e-12 <= total / population <= upper + 1e-12) is bool(kept), total


def test_the_exact_interval_keeps_its_confidence() -> None:
    """Whatever the population's share, at least 95 % of the samples without replacement have an interval that holds it."""
    population, drawn = 200, 50
    made = [hypergeometric_interval(passed, drawn, population) for passed in range(drawn + 1)]
    for total in range(0, population + 1, 7):
        inside = [lower - 1e-12 <= total / population <= upper + 1e-12 for lower, upper in made]
        mass = stats.hypergeom(population, total, drawn).pmf(range(drawn + 1))
        assert sum(p for p, held in zip(mass, inside, strict=True) if held) >= 0.95


def test_what_was_judged_whole_is_known() -> None:
    """With every invocation judged the window's rate has no interval, while the agent's has the one it always had."""
    sums = totals(of(45, 5))
    found = estimate(sums, of_window=True)
    assert found is not None and (found.lower, found.rate, found.upper) == (0.9, 0.9, 0.9)
    assert found.method is Method.FINITE
    agent = estimate(sums)
    assert agent is not None and agent.lower is not None and agent.lower < 0.8


def test_the_variance_is_that_of_the_recorded_vectors(shared: Path) -> None:
    """The correction is the (1 - pi) of Hájek's mean as recorded, and for one stratum Cochran's 1 - n / N."""
    for vector in json.loads((shared / "vectors" / "statistics.json").read_text()):
        if vector["what"] == "horvitz_thompson_total_and_hajek_mean" and set(vector["input"]["y"]) <= {0, 1}:
            given = vector["input"]
            sample = [(PASS if y else FAIL, pi) for y, pi in zip(given["y"], given["pi"], strict=True)]
            assert math.sqrt(hajek_variance(totals(sample))) == pytest.approx(vector["expected"]["hajek_se_poisson"])
    sample = of(270, 30, 0.3) + of(5, 15, 1.0)
    error = hajek_standard_error([float(o is PASS) for o, _ in sample], [pi for _, pi in sample])
    assert math.sqrt(hajek_variance(totals(sample))) == pytest.approx(error)
    _, cochran = stratified_rate([Stratum(1000, 300, 270)])
    assert math.sqrt(hajek_variance(totals(of(270, 30, 0.3))) * 300 / 299) == pytest.approx(cochran)


def test_strata_are_not_narrower_than_cochrans() -> None:
    """For strata of fixed sizes the error is at least Cochran's stratified one with the correction, and below that without any."""
    strata = [Stratum(900, 300, 285), Stratum(100, 100, 60)]
    sample = of(285, 15, 1 / 3) + of(60, 40)
    _, cochran = stratified_rate(strata)
    rate = sum(stratum.passed * stratum.size / stratum.drawn for stratum in strata) / 1000
    uncorrected = math.sqrt(sum((1 / pi) ** 2 * (float(o is PASS) - rate) ** 2 for o, pi in sample)) / 1000
    assert cochran <= math.sqrt(hajek_variance(totals(sample))) < 0.85 * uncorrected


def test_many_failures_get_korn_and_graubards() -> None:
    """The bounds are SciPy's beta quantiles on n / (1 - f) draws, and narrower than what is said of the agent."""
    found = window_bounds(totals(of(240, 60, 0.5)))
    draws = 299 / 0.5
    k = 0.8 * draws
    wanted = stats.beta.ppf(0.025, k, draws - k + 1), stats.beta.ppf(0.975, k + 1, draws - k)
    assert (found.lower, found.upper) == pytest.approx(wanted, rel=1e-9)
    agent = bounds(totals(of(240, 60, 0.5)))
    assert agent.lower < found.lower < 0.8 < found.upper < agent.upper


@given(
    st.lists(
        st.tuples(st.sampled_from([PASS, FAIL, NOT_APPLICABLE, None]), st.sampled_from([1.0, 0.5, 0.1])),
        min_size=1, max_size=60,
    )
)  # fmt: skip
@settings(deadline=None)
def test_bounds_hold_the_estimate(sample: Sample) -> None:
    """The bounds hold the estimate and stay shares; they are a point just where nothing was left unseen."""
    found = estimate(totals(sample), of_window=True)
    if found is None or found.rate is None:
        return
    assert found.lower is not None and found.upper is not None
    assert 0.0 <= found.lower <= found.rate <= found.upper <= 1.0
    whole = all(pi == 1.0 for outcome, pi in sample if outcome in (PASS, FAIL))
    assert (found.lower == found.upper) is whole
