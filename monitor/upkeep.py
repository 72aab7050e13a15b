"""What is done again and again beside the main way: settling, retention, leases, gauges."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from monitor.settings.tree import StoreContent
from monitor.store.protocol import StoreUnwritable

if TYPE_CHECKING:
    from monitor.app import App

LOG = logging.getLogger(__name__)

SETTLE_SECONDS = 0.2
FIGURES_SECONDS = 2.0
RETENTION_SECONDS = 60.0
_CONTENT_AT_ONCE = 1000


class Upkeep:
    """The daemon's periodic work, each loop a task of its own. Store and journal are used in threads, never on the event loop."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._settling = threading.Lock()
        self._tasks: list[asyncio.Task[None]] = []
        self.pending: dict[str, int] = {}

    def start(self) -> None:
        """Begin."""
        loops: tuple[tuple[str, float, Callable[[], Awaitable[bool]]], ...] = (
            ("settle", SETTLE_SECONDS, self._settle),
            ("figures", FIGURES_SECONDS, self._figures),
            ("retention", RETENTION_SECONDS, self._retention),
            ("lease", self._app.lease.renew_seconds, self._lease),
        )
        self._tasks = [asyncio.create_task(self._every(*loop), name=loop[0]) for loop in loops]

    async def stop(self) -> None:
        """End all loops; a step of settling that is under way ends first."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.between_steps(self._app.settler.pause)

    async def between_steps(self, change: Callable[[], None]) -> None:
        """Do something while no step of settling is under way."""

        def alone() -> None:
            with self._settling:
                change()

        await asyncio.to_thread(alone)

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
                await self._app.clock.sleep(seconds)

    async def _settle(self) -> bool:
        def step() -> bool:
            with self._settling:
                return self._app.settler.step(self._app.clock.now()).more

        return await asyncio.to_thread(step)

    async def _figures(self) -> bool:
        app = self._app
        now = app.clock.now()
        counts = await asyncio.to_thread(app.store.pending, now)
        self.pending = {count.monitor: count.count for count in counts}
        for collector in app.collectors:
            app.telemetry.collector_up.labels(collector.name).set(0 if collector.problem else 1)
        for name, judge in app.judges.current.items():
            remaining = judge.budget.remaining_ratio(now)
            if remaining is not None:
                app.telemetry.judge_budget_remaining.labels(name).set(remaining)
        await asyncio.to_thread(app.judges.save_use)
        return False

    async def _retention(self) -> bool:
        app = self._app
        settings = app.configuration.settings
        retention = settings.storage.retention
        if settings.privacy.store_content is not StoreContent.ALL:
            while await asyncio.to_thread(app.store.drop_unwanted_content, _CONTENT_AT_ONCE) >= _CONTENT_AT_ONCE:
                pass
        await asyncio.to_thread(
            app.store.expire, app.clock.now(), retention.content, retention.verdicts, retention.size
        )
        return False

    async def _lease(self) -> bool:
        await asyncio.to_thread(self._app.lease.renew)
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
