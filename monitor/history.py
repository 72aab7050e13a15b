"""What a backfill does before it draws: read a collector's source again, and wait until what came of it has settled."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import replace

from collectors.collector import History, HistoryStretch
from collectors.polling.faults import SourceFault
from monitor.model.backfill import Backfill, BackfillStatus
from monitor.model.origin import of_backfill

LOG = logging.getLogger(__name__)

FIRST_RETRY_SECONDS, LONGEST_RETRY_SECONDS = 1.0, 60.0


class Rereading:
    """Takes backfills of polled history one stretch further. Where it is stands in the backfill; what was read is durable before that moves.

    `histories` are the sources that can be read again, by collector; `unsettled` says how many traces of an origin are open or settling.
    """

    def __init__(self, histories: Callable[[], Mapping[str, History]], unsettled: Callable[[str], int]) -> None:
        self._histories, self._unsettled = histories, unsettled
        self._failures = 0
        self._next_try = 0.0

    @property
    def collectors(self) -> tuple[str, ...]:
        """The collectors whose source can be read again."""
        return tuple(sorted(self._histories()))

    def begins_at(self, collector: str, since: float) -> float:
        """From when on a source is read for what ended from `since` on."""
        return since - self._histories()[collector].earlier_seconds

    async def advance(self, one: Backfill, now: float) -> Backfill:
        """The backfill after one more stretch, or after having waited for what it brought. `now` is seconds since 1970-01-01Z."""
        if one.collector is None or one.is_read:
            return one
        assert one.read_until is not None
        if one.read_until >= one.until:
            return await self._settled(one)
        if now < self._next_try:
            return one
        history = self._histories().get(one.collector)
        if history is None:
            reason = f"collector {one.collector} is not configured any more, or cannot be read again"
            return replace(one, status=BackfillStatus.FAILED, message=reason)
        try:
            stretch = await history.read(one.read_until, one.until, self._origin(one))
        except Exception as error:
            return self._failed(one, error, now)
        self._failures, self._next_try = 0, 0.0
        return _plus(one, stretch)

    def _origin(self, one: Backfill) -> str | None:
        return None if one.dry_run or one.collector is None else of_backfill(one.collector, one.id)

    async def _settled(self, one: Backfill) -> Backfill:
        origin = self._origin(one)
        left = 0 if origin is None else await asyncio.to_thread(self._unsettled, origin)
        if left:
            return replace(one, message=f"waits for {left} traces to settle")
        return replace(one, is_read=True, message="")

    def _failed(self, one: Backfill, error: Exception, now: float) -> Backfill:
        self._failures += 1
        self._next_try = now + min(LONGEST_RETRY_SECONDS, FIRST_RETRY_SECONDS * 2 ** (self._failures - 1))
        known = isinstance(error, SourceFault)
        if not known and self._failures == 1:
            LOG.error("%s: reading %s broke off", one.id, one.collector, exc_info=True)
        reason = str(error) if known else f"reading broke off: {type(error).__name__}; the log says where"
        return replace(one, message=f"{one.collector} does not deliver and is tried again: {reason}")


def _plus(one: Backfill, stretch: HistoryStretch) -> Backfill:
    message = "the source had more at once than it gives: some traces were not taken" if stretch.cut else ""
    return replace(
        one,
        read_until=stretch.until,
        traces=one.traces + stretch.traces,
        spans=one.spans + stretch.spans,
        left_out=one.left_out + stretch.left_out,
        was_cut=one.was_cut or stretch.cut,
        message=message,
    )
