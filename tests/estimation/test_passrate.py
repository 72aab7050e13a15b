"""Which verdicts make the pass rate, and which only its bounds."""

from __future__ import annotations

import itertools
import json
import random
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from monitor.estimation.passrate import Estimate, estimate, totals
from monitor.estimation.weighting import hajek_mean
from monitor.model.totals import Totals
from monitor.model.verdict import Outcome

PASS, FAIL, NOT_APPLICABLE, UNJUDGEABLE = Outcome.PASS, Outcome.FAIL, Outcome.NOT_APPLICABLE, Outcome.UNJUDGEABLE
results = st.lists(st.tuples(st.sampled_from([*Outcome, None]), st.floats(0.001, 1.0)), min_size=0, max_size=40)


def _of(*outcomes: Outcome | None, probability: float = 1.0, max_unscored: float = 0.2) -> Estimate:
    found = estimate(totals((outcome, probability) for outcome in outcomes), max_unscored)
    assert found is not None
    return found


def test_errors_leave_the_denominator(shared: Path) -> None:
    """The rounds of the public report come out: unscored invocations are outside the rate, inside the worst and best case."""
    case = json.loads((shared / "cases/public-reports/errors-leave-the-denominator.rounds.json").read_text())
    words = {"passed": PASS, "failed": FAIL}
    unscored = itertools.cycle([UNJUDGEABLE, None])
    for round_ in case["rounds"]:
        outcomes = [words.get(word) or next(unscored) for word in round_["outcomes"]]
        expect = round_["expect"]
        found = estimate(totals((outcome, 1.0) for outcome in outcomes), case["setting"]["unscored_limit"])
        if expect["sampled"] == 0:
            assert found is None
            continue
        assert found is not None
        rate = expect["pass_rate"]
        assert found.rate == (pytest.approx(float(Fraction(rate))) if rate is not None else None)
        assert found.judged == expect["passed"] + expect["failed"]
        assert found.unscored == expect["unscored"]
        assert found.worst == pytest.approx(float(Fraction(expect["lower"])))
        assert found.best == pytest.approx(float(Fraction(expect["upper"])))
        assert found.reliable is expect["reliable"]


def test_nothing_is_no_estimate() -> None:
    """No invocation, and none but not applicable ones, give no estimate rather than 0."""
    assert estimate(Totals()) is None
    assert estimate(totals([(NOT_APPLICABLE, 1.0)])) is None


def test_not_applicable_leaves_the_denominator() -> None:
    """A verdict "not applicable" changes neither the rate nor its bounds nor the unscored share."""
    assert _of(PASS, PASS, FAIL, *[NOT_APPLICABLE] * 20) == _of(PASS, PASS, FAIL)


@pytest.mark.parametrize("probability", [1.0, 0.1, 0.3, 1 / 7])
def test_unscored_share_at_the_limit_is_reliable(probability: float) -> None:
    """An unscored share equal to the limit is put up with at any sampling rate; one more is not."""
    assert _of(*[PASS] * 8, None, UNJUDGEABLE, probability=probability).reliable
    assert not _of(*[PASS] * 7, None, UNJUDGEABLE, None, probability=probability).reliable


def test_wilson_bounds_of_equal_weights() -> None:
    """With one sampling rate for all the bounds are Wilson's on the number judged, whatever the rate."""
    found = _of(*[PASS] * 45, *[FAIL] * 5, probability=0.1)
    wilson = stats.binomtest(45, 50).proportion_ci(0.95, method="wilson")
    assert (found.lower, found.rate, found.upper) == pytest.approx((wilson.low, 0.9, wilson.high))
    assert found.effective_samples == pytest.approx(50)


def test_oversampled_failures_do_not_bias_the_rate() -> None:
    """Judging all failures and a twentieth of the rest still estimates the population's pass rate."""
    draw = random.Random(7)
    population = [FAIL if draw.random() < 0.1 else PASS for _ in range(20_000)]
    sample = [
        (outcome, 1.0 if outcome is FAIL else 0.05) for outcome in population if outcome is FAIL or draw.random() < 0.05
    ]
    found = estimate(totals(sample))
    assert found is not None
    assert found.rate == pytest.approx(population.count(PASS) / len(population), abs=0.01)
    assert sum(outcome is PASS for outcome, _ in sample) / len(sample) < 0.4
    assert found.effective_samples < found.judged


@given(results, results)
def test_totals_add_up(first: list[tuple[Outcome | None, float]], second: list[tuple[Outcome | None, float]]) -> None:
    """The totals of two groups add up to the totals of both together."""
    merged, whole = totals(first) + totals(second), totals(first + second)
    for name in Totals.__dataclass_fields__:
        assert getattr(merged, name) == pytest.approx(getattr(whole, name))


@given(results)
def test_bounds_hold(sample: list[tuple[Outcome | None, float]]) -> None:
    """The rate is Hájek's mean, lies within its bounds and between the worst and the best case."""
    found = estimate(totals(sample))
    if found is None:
        assert all(outcome is NOT_APPLICABLE for outcome, _ in sample)
        return
    assert 0 <= found.worst <= found.best <= 1
    scored = [(float(outcome is PASS), pi) for outcome, pi in sample if outcome in (PASS, FAIL)]
    if not scored:
        assert (found.rate, found.lower, found.upper, found.reliable) == (None, None, None, False)
        return
    assert found.rate is not None and found.lower is not None and found.upper is not None
    assert found.rate == pytest.approx(hajek_mean([y for y, _ in scored], [pi for _, pi in scored]))
    assert 0 <= found.lower <= found.rate <= found.upper <= 1
    assert found.worst - 1e-9 <= found.rate <= found.best + 1e-9
    assert 0 < found.effective_samples <= len(scored) + 1e-6
