"""One tick of one monitor, on the real store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from monitor.clock import ManualClock
from monitor.model.run import Query
from monitor.model.tallies import TallyName
from monitor.scheduling.runner import Runner, ScheduledMonitor
from monitor.settings.tree import MonitorSettings
from monitor.store.sqlite import SqliteStore
from tests.contracts.store_material import BOOKING, T0, TONE, figures, invocation, settlement

TICK = T0 - T0 % 3600 + 3600


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    """A store of the test's own."""
    store = SqliteStore(tmp_path)
    yield store
    store.close()


def monitor(*, needs_judge: bool = True, rubrics: tuple[Any, ...] = (BOOKING,), **settings: Any) -> ScheduledMonitor:
    """A monitor as configured."""
    plain = {"rubrics": [ref.rubric for ref in rubrics], "schedule": {"every": "1h"}}
    return ScheduledMonitor(MonitorSettings.model_validate(plain | settings), rubrics, needs_judge)


def settle(store: SqliteStore, count: int, name: str = "", at: float = TICK - 60, **changes: Any) -> None:
    """So many invocations settle for the monitor `m`."""
    store.save_traces([settlement(invocation(f"{name}{n}", **changes), settled_at=at) for n in range(count)])


def test_the_first_run_has_the_cap_of_its_interval(store: SqliteStore) -> None:
    """An hourly monitor with a judge and no settings for its sample draws 60 of its first hundred."""
    settle(store, 100)
    run = Runner(store, ManualClock(TICK + 2)).run_tick("m", monitor(), TICK)
    assert run is not None
    assert (run.considered, run.drawn, run.evaluations) == (100, 60, 60)
    assert (run.started_at, run.finished_at, run.tick) == (TICK + 2, TICK + 2, TICK)
    assert figures(store, TallyName.NOT_SELECTED) == {("m", "over_cap"): 40}


def test_deterministic_monitors_take_all(store: SqliteStore) -> None:
    """Without a judge there is neither rate nor cap."""
    settle(store, 100)
    run = Runner(store, ManualClock(TICK)).run_tick("m", monitor(needs_judge=False, rubrics=(BOOKING, TONE)), TICK)
    assert run is not None
    assert (run.drawn, run.evaluations) == (100, 200)


def test_hours_go_by_the_previous_completed_tick(store: SqliteStore) -> None:
    """After two failed hours the third has the cap of three, and no more than one hour's worth is carried from a quiet one."""
    runner, cautious = Runner(store, ManualClock(TICK)), monitor(sample={"max_per_hour": 10})
    settle(store, 10, "a")
    first = runner.run_tick("m", cautious, TICK)
    runner.fail_tick("m", cautious, TICK + 3600, "broken")
    runner.fail_tick("m", cautious, TICK + 7200, "broken")
    settle(store, 100, "b")
    third = runner.run_tick("m", cautious, TICK + 10_800)
    quiet = runner.run_tick("m", cautious, TICK + 14_400)
    settle(store, 100, "c")
    last = runner.run_tick("m", cautious, TICK + 18_000)
    assert [run and run.drawn for run in (first, third, quiet, last)] == [10, 30, 0, 20]


def test_selection_strata_and_incomplete_are_settings(store: SqliteStore) -> None:
    """What the settings say is what is drawn: the filtered and incomplete have their reasons, each stratum its share."""
    settle(store, 30, "one", agent_version="1")
    settle(store, 10, "two", agent_version="2")
    settle(store, 5, "test", environment="staging")
    settings = {
        "select": {"environment": "production"},
        "sample": {"max_per_hour": 8, "stratify_by": ["agent_version"]},
        "include_incomplete": False,
    }
    run = Runner(store, ManualClock(TICK)).run_tick("m", monitor(**settings), TICK)
    assert run is not None
    assert {s.name: (s.size, s.drawn) for s in run.strata} == {"agent_version=1": (30, 6), "agent_version=2": (10, 2)}
    assert figures(store, TallyName.NOT_SELECTED) == {("m", "filtered"): 5, ("m", "over_cap"): 32}


def test_what_settles_at_the_tick_waits_for_the_next(store: SqliteStore) -> None:
    """A run takes what settled before its tick."""
    settle(store, 1, "before", at=TICK - 0.001)
    settle(store, 1, "at", at=TICK)
    runner = Runner(store, ManualClock(TICK))
    assert [
        getattr(runner.run_tick("m", monitor(), tick), "considered", None) for tick in (TICK, TICK, TICK + 3600)
    ] == [1, None, 1]


def test_a_new_monitor_is_due_at_its_next_tick(store: SqliteStore) -> None:
    """Without runs and without waiting invocations nothing is due until a tick after the set-up."""
    clock = ManualClock(TICK + 100)
    runner = Runner(store, clock)
    assert runner.due("m", monitor(), since=TICK + 100) == (None, ())
    clock.advance(3500)
    assert runner.due("m", monitor(), since=TICK + 100) == (None, (TICK + 3600,))


def test_a_monitor_whose_ticks_all_fell_into_restarts_still_runs(store: SqliteStore) -> None:
    """A tick that passed while the process was down is due when something waited for it, though nothing was ever run."""
    settle(store, 1, at=TICK - 60)
    clock = ManualClock(TICK + 100)
    assert Runner(store, clock).due("m", monitor(), since=TICK + 100) == (None, (TICK,))


def test_ticks_are_due_since_the_newest_completed_one(store: SqliteStore) -> None:
    """Failed ticks stay due; those beyond catch_up are missed, and recording the miss completes them."""
    clock = ManualClock(TICK + 10)
    runner, hourly = Runner(store, clock), monitor(schedule={"every": "1h", "catch_up": 2})
    runner.run_tick("m", hourly, TICK)
    clock.advance(4 * 3600)
    runner.fail_tick("m", hourly, TICK + 3600, "broken")
    hours = [TICK + 3600 * n for n in range(5)]
    assert runner.due("m", hourly, since=0.0) == (hours[2], (hours[3], hours[4]))
    assert runner.miss_tick("m", hourly, hours[2]) is not None
    assert runner.due("m", hourly, since=0.0) == (None, (hours[3], hours[4]))


def test_a_clock_put_back_goes_on_from_there(store: SqliteStore) -> None:
    """When the newest run lies years ahead, ticks after the correction are due; those that were run are not run again."""
    runner = Runner(store, ManualClock(TICK + 10))
    runner.run_tick("m", monitor(), TICK + 9 * 365 * 86400)
    assert runner.due("m", monitor(), since=TICK - 60) == (None, (TICK,))
    assert runner.run_tick("m", monitor(), TICK) is not None
    assert len(store.list_runs(Query()).items) == 2
