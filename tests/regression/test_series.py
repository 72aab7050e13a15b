"""One series: alarms, what they name, when they end, and that nothing counts twice."""

from __future__ import annotations

import json

import pytest

from monitor.regression.series import Series, Terms
from tests.regression.verdicts import T0, TERMS, VERSION, alarms, row, rubric, states, stream


def test_a_drop_is_found_and_named() -> None:
    """A drop from 0.96 to 0.6 raises one alarm soon after, naming agent, version, rubric, since when, and failing invocations."""
    series = Series(VERSION)
    calm = list(stream(1, (0.96, 600)))
    assert alarms(calm, series=series) == []
    found = alarms(stream(2, (0.6, 60), start=601, agent_version="2"), series=series)
    assert states(found) == ["open"]
    seq, alarm = found[0]
    assert 601 < seq < 640
    assert (alarm["monitor"], alarm["rubric"], alarm["agent"], alarm["environment"]) == (
        "m",
        "booking",
        "bot",
        "production",
    )
    assert (alarm["agent_version"], alarm["against"], alarm["target"]) == ("2", "objective", 0.95)
    assert abs(alarm["since"] - (T0 + 60 * 601)) < 60 * 15
    assert 1 <= len(alarm["failing"]) <= 5
    assert all(one["ended_at"] >= alarm["since"] for one in alarm["failing"])
    assert alarm["failing"][0]["ended_at"] == max(one["ended_at"] for one in alarm["failing"])


@pytest.mark.parametrize("seed", range(20))
def test_twenty_calm_seeds_raise_none(seed: int) -> None:
    """Traffic at 0.97 against 0.95 raises no alarm in 1,000 judged invocations, at a promise of one in 10,000."""
    terms = Terms(("objective",), promised=10_000.0, version_limit=100.0)
    assert alarms(stream(seed, (0.97, 1000)), terms) == []


def test_the_alarm_stands_until_the_objective_is_met_again() -> None:
    """It is cleared by `clear_after` judged invocations that pass at the objective, not by fewer, and the next drop is a new alarm."""
    series = Series(VERSION)
    found = alarms(stream(3, (0.5, 40)), series=series)
    assert states(found) == ["open"] and series.open is not None
    first = found[0][1]["id"]
    still = alarms((row(n, True) for n in range(100, 140)), series=series)
    assert still == []
    cleared = alarms((row(n, True) for n in range(140, 260)), series=series)
    assert states(cleared) == ["cleared"] and series.open is None
    assert cleared[0][1]["id"] == first and cleared[0][1]["closed_at"] is not None
    again = alarms(stream(4, (0.5, 60), start=300), series=series)
    assert states(again) == ["open"] and again[0][1]["id"] != first


def test_a_new_rubric_version_begins_anew() -> None:
    """The alarm of the old version is superseded, and its stragglers change nothing of the new one."""
    series = Series(VERSION)
    alarms(stream(3, (0.5, 40)), series=series)
    new = rubric(version="bbbbbbbbbbbb")
    found = alarms([row(50, True, rubric_version="bbbbbbbbbbbb")], of=new, series=series)
    assert states(found) == ["superseded"]
    before = json.dumps(series.as_json())
    assert alarms([row(51, False)], of=new, series=series) == []
    assert json.dumps(series.as_json()) == before and series.judged == 1


def test_a_restart_at_every_verdict_changes_nothing() -> None:
    """Kept and read again after each verdict, a series raises the same alarms with the same ids."""
    rows = list(stream(6, (0.97, 200), (0.6, 80), (1.0, 80), (0.6, 60)))
    terms = Terms(("objective", "baseline", "version"), 1000.0, 100.0, 50, 100, 0.02)
    whole = alarms(rows, terms)
    series, found = Series(VERSION), []
    for one in rows:
        series = Series.from_json(json.loads(json.dumps(series.as_json())))
        found += alarms([one], terms, series=series)
    assert found == whole
    assert states(whole).count("open") >= 2


def test_a_frozen_baseline_does_not_drift() -> None:
    """Against a baseline of the first judged a slow decline is found, though each step of it is small."""
    terms = Terms(("baseline",), 2000.0, 100.0, 50, 300, 0.02)
    decline = [(0.96, 300), *[(0.96 - 0.01 * step, 100) for step in range(1, 15)]]
    found = alarms(stream(8, *decline), terms, of=rubric(objective=None))
    assert found and found[0][1]["against"] == "baseline"
    assert 0.85 < found[0][1]["target"] < 0.95
    assert alarms(stream(9, (0.96, 1500)), terms, of=rubric(objective=None)) == []


def test_a_worse_version_is_told_from_the_one_before() -> None:
    """Version 2 at 0.75 after version 1 at 0.92 alarms; version 2 as good as version 1, or better, does not."""
    terms = Terms(("version",), 1000.0, 100.0)

    def compared(rate: float, seed: int) -> list[tuple[int, dict[str, object]]]:
        series = Series(VERSION)
        assert alarms(stream(seed, (0.92, 500)), terms, series=series) == []
        return alarms(stream(seed + 1, (rate, 500), start=501, agent_version="2"), terms, series=series)

    worse = compared(0.75, 20)
    assert states(worse)[0] == "open"
    alarm = worse[0][1]
    assert (alarm["against"], alarm["compared_with"], alarm["agent_version"]) == ("version", "1", "2")
    assert compared(0.92, 30) == [] and compared(0.98, 40) == []


def test_oversampled_failures_are_no_regression() -> None:
    """All errors are judged and a twentieth of the rest: the sample passes at 0.73, the traffic at 0.96, and nothing alarms."""
    rows = []
    for seq in range(1, 2001):
        flagged = seq % 3 != 0
        passed = (seq % 10 < 6) if flagged else True
        rows.append(row(seq, passed, inclusion_probability=1.0 if flagged else 0.05, heaviest=20.0))
    assert sum(one.passed for one in rows) / len(rows) < 0.75
    assert alarms(rows) == []


def test_without_a_test_there_is_no_evidence() -> None:
    """A rubric without objective is not tested against one."""
    series = Series(VERSION)
    assert alarms(stream(1, (0.2, 200)), TERMS, of=rubric(objective=None), series=series) == []
    assert series.margin() is None
