"""Detection over a real store: alarms out of verdicts, restarts, acknowledgements, gauges."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from monitor.clock import ManualClock
from monitor.exporters.prometheus.regressions import regression_families
from monitor.model.evidence import RegressionState, SeriesKey
from monitor.model.run import Candidate, Decision, RunPlan
from monitor.model.verdict import Criterion, Outcome
from monitor.model.watched import WatchedMonitor, WatchedRubric
from monitor.regression.detection import Detection
from monitor.store.protocol import StoreUnwritable
from monitor.store.sqlite import SqliteStore
from tests.contracts.store_material import BOOKING, T0, invocation, request, settlement, verdict_of
from tests.regression.verdicts import monitor

SERIES = SeriesKey("m", "booking", "restaurant-bot", "production")
GOOD = (Criterion("policy", 5, True, 5), Criterion("tone", 3, True, 1))
BAD = (Criterion("policy", 1, True, 5), Criterion("tone", 3, True, 1))


class World:
    """A store, its detection, and traffic on demand."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.clock, self.made = folder, ManualClock(T0 + 86400), 0
        self.monitors: list[WatchedMonitor] = [monitor(_rubric(BOOKING.version), every_invocations=500.0)]
        self.restart()

    def restart(self) -> None:
        """Another process over the same file."""
        self.store = SqliteStore(self.folder)
        self.detection = Detection(self.store, self.clock, lambda: self.monitors)

    def judge(self, outcomes: Iterable[bool], version: str = "1") -> None:
        """One invocation for each outcome, drawn in one run and judged in order."""
        wanted = {}
        for passed in outcomes:
            self.made += 1
            one = invocation(
                f"n{self.made}", conversation_id=None, agent_version=version, ended_at=int((T0 + 60 * self.made) * 1e9)
            )
            wanted[one.id] = (self.made, passed)
            self.store.save_traces([settlement(one, settled_at=T0 + 60 * self.made + 1, spans=None)])
        self.store.execute_run(
            request(tick=T0 + 60 * self.made + 30), lambda some, _: RunPlan(tuple(map(_drawn, some)))
        )
        for evaluation in sorted(
            self.store.claim_evaluations(1000, self.clock.now(), 60), key=lambda e: wanted[e.invocation.id]
        ):
            place, passed = wanted[evaluation.invocation.id]
            said = verdict_of(
                evaluation,
                Outcome.PASS if passed else Outcome.FAIL,
                criteria=GOOD if passed else BAD,
                judged_at=T0 + 60 * place + 40,
            )
            self.store.finish_evaluations([(evaluation, said)])

    def read(self) -> None:
        """Read the log to its end."""
        while self.detection.step():
            pass

    def gauges(self) -> Mapping[str, Mapping[tuple[str, ...], float]]:
        """The metrics' values by name and label values."""
        families = regression_families(self.detection.watching(), self.clock.now(), 1e9, 100)
        return {family.name: {row.key: row.values[0] for row in family.rows} for family in families}


def _rubric(version: str, objective: float = 0.9) -> WatchedRubric:
    return WatchedRubric("booking", version, "weighted", "default", "model", objective)


def _drawn(candidate: Candidate) -> Decision:
    return Decision(candidate.invocation_id, True, None, 0.5, 1.0, "all")


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path / "data")


def test_an_alarm_with_all_it_names(world: World) -> None:
    """Verdicts that turn bad raise an alarm that names the decisive dimension; the gauges show it with its beginning."""
    world.judge([True] * 30)
    world.read()
    assert world.gauges()["regression"] == {tuple(SERIES): 0.0}
    assert world.gauges()["regression_started_timestamp_seconds"] == {}
    world.judge([False] * 12, version="2")
    world.read()
    (alarm,) = world.store.regressions()
    assert alarm["state"] == "open" and alarm["agent_version"] == "2" and len(alarm["failing"]) <= 5
    assert alarm["dimension"] == {"id": "policy", "before": 5.0, "since": 1.0}
    gauges = world.gauges()
    assert gauges["regression"] == {tuple(SERIES): 1.0}
    assert gauges["regression_started_timestamp_seconds"][tuple(SERIES)] == pytest.approx(T0 + 60 * 31, abs=60)
    assert gauges["regression_log_evidence"][tuple(SERIES)] >= gauges["regression_log_threshold"][tuple(SERIES)]


def test_a_worse_version_is_named_with_what_it_is_compared_with(world: World) -> None:
    """Version against version over the store: the alarm of the newer one names the older, its beginning, the decisive dimension and failing invocations."""
    world.monitors[:] = [monitor(_rubric(BOOKING.version), against=("version",))]
    world.judge([True] * 40)
    world.judge([True, False] * 20, version="2")
    world.read()
    (alarm,) = world.store.regressions()
    assert (alarm["state"], alarm["against"]) == ("open", "version")
    assert (alarm["agent_version"], alarm["compared_with"]) == ("2", "1")
    assert (alarm["agent"], alarm["rubric"], alarm["environment"]) == ("restaurant-bot", "booking", "production")
    assert alarm["dimension"]["id"] == "policy" and alarm["dimension"]["before"] == 5.0
    assert 1 <= len(alarm["failing"]) <= 5
    assert {one["agent_version"] for one in alarm["failing"]} == {"2"}
    assert alarm["since"] >= T0 + 60 * 41


def test_a_restart_neither_clears_nor_repeats(world: World) -> None:
    """Another process finds the alarm standing, reads nothing twice, and goes on from the same evidence."""
    world.judge([True] * 20 + [False] * 12)
    world.read()
    before, gauges = world.store.regressions(), world.gauges()
    world.restart()
    world.read()
    assert world.store.regressions() == before and world.gauges() == gauges


def test_a_death_between_reading_and_keeping_changes_nothing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was read but not kept is read again, with the same result as without the fault."""
    world.judge([True] * 20 + [False] * 12)

    def full(*_: Any) -> bool:
        raise StoreUnwritable("the disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(world.store, "save_regression_state", full)
        with pytest.raises(StoreUnwritable):
            world.detection.step()
    assert world.store.regressions() == []
    world.read()
    once = world.store.regression_state()
    (alarm,) = world.store.regressions()
    assert once.series[SERIES]["judged"] == 32 and alarm["state"] == "open"


def test_two_processes_count_a_verdict_once(world: World) -> None:
    """A second process that reads at the same time gives way and takes over what the first has kept."""
    world.judge([True] * 10)
    other = Detection(world.store, world.clock, lambda: world.monitors)
    assert other.watching() == []  # it has read its state before the first moves on
    world.read()
    world.judge([True] * 5)
    other.step()
    other.step()
    world.read()
    assert world.store.regression_state().series[SERIES]["judged"] == 15


def test_acknowledged_evidence_begins_anew(world: World) -> None:
    """An acknowledgement ends the alarm at once and for good; what stays bad raises the next one."""
    world.judge([False] * 15)
    world.read()
    (alarm,) = world.store.regressions()
    closed = world.detection.acknowledge(alarm["id"])
    assert closed is not None and closed["state"] == "acknowledged"
    assert world.detection.acknowledge(alarm["id"]) is None
    world.restart()
    assert world.gauges()["regression"] == {tuple(SERIES): 0.0}
    world.judge([False] * 15)
    world.read()
    assert [one["state"] for one in world.store.regressions()] == ["open", "acknowledged"]


def test_a_new_version_of_the_rubric_takes_the_alarm_off_the_page(world: World) -> None:
    """As soon as another version is in force the gauge is 0, before anything was judged by it."""
    world.judge([False] * 15)
    world.read()
    world.monitors[:] = [monitor(_rubric("cccccccccccc"), every_invocations=500.0)]
    assert world.gauges()["regression"] == {tuple(SERIES): 0.0}
    world.monitors[:] = []
    assert world.gauges()["regression"] == {}


def test_a_silent_series_leaves_the_page(world: World) -> None:
    """A series without an alarm is gone `expire_after` after its last verdict; one whose alarm stands stays."""
    world.judge([True] * 3)
    world.read()
    families = regression_families(world.detection.watching(), T0 + 10_000, 60.0, 100)
    assert all(family.rows == () for family in families)


def test_past_the_limit_series_are_shown_as_other(world: World) -> None:
    """The page stays bounded; an alarm among the folded shows on `other`."""
    series = {SeriesKey("m", "booking", f"bot-{n}", ""): _kept() for n in range(10)}
    world.store.save_regression_state(0, RegressionState(0, {}, series), {})
    families = regression_families(world.detection.watching(), T0, 1e9, 4)
    shown = {row.key[2] for row in families[0].rows}
    assert len(families[0].rows) <= 4 and "other" in shown


def _kept() -> dict[str, Any]:
    from monitor.regression.series import Series

    return Series(BOOKING.version, last_at=T0).as_json()
