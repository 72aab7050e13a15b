"""The scheduler: due ticks run in order, one at a time, whatever happens to the process, the store or the clock."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from monitor.clock import ManualClock, SystemClock
from monitor.model.run import Candidate, Query, Run, RunPlan, RunRequest
from monitor.model.tallies import TallyName
from monitor.scheduling.runner import ScheduledMonitor
from monitor.scheduling.scheduler import CLOCK_CHECK_SECONDS, RETRY_SECONDS, Scheduler
from monitor.settings.tree import MonitorSettings
from monitor.store.protocol import StoreUnwritable
from monitor.store.sqlite import SqliteStore
from tests.contracts.store_material import BOOKING, figures, invocation, settlement, verdict_of

NINE = 1_763_456_400.0  # 2025-11-18T09:00:00Z
MINUTE = 60.0


class WatchedStore(SqliteStore):
    """The SQLite store, which tells of each run and can be made to fail."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.told: asyncio.Queue[tuple[str, str, float]] = asyncio.Queue()
        self.loop = asyncio.get_running_loop()
        self.failure: Exception | None = None
        self.hold: threading.Event | None = None
        self.holding = asyncio.Event()

    def tell(self, what: str, request: RunRequest) -> None:
        self.loop.call_soon_threadsafe(self.told.put_nowait, (what, request.monitor, request.tick))

    def execute_run(self, request: RunRequest, decide: Callable[[Sequence[Candidate], float], RunPlan]) -> Run | None:
        if self.hold is not None:
            self.loop.call_soon_threadsafe(self.holding.set)
            assert self.hold.wait(10)
        if self.failure is not None:
            raise self.failure
        run = super().execute_run(request, decide)
        self.tell("run" if run else "known", request)
        return run

    def miss_run(self, request: RunRequest) -> Run | None:
        run = super().miss_run(request)
        self.tell("missed", request)
        return run

    def fail_run(self, request: RunRequest, error: str) -> None:
        super().fail_run(request, error)
        self.tell("failed", request)

    async def next(self) -> tuple[str, str, float]:
        """What happened next: (what, monitor, minutes after nine)."""
        what, monitor, tick = await asyncio.wait_for(self.told.get(), 10)
        return what, monitor, (tick - NINE) / MINUTE


def monitor(every: str = "10m", **settings: Any) -> ScheduledMonitor:
    """A monitor on a schedule."""
    plain = {"rubrics": ["booking"], "schedule": {"every": every}}
    return ScheduledMonitor(MonitorSettings.model_validate(plain | settings), (BOOKING,), needs_judge=False)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[WatchedStore]:
    """A store that is watched."""
    store = WatchedStore(tmp_path)
    yield store
    store.close()


async def quiet(store: WatchedStore, scheduler: Scheduler) -> bool:
    """Whether nothing happens when every monitor is woken once more."""
    for name in list(scheduler._workers):
        await scheduler.run_due(name)
    return store.told.empty()


async def test_ticks_run_when_their_time_has_come(store: WatchedStore) -> None:
    """Each tick is run once; a wake-up between ticks runs nothing."""
    clock = ManualClock(NINE + 1)
    scheduler = Scheduler(store, clock, {"m": monitor()})
    await scheduler.start()
    assert scheduler.next_run("m") == NINE + 600
    clock.advance(599)
    await scheduler.wake("m")
    assert await store.next() == ("run", "m", 10)
    assert await quiet(store, scheduler)
    clock.advance(300)
    assert await quiet(store, scheduler)
    assert scheduler.next_run("m") == NINE + 1200
    assert scheduler.next_run("other") is None
    await scheduler.stop()


async def test_runs_do_not_pile_up_after_a_restart(store: WatchedStore, shared: Path) -> None:
    """The course of the public report: what was begun is finished, missed rounds run oldest first, each once, the next at its time."""
    course = json.loads((shared / "cases/public-reports/runs-pile-up-after-a-restart.steps.json").read_text())
    every = f"{course['schedule']['every_minutes']}m"
    clock = ManualClock(NINE - 1)
    first = Scheduler(store, clock, {"m": monitor(every)})
    await first.start()
    store.save_traces([settlement(invocation(str(n)), settled_at=NINE - 500) for n in range(20)])
    clock.advance(1)
    await first.wake("m")
    assert await store.next() == ("run", "m", 0)
    begun = store.claim_evaluations(12, NINE + 5, 60)
    store.finish_evaluations([(one, verdict_of(one)) for one in begun])
    await first.stop()  # the process is killed here; what it would still have done is nothing but this

    for minute in (4, 14, 24):
        store.save_traces([settlement(invocation(f"late {minute}"), settled_at=NINE + 60 * minute)])
    clock.advance(34 * MINUTE)
    second = Scheduler(store, clock, {"m": monitor(every)})
    await second.start()
    assert [await store.next() for _ in range(3)] == [("run", "m", 10), ("run", "m", 20), ("run", "m", 30)]
    assert [run["considered"] for run in store.list_runs(Query()).items] == [1, 1, 1, 20]
    assert second.next_run("m") == NINE + 40 * MINUTE
    rest = store.claim_evaluations(8, clock.now(), 60)
    assert {one.invocation.id for one in rest} == {invocation(str(n)).id for n in range(20)} - {
        e.invocation.id for e in begun
    }

    third = Scheduler(store, clock, {"m": monitor(every)})
    await third.start()
    assert await quiet(store, third)
    assert not {one.id for one in store.claim_evaluations(50, clock.now(), 60)} & {one.id for one in [*begun, *rest]}
    await second.stop()
    await third.stop()


async def test_older_ticks_than_the_limit_are_missed_and_counted(store: WatchedStore) -> None:
    """After a long outage six ticks are caught up; what only older ones would have taken is counted as missed."""
    clock = ManualClock(NINE)
    scheduler = Scheduler(store, clock, {"m": monitor()})
    store.save_traces([settlement(invocation("first"), settled_at=NINE - 1)])
    await scheduler.start()
    assert await store.next() == ("run", "m", 0)
    await scheduler.stop()
    store.save_traces([settlement(invocation(str(n)), settled_at=NINE + 60 * n) for n in (5, 15, 35, 85)])
    clock.advance(93 * MINUTE)
    scheduler = Scheduler(store, clock, {"m": monitor()})
    await scheduler.start()
    assert [await store.next() for _ in range(7)] == [
        ("missed", "m", 30),
        *(("run", "m", m) for m in (40, 50, 60, 70, 80, 90)),
    ]
    assert figures(store, TallyName.NOT_SELECTED) == {("m", "missed"): 2}
    assert [run["considered"] for run in store.list_runs(Query()).items] == [1, 0, 0, 0, 0, 1, 2, 1]
    await scheduler.stop()


async def test_a_failure_is_recorded_and_tried_again(store: WatchedStore, caplog: pytest.LogCaptureFixture) -> None:
    """A run that raises is a failed run, is logged without what it said, and its tick is run when the trouble is over."""
    clock = ManualClock(NINE + 1)
    scheduler = Scheduler(store, clock, {"m": monitor()})
    await scheduler.start()
    store.failure = KeyError("what somebody wrote")
    clock.advance(10 * MINUTE)
    with caplog.at_level(logging.ERROR):
        await scheduler.wake("m")
        assert await store.next() == ("failed", "m", 10)
    assert "what somebody wrote" not in caplog.text
    assert "KeyError" in caplog.text
    assert store.list_runs(Query()).items[0]["error"] == "KeyError"
    store.failure = None
    while not clock._sleepers or all(due != clock.now() + RETRY_SECONDS for due, _ in clock._sleepers):
        await asyncio.sleep(0)
    clock.advance(RETRY_SECONDS)
    assert await store.next() == ("run", "m", 10)
    await scheduler.stop()


async def test_a_failure_that_cannot_be_recorded_ends_no_monitor(
    store: WatchedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fault of any kind in recording a failed tick is logged, and the tick is tried again."""
    clock = ManualClock(NINE + 1)
    scheduler = Scheduler(store, clock, {"m": monitor()})
    tried = asyncio.Event()

    def broken(request: RunRequest, error: str) -> None:
        store.loop.call_soon_threadsafe(tried.set)
        raise ValueError(error)

    with monkeypatch.context() as patch:
        patch.setattr(store, "fail_run", broken)
        store.failure = RuntimeError("broken")
        await scheduler.start()
        clock.advance(600)
        await scheduler.wake("m")
        await asyncio.wait_for(tried.wait(), 10)
        store.failure = None
        await asyncio.sleep(0)
        assert await scheduler.run_due("m")
    assert await store.next() == ("run", "m", 10)
    await scheduler.wake("m")
    clock.advance(600)
    await scheduler.wake("m")
    assert await store.next() == ("run", "m", 20)
    await scheduler.stop()


async def test_a_store_that_cannot_be_written_stops_nothing(
    store: WatchedStore, caplog: pytest.LogCaptureFixture
) -> None:
    """With a full disk, when not even the failure can be recorded, the tick stays due and runs later."""
    clock = ManualClock(NINE + 1)
    scheduler = Scheduler(store, clock, {"m": monitor()})
    await scheduler.start()
    store.failure = StoreUnwritable("store x in folder /d cannot be written by user id 1: the disk is full")

    def unwritable(request: RunRequest, error: str) -> None:
        raise StoreUnwritable("still full")

    store.fail_run = unwritable  # type: ignore[method-assign]
    clock.advance(10 * MINUTE)
    with caplog.at_level(logging.ERROR):
        assert not await scheduler.run_due("m")
    assert "the disk is full" in caplog.text
    store.failure = None
    assert await scheduler.run_due("m")
    assert await store.next() == ("run", "m", 10)
    await scheduler.stop()


async def test_one_tick_at_a_time_for_each_monitor(store: WatchedStore) -> None:
    """While a run takes long, its monitor's later ticks wait their turn and then run in order."""
    clock = ManualClock(NINE + 1)
    scheduler = Scheduler(store, clock, {"m": monitor()})
    await scheduler.start()
    store.hold = threading.Event()
    clock.advance(10 * MINUTE)
    await scheduler.wake("m")
    await asyncio.wait_for(store.holding.wait(), 10)
    clock.advance(20 * MINUTE)
    await scheduler.wake("m")
    await scheduler.wake("m")
    assert store.told.empty()
    store.hold.set()
    assert [await store.next() for _ in range(3)] == [("run", "m", 10), ("run", "m", 20), ("run", "m", 30)]
    assert await quiet(store, scheduler)
    await scheduler.stop()


async def test_stop_waits_for_the_tick_under_way_only(store: WatchedStore) -> None:
    """A tick that has begun is finished before stop returns; those behind it are left for the next start."""
    clock = ManualClock(NINE + 1)
    scheduler = Scheduler(store, clock, {"m": monitor()})
    await scheduler.start()
    store.hold = threading.Event()
    clock.advance(30 * MINUTE)
    await scheduler.wake("m")
    await asyncio.wait_for(store.holding.wait(), 10)
    stopping = asyncio.create_task(scheduler.stop())
    await asyncio.sleep(0)
    assert not stopping.done()
    store.hold.set()
    await asyncio.wait_for(stopping, 10)
    assert await store.next() == ("run", "m", 10)
    assert store.told.empty()
    await scheduler.stop()


async def test_reload_replaces_the_monitors(store: WatchedStore) -> None:
    """A changed monitor goes on with its new schedule and settings, a new one begins, one that is gone leaves nothing waiting."""
    clock = ManualClock(NINE + 1)
    scheduler = Scheduler(store, clock, {"m": monitor(), "gone": monitor()})
    await scheduler.start()
    store.save_traces([settlement(invocation("a"), settled_at=NINE + 2, monitors=("m", "gone"))])
    await scheduler.reload({"m": monitor("1m", select={"agent": "nobody"}), "new": monitor()})
    assert scheduler.next_run("m") == NINE + 60
    assert scheduler.next_run("gone") is None
    assert store.oldest_waiting("gone") is None
    clock.advance(MINUTE)
    await scheduler.wake("m")
    await scheduler.wake("gone")
    assert await store.next() == ("run", "m", 1)
    assert figures(store, TallyName.NOT_SELECTED) == {("m", "filtered"): 1}
    clock.advance(9 * MINUTE)
    await scheduler.wake("new")
    assert await store.next() == ("run", "new", 10)
    await scheduler.stop()


async def test_a_changed_monitor_starts_with_what_settles_after_the_reload(store: WatchedStore) -> None:
    """What settled before is drawn from with the old settings at the reload, once; what settles later with the new ones at the next tick."""
    clock = ManualClock(NINE + 1)
    scheduler = Scheduler(store, clock, {"m": monitor(), "same": monitor()})
    await scheduler.start()
    store.save_traces([settlement(invocation("a"), settled_at=NINE + 100, monitors=("m", "same"))])
    clock.advance(4 * MINUTE)
    await scheduler.reload({"m": monitor(select={"agent": "nobody"}), "same": monitor()})
    [(_, name, minutes)] = [await store.next()]
    assert (name, minutes) == ("m", (4 * MINUTE + 1) / MINUTE)
    assert [(run["monitor"], run["drawn"]) for run in store.list_runs(Query()).items] == [("m", 1)]
    store.save_traces([settlement(invocation("b"), settled_at=NINE + 300, monitors=("m",))])
    clock.advance(6 * MINUTE)
    await scheduler.wake("m")
    assert await store.next() == ("run", "m", 10)
    assert figures(store, TallyName.NOT_SELECTED) == {("m", "filtered"): 1}
    await scheduler.stop()


async def test_two_processes_do_not_run_the_same_tick(store: WatchedStore) -> None:
    """Of two schedulers on one store one runs the tick, the other finds it known."""
    clock = ManualClock(NINE + 1)
    both = [Scheduler(store, clock, {"m": monitor()}) for _ in range(2)]
    for scheduler in both:
        await scheduler.start()
    store.save_traces([settlement(invocation(str(n)), settled_at=NINE + 2) for n in range(10)])
    clock.advance(10 * MINUTE)
    await asyncio.gather(*(scheduler.run_due("m") for scheduler in both))
    assert len(store.list_runs(Query()).items) == 1
    assert figures(store, TallyName.SELECTED) == {("m",): 10}
    for scheduler in both:
        await scheduler.stop()


async def let_watch_sleep(clock: ManualClock) -> None:
    """Go on until the clock's watcher sleeps again."""
    while not any(due == clock.monotonic() + CLOCK_CHECK_SECONDS for due, _ in clock._sleepers):
        await asyncio.sleep(0)


@pytest.mark.parametrize(("shift", "expected"), [(1200.0, [10, 20]), (-7200.0, [-110])])
async def test_a_clock_that_jumps_is_noticed(store: WatchedStore, shift: float, expected: list[float]) -> None:
    """Put forward, the ticks jumped over are caught up at once; put back, the schedule goes on from there instead of waiting."""
    clock = ManualClock(NINE + 1)
    scheduler = Scheduler(store, clock, {"m": monitor()})
    store.save_traces([settlement(invocation(), settled_at=NINE - 1)])
    await scheduler.start()
    assert await store.next() == ("run", "m", 0)
    await let_watch_sleep(clock)
    clock.step(shift)
    clock.advance(CLOCK_CHECK_SECONDS)
    await let_watch_sleep(clock)
    if shift < 0:
        clock.advance(600)
        await scheduler.wake("m")
    assert [(await store.next())[2] for _ in expected] == expected
    assert await quiet(store, scheduler)
    await scheduler.stop()


async def test_what_waits_when_the_clock_is_put_forward_is_not_missed(store: WatchedStore) -> None:
    """Ticks that the clock jumped over were not missed: what had settled is drawn from, and nothing is counted as missed or twice."""
    clock = ManualClock(NINE + 1)
    scheduler = Scheduler(store, clock, {"m": monitor()})
    store.save_traces([settlement(invocation("before"), settled_at=NINE - 1)])
    await scheduler.start()
    assert await store.next() == ("run", "m", 0)
    store.save_traces([settlement(invocation("waits"), settled_at=NINE + 1)])
    await let_watch_sleep(clock)
    clock.step(10 * 3600.0)
    clock.advance(CLOCK_CHECK_SECONDS)
    assert [(await store.next())[0] for _ in range(6)] == ["run"] * 6
    assert await quiet(store, scheduler)
    assert figures(store, TallyName.NOT_SELECTED) == {}
    assert figures(store, TallyName.SELECTED) == {("m",): 2}
    await scheduler.stop()


async def test_apscheduler_wakes_at_the_next_multiple(store: WatchedStore) -> None:
    """On the machine's clock the first tick is the next whole second, not one interval after the start."""
    clock = SystemClock()
    scheduler = Scheduler(store, clock, {"m": monitor("1s")})
    started = clock.now()
    await scheduler.start()
    ticks = [(await asyncio.wait_for(store.told.get(), 10))[2] for _ in range(2)]
    await scheduler.stop()
    assert ticks[0] == float(int(started)) + 1
    assert ticks[1] == ticks[0] + 1
    assert clock.now() - ticks[1] < 1
