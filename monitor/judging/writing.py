"""Results on their way into the store, in batches: one transaction for all that has come together meanwhile."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace

from monitor.clock import Clock
from monitor.model.run import Evaluation
from monitor.model.verdict import ErrorType, EvaluationFailure, Judgement, Verdict
from monitor.store.protocol import Store, StoreUnwritable

LOG = logging.getLogger(__name__)

_LARGEST_BATCH = 200
_RETRY_SECONDS = 1.0
GATHER_SECONDS = 0.05
"""How long results that come one by one wait for others: a commit of one costs three times what each of sixteen does. Short beside a judge's call, which
is what a crash meanwhile would cost.
"""

Result = tuple[Evaluation, Verdict]


class VerdictWriter:
    """Stores results and tells of them once they are stored. Used from one event loop."""

    def __init__(self, store: Store, clock: Clock, on_verdict: Callable[[Verdict], None] | None = None) -> None:
        self._store, self._clock, self._on_verdict = store, clock, on_verdict
        self._waiting: list[Result] = []
        self._added = asyncio.Event()
        self._hurried = asyncio.Event()
        self._writing = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to write what is added."""
        self._task = asyncio.create_task(self._run(), name="verdicts")

    def add(self, results: Sequence[Result]) -> None:
        """Results to be stored soon."""
        self._waiting.extend(results)
        self._added.set()

    def hurry(self) -> None:
        """Nothing more is to come soon: what waits need not wait for others."""
        self._hurried.set()

    async def flush(self) -> None:
        """Store all that waits now. Raises StoreUnwritable; what could not be stored goes on waiting."""
        async with self._writing:
            while self._waiting:
                batch = self._waiting[:_LARGEST_BATCH]
                stored = await self._store_all(batch)
                del self._waiting[: len(batch)]
                for _, verdict in stored:
                    if self._on_verdict is not None:
                        self._on_verdict(verdict)

    async def _store_all(self, batch: Sequence[Result]) -> Sequence[Result]:
        """Store a batch, each by itself where the batch cannot be. A result that cannot be stored becomes a failed evaluation: it must not
        keep the others, nor be asked of the judge again and again.
        """
        try:
            await asyncio.to_thread(self._store.finish_evaluations, batch)
        except StoreUnwritable:
            raise
        except Exception as error:
            if len(batch) > 1:
                return [done for one in batch for done in await self._store_all([one])]
            return await self._store_failed(*batch[0], error)
        return batch

    async def _store_failed(self, evaluation: Evaluation, verdict: Verdict, error: Exception) -> Sequence[Result]:
        LOG.error("a verdict could not be stored: %s", type(error).__name__, extra={"rubric": verdict.rubric})
        failure = EvaluationFailure(
            ErrorType.EVALUATOR_FAILED, f"the verdict could not be stored: {type(error).__name__}"
        )
        failed = replace(verdict, judgement=Judgement(None, failure=failure, threshold=verdict.judgement.threshold))
        try:
            await asyncio.to_thread(self._store.finish_evaluations, [(evaluation, failed)])
        except StoreUnwritable:
            raise
        except Exception as again:
            LOG.error("nor could its failure be: %s", type(again).__name__, extra={"rubric": verdict.rubric})
            return ()
        return ((evaluation, failed),)

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
            await self._gather()
            self._added.clear()
            try:
                await self.flush()
            except StoreUnwritable as error:
                LOG.error("verdicts wait to be stored: %s", error)
                await self._clock.sleep(_RETRY_SECONDS)
                self._added.set()

    async def _gather(self) -> None:
        """Give others time to come, unless there are enough or none will."""
        if len(self._waiting) >= _LARGEST_BATCH or self._hurried.is_set():
            self._hurried.clear()
            return
        waits = [asyncio.ensure_future(self._clock.sleep(GATHER_SECONDS)), asyncio.ensure_future(self._hurried.wait())]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
            await asyncio.gather(*waits, return_exceptions=True)
            self._hurried.clear()
