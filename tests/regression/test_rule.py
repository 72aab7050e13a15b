"""How a promise becomes evidence, shared by the monitor's series; and which criterion is decisive."""

from __future__ import annotations

import json

import pytest

from monitor.model.evidence import CriterionScores
from monitor.regression.dimension import decisive_dimension
from monitor.regression.rule import DAY, Traffic, kinds_of_test, promised_verdicts
from tests.regression.verdicts import T0, monitor, rubric


def test_a_number_of_invocations_is_shared_by_tests() -> None:
    """Two rubrics tested in two ways cost four tests of each judged invocation, so each takes four times the evidence."""
    one = monitor(rubric(), every_invocations=5000.0)
    assert promised_verdicts(one, 1.0) == 5000
    other = rubric(objective=0.9)
    both = monitor(rubric(), other, against=("objective", "baseline"), every_invocations=5000.0)
    assert promised_verdicts(both, 1.0) == 20_000


def test_days_count_by_last_weeks_traffic() -> None:
    """90 days at 24 verdicts a day are 2,160 verdicts."""
    traffic = Traffic()
    for hour in range(24 * 10):
        traffic = traffic.counted(T0 + 3600.0 * hour)
    rate = traffic.per_second(T0 + 3600.0 * 24 * 10)
    assert rate * DAY == pytest.approx(24, rel=0.02)
    assert promised_verdicts(monitor(every_seconds=90 * DAY), rate) == pytest.approx(2160, rel=0.02)
    assert Traffic.from_json(json.loads(json.dumps(traffic.as_json()))) == traffic


def test_little_traffic_is_no_promise_of_few() -> None:
    """A handful of verdicts in the first minutes is not taken for the day's traffic, nor for none."""
    traffic = Traffic().counted(T0).counted(T0 + 1)
    assert promised_verdicts(monitor(every_seconds=90 * DAY), traffic.per_second(T0 + 1)) == pytest.approx(2 * 90 * 24)
    assert promised_verdicts(monitor(every_seconds=DAY), 0.0) == 100


def test_shadows_are_not_tested() -> None:
    """A shadow rubric, and one without objective, are tested against no objective."""
    found = monitor(rubric(), against=("objective", "version"))
    assert kinds_of_test(found, rubric()) == ("objective", "version")
    assert kinds_of_test(found, rubric(objective=None)) == ("version",)
    assert kinds_of_test(found, rubric(shadow=True)) == ()


def test_the_dimension_that_fell_is_decisive() -> None:
    """The dimension whose weighted mean fell most is named, also where another lies lower all the time."""
    before = [CriterionScores(T0, (("tone", 2.0, 1.0), ("policy", 5.0, 5.0)))] * 5
    after = [CriterionScores(T0 + 10, (("tone", 1.0, 1.0), ("policy", 4.0, 5.0)))] * 5
    found = decisive_dimension([*before, *after], T0 + 5)
    assert found is not None and (found.id, found.before, found.since) == ("policy", 5.0, 4.0)
    alone = decisive_dimension(after, T0 + 5)
    assert alone is not None and (alone.id, alone.before) == ("tone", None)
    assert decisive_dimension(before, T0 + 5) is None
