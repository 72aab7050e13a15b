"""When monitors run. APScheduler only wakes us; which ticks are due is our own arithmetic over what the store says was done."""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from apscheduler.schedulers.asyncio import AsyncIOScheduler
from apscheduler.triggers.base import BaseTrigger

from monitor.clock import Clock
from monitor.scheduling.runner import Budgeting, Runner, ScheduledMonitor
from monitor.scheduling.ticks import Ticks, next_tick, ticks_of
from monitor.store.protocol import Store, StoreUnwritable

RETRY_SECONDS = 60.0
"""How soon a tick that failed is tried again; earlier when the next tick wakes the monitor."""
CLOCK_CHECK_SECONDS = 2.0
CLOCK_JUMP_SECONDS = 1.0

_log = logging.getLogger(__name__)


class TickTrigger(BaseTrigger):  # type: ignore[misc]
    """An APScheduler trigger that fires at the ticks of a schedule: the first at the next tick, not at construction + interval."""

    def __init__(self, ticks: Ticks) -> None:
        self._ticks = ticks

    def get_next_fire_time(self, previous_fire_time: datetime | None, now: datetime) -> datetime | None:
        """The first tick after the one that fired, or after now."""
        after = now if previous_fire_time is None else max(previous_fire_time, now - timedelta(seconds=1))
        tick = next_tick(self._ticks, after.timestamp())
        return None if tick is None else datetime.fromtimestamp(tick, UTC)


@dataclass(slots=True)
class _Worker:
    """A monitor at work: `wake` says that a tick may be due; `since` is when it was set up or last found its clock put back.

    `looked` is when it was last looked at, by the wall clock and by one that is never moved.
    """

    monitor: ScheduledMonitor
    since: float
    looked: tuple[float, float]
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    running: asyncio.Lock = field(default_factory=asyncio.Lock)
    stopping: bool = False
    task: asyncio.Task[None] | None = None


class Scheduler:
    """Runs the ticks of monitors in worker threads, one at a time for each monitor, until it is stopped.

    Ticks are run at least once and counted exactly once: the store knows which are done. `start` may be called once, `reload` as often as needed,
    both on the event loop; `stop` lets ticks that are under way finish.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        monitors: Mapping[str, ScheduledMonitor],
        budgets: Budgeting | None = None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._runner = Runner(store, clock, budgets)
        self._monitors = dict(monitors)
        self._workers: dict[str, _Worker] = {}
        self._waker = AsyncIOScheduler(
            timezone=UTC, job_defaults={"misfire_grace_time": None, "coalesce": True, "max_instances": 1}
        )
        self._watch: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin: what is due is run at once, what is to come at its tick."""
        self._waker.start()
        self._watch = asyncio.create_task(self._watch_clock(), name="clock watch")
        await self._replace(self._monitors)

    async def reload(self, monitors: Mapping[str, ScheduledMonitor]) -> None:
        """Replace the monitors. New and changed ones start with what settles from now on (contract section 2): what a changed one has not yet
        considered is drawn from at once with its old settings, a tick under way ends with them. What waited for those that are gone is dropped.
        """
        changed = [name for name in self._workers if name in monitors and monitors[name] != self._workers[name].monitor]
        await asyncio.gather(*(self._change(name, monitors[name]) for name in changed))
        gone = [name for name in self._workers if name not in monitors]
        await asyncio.gather(*(self._dismiss(name) for name in gone))
        await self._replace(monitors)

    async def stop(self) -> None:
        """Wake nobody any more and wait for the ticks under way. May be called twice."""
        if self._watch is not None:
            self._watch.cancel()
            with suppress(asyncio.CancelledError):
                await self._watch
            self._watch = None
            self._waker.shutdown(wait=False)
        await asyncio.gather(*(self._dismiss(name) for name in list(self._workers)))

    def next_run(self, name: str) -> float | None:
        """When a monitor's next tick is, seconds since 1970-01-01Z; None for one that is unknown or never runs again."""
        monitor = self._monitors.get(name)
        return None if monitor is None else next_tick(ticks_of(monitor.settings.schedule), self._clock.now())

    async def run_due(self, name: str) -> bool:
        """Run what is due of a monitor, oldest first, and say whether all of it could be. Waits for a run that is under way."""
        worker = self._workers[name]
        async with worker.running:
            return await self._run_due(name, worker)

    async def _change(self, name: str, monitor: ScheduledMonitor) -> None:
        """Run what is due of a monitor and, as a tick of its own, what settled since; then it has its new settings.

        What cannot be run now because of a fault of the store is left to the new settings.
        """
        worker = self._workers[name]
        async with worker.running:
            now = self._clock.now()
            if await self._run_due(name, worker) and await self._has_waiting(name, now):
                await self._run(name, worker, now, missed=False)
            worker.monitor = monitor

    async def _has_waiting(self, name: str, before: float) -> bool:
        try:
            oldest = await asyncio.to_thread(self._store.oldest_waiting, name)
        except StoreUnwritable as error:
            _log.error("monitor %s: could not see what waits: %s", name, _said(error))
            return False
        return oldest is not None and oldest < before

    async def _run_due(self, name: str, worker: _Worker) -> bool:
        since, now, passed = worker.since, self._clock.now(), self._clock.monotonic()
        put_forward = (now - passed) - (worker.looked[0] - worker.looked[1]) > CLOCK_JUMP_SECONDS
        try:
            missed, ticks = await asyncio.to_thread(self._runner.due, name, worker.monitor, since)
        except Exception as error:
            _log.error("monitor %s: could not see what is due: %s", name, _said(error))
            return False
        if missed is not None and not put_forward and not await self._run(name, worker, missed, missed=True):
            return False  # ticks that the clock jumped over are not missed: what waits is drawn from
        for tick in ticks:
            if worker.stopping:
                return True
            if not await self._run(name, worker, tick, missed=False):
                return False
        if ticks and worker.since == since:  # unless the clock was put back meanwhile
            worker.since = max(since, ticks[-1])
        worker.looked = (now, passed)
        return True

    async def _run(self, name: str, worker: _Worker, tick: float, *, missed: bool) -> bool:
        """Run or miss one tick in a worker thread; a failure is recorded, logged and told."""
        monitor = worker.monitor
        work = self._runner.miss_tick if missed else self._runner.run_tick
        try:
            run = await asyncio.to_thread(work, name, monitor, tick)
        except Exception as error:
            _log.error("monitor %s: the run of tick %s failed: %s%s", name, _shown(tick), _said(error), _where(error))
            await self._record_failure(name, monitor, tick, _said(error))
            return False
        if run is not None:
            _log.info(
                "monitor %s: tick %s %s, %d considered, %d drawn",
                name,
                _shown(tick),
                run.outcome,
                run.considered,
                run.drawn,
            )
        return True

    async def _record_failure(self, name: str, monitor: ScheduledMonitor, tick: float, said: str) -> None:
        """Tell the store that a tick failed. One that cannot even take that must not end the monitor: the tick is still due."""
        try:
            await asyncio.to_thread(self._runner.fail_tick, name, monitor, tick, said)
        except Exception as error:
            _log.error("monitor %s: that tick %s failed was not recorded: %s", name, _shown(tick), _said(error))

    async def _replace(self, monitors: Mapping[str, ScheduledMonitor]) -> None:
        self._monitors = dict(monitors)
        try:
            await asyncio.to_thread(self._store.retire_monitors, tuple(monitors))
        except StoreUnwritable as error:
            _log.warning("what waits for monitors that are gone could not be dropped: %s", _said(error))
        for name, monitor in monitors.items():
            worker = self._workers.get(name)
            if worker is None:
                worker = self._workers[name] = _Worker(
                    monitor, self._clock.now(), (self._clock.now(), self._clock.monotonic())
                )
                worker.task = asyncio.create_task(self._serve(name, worker), name=f"monitor {name}")
            worker.monitor = monitor
            worker.wake.set()
            self._set_alarm(name, monitor)

    def _set_alarm(self, name: str, monitor: ScheduledMonitor) -> None:
        self._waker.add_job(
            self.wake,
            TickTrigger(ticks_of(monitor.settings.schedule)),
            args=(name,),
            id=name,
            name=name,
            replace_existing=True,
        )

    async def wake(self, name: str) -> None:
        """Say that a tick of a monitor may be due. All that APScheduler does: it cancels its running jobs when it is shut down."""
        worker = self._workers.get(name)
        if worker is not None:
            worker.wake.set()

    async def _serve(self, name: str, worker: _Worker) -> None:
        while not worker.stopping:
            worker.wake.clear()
            if await self.run_due(name):
                await worker.wake.wait()
            else:
                await self._wait(worker, RETRY_SECONDS)

    async def _wait(self, worker: _Worker, seconds: float) -> None:
        """Wait to be woken, for so long at most."""
        waits = [asyncio.ensure_future(worker.wake.wait()), asyncio.ensure_future(self._clock.sleep(seconds))]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
            await asyncio.gather(*waits, return_exceptions=True)

    async def _dismiss(self, name: str) -> None:
        worker = self._workers[name]
        worker.stopping = True
        worker.wake.set()
        if self._waker.running and self._waker.get_job(name) is not None:
            self._waker.remove_job(name)
        if worker.task is not None:
            await worker.task
        del self._workers[name]

    async def _watch_clock(self) -> None:
        """When the wall clock was put forward or back, set all alarms anew and look at once: APScheduler goes by wall times it has computed."""
        difference = self._clock.now() - self._clock.monotonic()
        while True:
            await self._clock.sleep(CLOCK_CHECK_SECONDS)
            found = self._clock.now() - self._clock.monotonic()
            if abs(found - difference) > CLOCK_JUMP_SECONDS:
                _log.warning("the clock was moved by %.1f s: schedules are looked at anew", found - difference)
                self._after_jump(back=found < difference)
            difference = found

    def _after_jump(self, *, back: bool) -> None:
        for name, worker in self._workers.items():
            if back:
                worker.since = self._clock.now()
            self._set_alarm(name, worker.monitor)
            worker.wake.set()


def _said(error: BaseException) -> str:
    """An error for logs and the store. Only our own are quoted: others' texts may carry values."""
    return str(error) if isinstance(error, StoreUnwritable) else type(error).__name__


def _where(error: BaseException) -> str:
    """The lines that an error came through, without its text."""
    return "" if isinstance(error, StoreUnwritable) else "\n" + "".join(traceback.format_tb(error.__traceback__))


def _shown(tick: float) -> str:
    return datetime.fromtimestamp(tick, UTC).isoformat()
