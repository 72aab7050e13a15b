"""What is done again and again beside the main way: settling, retention, leases, gauges."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

from collectors.collector import Collector, Polls
from monitor.clock import Clock
from monitor.exporters.lease import ExportLease
from monitor.intake.conversations import Conversations
from monitor.intake.settler import Settler
from monitor.judges import Judges
from monitor.judging.checks import JudgeChecks
from monitor.regression.detection import Detection
from monitor.settings.privacy import StoreContent
from monitor.settings.tree import Settings
from monitor.store.protocol import Store, StoreUnwritable
from monitor.telemetry import Telemetry

LOG = logging.getLogger(__name__)

SETTLE_SECONDS = 0.2
CONVERSATIONS_SECONDS = 1.0
FIGURES_SECONDS = 2.0
RATE_SECONDS = 60.0
REGRESSION_SECONDS = 1.0
CHECK_SECONDS = 5.0
RETENTION_SECONDS = 30.0
_CONTENT_AT_ONCE = 1000


@dataclass(frozen=True, slots=True)
class Kept:
    """What is kept up. `steady` is the clock for silence. `settings` and `collectors` are asked each time."""

    settler: Settler
    store: Store
    judges: Judges
    lease: ExportLease
    telemetry: Telemetry
    clock: Clock
    steady: Clock
    settings: Callable[[], Settings]
    collectors: Callable[[], Sequence[Collector]]
    detection: Detection
    checks: JudgeChecks
    conversations: Conversations


class Upkeep:
    """The daemon's periodic work, each loop a task of its own. Store and journal are used in threads, never on the event loop."""

    def __init__(self, kept: Kept) -> None:
        self._kept = kept
        self._settling = ThreadPoolExecutor(1, thread_name_prefix="settle")  # a slow query of others' holds up no trace
        self._tasks: list[asyncio.Task[None]] = []
        self.pending: dict[str, int] = {}
        self._received: deque[tuple[float, dict[str, float]]] = deque()

    def start(self) -> None:
        """Begin."""
        loops: tuple[tuple[str, float, Callable[[], Awaitable[bool]]], ...] = (
            ("settle", SETTLE_SECONDS, self._settle),
            ("conversations", CONVERSATIONS_SECONDS, self._complete),
            ("figures", FIGURES_SECONDS, self._figures),
            ("retention", RETENTION_SECONDS, self._retention),
            ("lease", self._kept.lease.renew_seconds, self._lease),
            ("regressions", REGRESSION_SECONDS, self._regressions),
            ("judge checks", CHECK_SECONDS, self._checks),
        )
        self._tasks = [asyncio.create_task(self._every(*loop), name=loop[0]) for loop in loops]

    async def stop(self) -> None:
        """End all loops; a step of settling that is under way ends first."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._kept.conversations.pause()
        await self.between_steps(self._kept.settler.pause)
        self._settling.shutdown(wait=False)

    async def between_steps(self, change: Callable[[], None]) -> None:
        """Do something while no step of settling is under way: on the one thread that settles."""
        await asyncio.get_running_loop().run_in_executor(self._settling, change)

    async def _every(self, name: str, seconds: float, step: Callable[[], Awaitable[bool]]) -> None:
        """Call `step` again and again, at once where it says that there is more. A fault is logged once until it changes."""
        said = ""
        while True:
            more = False
            try:
                more = await step()
                said = ""
            except StoreUnwritable as error:
                said = _say(name, str(error), said)
            except Exception as error:
                said = _say(name, f"{type(error).__name__} in {_place(error)}", said)
            if not more:
                await self._kept.clock.sleep(seconds)

    async def _settle(self) -> bool:
        def step() -> bool:
            return self._kept.settler.step(self._kept.steady.now(), self._kept.clock.now()).more

        return await asyncio.get_running_loop().run_in_executor(self._settling, step)

    async def _complete(self) -> bool:
        kept = self._kept
        return await asyncio.to_thread(lambda: kept.conversations.step(kept.clock.now()))

    def spans_per_second(self, collector: str) -> float | None:
        """Spans that a collector received a second, over the last minute; None before there are two looks."""
        if len(self._received) < 2:
            return None
        (started, before), (ended, now) = self._received[0], self._received[-1]
        return (now.get(collector, 0.0) - before.get(collector, 0.0)) / (ended - started) if ended > started else None

    def _note_received(self) -> None:
        moment = self._kept.clock.monotonic()
        counted = {
            sample.labels["collector"]: sample.value
            for family in self._kept.telemetry.spans_received.collect()
            for sample in family.samples
            if sample.name.endswith("_total")
        }
        self._received.append((moment, counted))
        while moment - self._received[0][0] > RATE_SECONDS:
            self._received.popleft()

    async def _figures(self) -> bool:
        kept = self._kept
        now = kept.clock.now()
        counts = await asyncio.to_thread(kept.store.pending, now)
        self.pending = {count.monitor: count.count for count in counts}
        self._note_received()
        for collector in kept.collectors():
            kept.telemetry.collector_up.labels(collector.name).set(0 if collector.problem else 1)
            if isinstance(collector, Polls):
                kept.telemetry.poll_lag.labels(collector.name).set(collector.lag_seconds)
        for name, judge in kept.judges.current.items():
            remaining = judge.budget.remaining_ratio(now)
            if remaining is not None:
                kept.telemetry.judge_budget_remaining.labels(name).set(remaining)
        await asyncio.to_thread(kept.judges.save_use)
        return False

    async def _retention(self) -> bool:
        kept = self._kept
        settings = kept.settings()
        retention = settings.storage.retention
        if settings.privacy.store_content is not StoreContent.ALL:
            drop = partial(
                kept.store.drop_unwanted_content,
                _CONTENT_AT_ONCE,
                judged_too=settings.privacy.store_content is StoreContent.NONE,
            )
            while await asyncio.to_thread(drop) >= _CONTENT_AT_ONCE:
                pass
        await asyncio.to_thread(
            kept.store.expire, kept.clock.now(), retention.content, retention.verdicts, retention.size
        )
        return False

    async def _regressions(self) -> bool:
        """Read the log of verdicts on, in the one process that shows figures."""
        kept = self._kept

        def step() -> bool:
            return kept.lease.held() and kept.detection.step()

        return await asyncio.to_thread(step)

    async def _checks(self) -> bool:
        """Ask judges again, in the one process that shows figures."""
        return await asyncio.to_thread(self._kept.lease.held) and await self._kept.checks.step()

    async def _lease(self) -> bool:
        await asyncio.to_thread(self._kept.lease.renew)
        return False


def _say(name: str, reason: str, said: str) -> str:
    if reason != said:
        LOG.error("%s: %s", name, reason)
    return reason


def _place(error: Exception) -> str:
    """Where an exception was raised; never its message, which may carry content."""
    where = error.__traceback__
    while where is not None and where.tb_next is not None:
        where = where.tb_next
    return f"{where.tb_frame.f_globals.get('__name__')}:{where.tb_lineno}" if where else "unknown place"
