"""Results on their way into the store, in batches: one transaction for all that has come together meanwhile."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from monitor.clock import Clock
from monitor.model.run import Evaluation
from monitor.model.verdict import Verdict
from monitor.store.protocol import Store, StoreUnwritable

LOG = logging.getLogger(__name__)

_LARGEST_BATCH = 200
_RETRY_SECONDS = 1.0

Result = tuple[Evaluation, Verdict]


class VerdictWriter:
    """Stores results and tells of them once they are stored. Used from one event loop."""

    def __init__(self, store: Store, clock: Clock, on_verdict: Callable[[Verdict], None] | None = None) -> None:
        self._store, self._clock, self._on_verdict = store, clock, on_verdict
        self._waiting: list[Result] = []
        self._added = asyncio.Event()
        self._writing = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to write what is added."""
        self._task = asyncio.create_task(self._run(), name="verdicts")

    def add(self, results: Sequence[Result]) -> None:
        """Results to be stored soon."""
        self._waiting.extend(results)
        self._added.set()

    async def flush(self) -> None:
        """Store all that waits now. Raises StoreUnwritable; what could not be stored goes on waiting."""
        async with self._writing:
            while self._waiting:
                batch = self._waiting[:_LARGEST_BATCH]
                await asyncio.to_thread(self._store.finish_evaluations, batch)
                del self._waiting[: len(batch)]
                for _, verdict in batch:
                    if self._on_verdict is not None:
                        self._on_verdict(verdict)

    async def stop(self) -> None:
        """Store what waits and end. What cannot be stored is judged again when its lease has run out."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        try:
            await self.flush()
        except StoreUnwritable as error:
            LOG.error("%d verdicts were not stored and will be judged again: %s", len(self._waiting), error)

    async def _run(self) -> None:
        while True:
            await self._added.wait()
            self._added.clear()
            try:
                await self.flush()
            except StoreUnwritable as error:
                LOG.error("verdicts wait to be stored: %s", error)
                await self._clock.sleep(_RETRY_SECONDS)
                self._added.set()
