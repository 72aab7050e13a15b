"""The past in files: all of them read once more from their beginnings, of which only the time asked for is handed over."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from typing import Any

from collectors.collector import HistoryStretch
from collectors.otlp.request import from_json, split
from collectors.polling.building import Surroundings
from collectors.polling.delivery import Delivery, Parcel
from collectors.polling.feed import Feed
from collectors.sink import Encoding, MalformedRequest, Signal

EARLIER_SECONDS = 1800.0
_NANOS = 10**9
_REMEMBERED = 100_000


class FileHistory:
    """See `collectors.collector.History`. A page at a time; after a break-off it begins with the first file again."""

    earlier_seconds = EARLIER_SECONDS

    def __init__(self, feed: Callable[[], Feed], given: Surroundings) -> None:
        self._feed, self._given = feed, given
        self._reading: tuple[tuple[float, float, str | None], Feed, Any] | None = None
        self._seen: dict[bytes, None] = {}

    async def read(self, since: float, until: float, deliver_as: str | None) -> HistoryStretch:
        """See `collectors.collector.History`. Its stretch ends at `since` until all files are read."""
        wanted = (since, until, deliver_as)
        if self._reading is None or self._reading[0] != wanted:
            await self._end()
            self._reading = (wanted, self._feed(), None)
            self._seen = {}
        _, feed, cursor = self._reading
        page = await feed.read(cursor)
        parcels, spans, traces = await asyncio.to_thread(self._within, page.parcels, since, until)
        if deliver_as is not None:
            await Delivery(deliver_as, self._given.sink, self._given.clock).send(parcels)
        page.taken()
        self._reading = (wanted, feed, page.cursor)
        if page.more:
            return HistoryStretch(since, traces, spans)
        await self._end()
        return HistoryStretch(until, traces, spans)

    async def _end(self) -> None:
        reading, self._reading = self._reading, None
        if reading is not None:
            await reading[1].close()

    def _within(self, parcels: Any, since: float, until: float) -> tuple[list[Parcel], int, int]:
        """The requests with a span or record of that time, and how many spans and new traces they hold. Damaged ones are left to polling, which counts them."""
        kept, spans, traces = [], 0, 0
        for parcel in parcels:
            try:
                body = from_json(parcel.body, parcel.signal).body if parcel.encoding is Encoding.JSON else parcel.body
                items = split(body, parcel.signal).items
            except MalformedRequest:
                continue
            low, high = int(since * _NANOS), int(until * _NANOS)
            if parcel.signal is Signal.LOGS:
                kept.append(Parcel(body, parcel.signal))
            elif any(low <= item.start < high for item in items if item.fault is None):
                kept.append(Parcel(body, parcel.signal))
                spans += len(items)
                traces += self._new({item.trace_id for item in items if item.fault is None})
        return kept, spans, traces

    def _new(self, trace_ids: Collection[bytes]) -> int:
        """How many of them were not seen before; of very many the oldest are forgotten."""
        new = dict.fromkeys(trace_id for trace_id in trace_ids if trace_id not in self._seen)
        self._seen |= new
        if len(self._seen) > _REMEMBERED:
            self._seen = dict.fromkeys(list(self._seen)[-_REMEMBERED // 2 :])
        return len(new)


def from_beginning(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a feed that reads every file from its beginning."""
    return {**options, "start_at": "beginning"}
