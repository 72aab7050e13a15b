"""The collector around an engine: polls until stopped, backs off while the source fails, and says what is wrong."""

from __future__ import annotations

import asyncio
import logging
import random
from contextlib import suppress
from typing import Protocol

from collectors.collector import History
from collectors.polling.backoff import Random, delay_seconds
from collectors.polling.clock import PollClock
from collectors.polling.faults import SourceFault

LOG = logging.getLogger(__name__)

_INTERVAL_JITTER = 0.1
"""Share of the interval by which polls of many collectors are spread."""


class Engine(Protocol):
    """What is polled."""

    @property
    def endpoints(self) -> tuple[str, ...]:
        """What is read."""
        ...

    @property
    def problem(self) -> str | None:
        """What is wrong while polling goes on."""
        ...

    @property
    def lag_seconds(self) -> float:
        """How far we are behind the source."""
        ...

    async def open(self) -> None:
        """Make ready. Raises CollectorFailed."""
        ...

    async def close(self) -> None:
        """Release everything; may be called twice."""
        ...

    async def poll(self) -> bool:
        """Poll once; whether there is more at once. Raises SourceFault."""
        ...


class Poller:
    """Keeps the contract of `collectors.collector.Collector`. A source that fails is tried again for ever, further and further apart."""

    def __init__(
        self,
        name: str,
        engine: Engine,
        interval: float,
        clock: PollClock,
        chance: Random = random.random,
        history: History | None = None,
    ) -> None:
        self.name = name
        self.history = history
        self.engine, self._interval, self._clock, self._chance = engine, interval, clock, chance
        self._task: asyncio.Task[None] | None = None
        self._fault: str | None = None
        self._failures = 0

    @property
    def problem(self) -> str | None:
        """Why the source does not deliver, or delivers not all; None when all is well."""
        return self._fault or self.engine.problem

    @property
    def endpoints(self) -> tuple[str, ...]:
        """What is read."""
        return self.engine.endpoints

    @property
    def lag_seconds(self) -> float:
        """How far we are behind the source, in seconds."""
        return self.engine.lag_seconds

    async def start(self) -> None:
        """Begin to poll. A source that does not answer is no reason not to start. Raises CollectorFailed."""
        try:
            await self.engine.open()
        except BaseException:
            await self.engine.close()
            raise
        self._task = asyncio.create_task(self._run(), name=f"poll {self.name}")

    async def drain(self) -> None:
        """Poll no more. What is under way is broken off: it will be read again from the cursor."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def stop(self) -> None:
        """Poll no more and release everything; may be called twice."""
        await self.drain()
        await self.engine.close()

    async def _run(self) -> None:
        while True:
            await self._clock.sleep(await self.turn())

    async def turn(self) -> float:
        """Poll once; in how many seconds to poll again."""
        try:
            more = await self.engine.poll()
        except SourceFault as fault:
            return self._failed(str(fault), fault.retry_after_seconds)
        except Exception as error:
            LOG.error("%s: polling broke off", self.name, exc_info=True)
            return self._failed(f"polling broke off: {type(error).__name__}; the log says where", None)
        if self._fault is not None:
            LOG.info("%s: delivers again", self.name)
        self._fault, self._failures = None, 0
        return 0.0 if more else self._interval * (1 - _INTERVAL_JITTER * self._chance())

    def _failed(self, reason: str, asked: float | None) -> float:
        self._failures += 1
        if reason != self._fault:
            LOG.warning("%s: %s", self.name, reason)
        self._fault = reason
        return delay_seconds(self._interval, self._failures, self._chance, asked)
