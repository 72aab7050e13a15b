"""Reading a source's past once more, for a backfill: stretch by stretch, beside polling and without touching its cursor."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from collectors.collector import HistoryStretch
from collectors.otlp.items import split
from collectors.polling.clock import PollClock
from collectors.polling.config import Pace
from collectors.polling.delivery import Delivery, Parcel
from collectors.polling.faults import FaultKind, SourceFault
from collectors.polling.searching import search_all
from collectors.polling.seen import SeenTraces
from collectors.polling.source import Hit, TraceSource
from collectors.polling.timeline import Window
from collectors.sink import IntakeMeter, MalformedRequest, RejectReason, Signal, SpanSink

LOG = logging.getLogger(__name__)

FETCHED_AT_ONCE = 64
WIDEST_SECONDS = 6 * 3600.0
_WIDER = 2.0
_AROUND_SECONDS = 6 * 3600.0
_ABOUT_ONE_TRACE = {FaultKind.TOO_LARGE: RejectReason.TOO_LARGE, FaultKind.MALFORMED: RejectReason.MALFORMED}


class WindowHistory:
    """The past of a store that is searched by windows of time. Windows widen where little is found; results are never cut silently."""

    def __init__(
        self, name: str, source: TraceSource, pace: Pace, sink: SpanSink, clock: PollClock, meter: IntakeMeter
    ) -> None:
        self._name, self._source, self._pace = name, source, pace
        self._sink, self._clock, self._meter = sink, clock, meter
        self._width = pace.widest
        self._seen = SeenTraces()

    @property
    def earlier_seconds(self) -> float:
        """How long before its end a run may have begun: so much earlier a reader begins."""
        return self._pace.overlap

    async def read(self, since: float, until: float, deliver_as: str | None) -> HistoryStretch:
        """See `collectors.collector.History`."""
        self._seen.begin(since)
        window = Window(since, min(until, since + self._width))
        found = await search_all(self._source, window, self._pace.max_results)
        self._adapt(len(found.hits))
        new = [found.hits[trace_id] for trace_id in self._seen.new(found.hits)]
        spans = left_out = 0
        if deliver_as is not None:
            delivery = Delivery(deliver_as, self._sink, self._clock)
            for at in range(0, len(new), FETCHED_AT_ONCE):
                taken, lost = await self._take(new[at : at + FETCHED_AT_ONCE], window, delivery)
                spans, left_out = spans + taken, left_out + lost
        self._seen.reached(window.end, (hit.trace_id for hit in new))
        return HistoryStretch(window.end, len(new), spans, left_out, cut=bool(found.cut))

    def _adapt(self, hits: int) -> None:
        if hits > self._pace.max_results / 2:
            self._width = max(self._pace.interval, self._width / _WIDER)
        elif hits < self._pace.max_results / 8:
            self._width = min(WIDEST_SECONDS, self._width * _WIDER)

    async def _take(self, hits: Sequence[Hit], window: Window, delivery: Delivery) -> tuple[int, int]:
        """Fetch side by side and hand over; (spans, traces that could not be taken). Raises SourceFault when the source fails."""
        room = asyncio.Semaphore(self._pace.max_concurrency)

        async def one(hit: Hit) -> tuple[bytes, int] | None:
            async with room:
                return await self._fetch(hit, window)

        results = await asyncio.gather(*(one(hit) for hit in hits), return_exceptions=True)
        fault = next((result for result in results if isinstance(result, BaseException)), None)
        if fault is not None:
            raise fault
        got = [result for result in results if isinstance(result, tuple)]
        await delivery.send([Parcel(body) for body, _ in got])
        return sum(spans for _, spans in got), len(hits) - len(got)

    async def _fetch(self, hit: Hit, window: Window) -> tuple[bytes, int] | None:
        around = Window(max(0.0, window.start - _AROUND_SECONDS), window.end + _AROUND_SECONDS)
        try:
            fetched = hit.load() if hit.load else await self._source.fetch(hit.trace_id, around)
            return None if fetched is None else (fetched.body, len(split(fetched.body, Signal.TRACES).items))
        except MalformedRequest as error:
            self._unusable(hit.trace_id, RejectReason.MALFORMED, str(error))
        except SourceFault as fault:
            if fault.kind not in _ABOUT_ONE_TRACE:
                raise
            self._unusable(hit.trace_id, _ABOUT_ONE_TRACE[fault.kind], str(fault))
        return None

    def _unusable(self, trace_id: str, reason: RejectReason, message: str) -> None:
        LOG.error("%s: trace %s cannot be taken: %s", self._name, trace_id, message)
        self._meter.rejected(self._name, reason)
