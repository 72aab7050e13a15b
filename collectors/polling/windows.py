"""Polling a trace store by windows of time: search, fetch, hand over, and only then note how far we are."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from collectors.polling.clock import PollClock
from collectors.polling.config import Pace
from collectors.polling.content import TraceContent, trace_content
from collectors.polling.cursors import CursorStore
from collectors.polling.delivery import Delivery, Parcel
from collectors.polling.faults import FaultKind, SourceFault
from collectors.polling.lag import AdaptiveLag
from collectors.polling.searching import search_all
from collectors.polling.source import Hit, TraceSource
from collectors.polling.timeline import DueWindow, Timeline, Window
from collectors.polling.watch import Watch
from collectors.sink import IntakeMeter, MalformedRequest, RejectReason

LOG = logging.getLogger(__name__)

FETCHED_AT_ONCE = 64
_EARLIER_SECONDS, _LATER_SECONDS = 6 * 3600.0, 3600.0
"""Where the spans of a trace are looked for around where it was found: agents run for hours, clocks are apart."""
_CUT_SHOWN_SECONDS = 3600.0
_ABOUT_ONE_TRACE = frozenset({FaultKind.TOO_LARGE, FaultKind.MALFORMED})


@dataclass(frozen=True, slots=True)
class _Got:
    """A trace as it was fetched; without content where the source does not have it, or it cannot be used."""

    trace_id: str
    partial: bool = False
    content: TraceContent | None = None


class WindowEngine:
    """Polls one TraceSource. `poll` is called again and again by one task; it may break off anywhere, also by a crash."""

    def __init__(
        self,
        name: str,
        source: TraceSource,
        pace: Pace,
        delivery: Delivery,
        cursors: CursorStore,
        clock: PollClock,
        meter: IntakeMeter,
    ) -> None:
        self._name, self._source, self._pace = name, source, pace
        self._delivery, self._cursors, self._clock, self._meter = delivery, cursors, clock, meter
        self._lag = AdaptiveLag(pace.lag_least, pace.lag_most, pace.lag_least)
        self._timeline = Timeline(0.0, pace.overlap, pace.interval, pace.widest)
        self._watch = Watch(pace.overlap, pace.interval)
        self._cut: dict[Window, float] = {}

    # -- life ---------------------------------------------------------------------------------------------------------
    async def open(self) -> None:
        """Connect and read the cursor; one that cannot be understood is dropped with a warning."""
        await self._source.open()
        saved = await asyncio.to_thread(self._cursors.load, self._name)
        now = self._now()
        self._timeline.head = now - self._pace.lookback
        if saved is not None:
            try:
                self._timeline.restore(saved["timeline"])
                self._watch.restore(saved["open"], now)
            except (ValueError, KeyError, TypeError):
                LOG.warning("%s: its cursor cannot be read: it begins anew %g s back", self._name, self._pace.lookback)

    async def close(self) -> None:
        """Release connections."""
        await self._source.close()

    @property
    def endpoints(self) -> tuple[str, ...]:
        """The URL that is read."""
        return (self._source.endpoint,)

    @property
    def lag_seconds(self) -> float:
        """Everything that the source showed up to so many seconds ago has been taken."""
        return max(0.0, self._now() - self._timeline.complete_until)

    @property
    def problem(self) -> str | None:
        """Where more traces began at once than the source gives; shown for an hour."""
        now = self._clock.now()
        self._cut = {window: until for window, until in self._cut.items() if until > now}
        if not self._cut:
            return None
        window = next(iter(self._cut))
        return (
            f"{self._source.endpoint}: more traces began within {window.width:g} s at {_shown(window.start)} than it gives at once: "
            "some were not taken; narrow the selection, or raise max_results and the source's own limit"
        )

    def _now(self) -> float:
        """The source's time."""
        return self._clock.now() + self._source.skew_seconds

    # -- polling ------------------------------------------------------------------------------------------------------
    async def poll(self) -> bool:
        """Search what is due, fetch again what is open. Raises SourceFault; what was done before it stays done."""
        self._extend(self._now())
        for due in list(self._timeline.due(self._now())):
            await self._search(due, self._now())
        await self._again(self._now())
        self._watch.forget(self._now())
        await self._save()
        return False

    def _extend(self, now: float) -> None:
        if self._timeline.head > now + self._pace.overlap:
            LOG.warning("%s: its cursor lies in the future, a clock was wrong: it begins anew", self._name)
            self._timeline.reset(now - self._pace.lookback)
        skipped = self._timeline.extend(now - self._lag.seconds, self._pace.catch_up)
        if skipped:
            LOG.warning("%s: was away for longer than catch_up: %.0f s of history are left out", self._name, skipped)

    async def _search(self, due: DueWindow, now: float) -> None:
        """One window: everything found in it is durable before it counts as searched."""
        found = await search_all(self._source, due.window, self._pace.max_results)
        for cut in found.cut:
            if cut not in self._cut:
                LOG.error("%s: results were cut off within %g s at %s", self._name, cut.width, _shown(cut.start))
            self._cut[cut] = self._clock.now() + _CUT_SHOWN_SECONDS
        new = sum(not self._watch.knows(trace_id) for trace_id in found.hits)
        self._lag.observe(new if due.fresh else 0, 0 if due.fresh else new)
        hits = found.hits.values()
        wanted = [hit for hit in hits if self._watch.hit(hit.trace_id, hit.fingerprint, due.window, now)]
        await self._take(wanted, now)
        self._timeline.searched(due.window, now)
        await self._save()

    async def _again(self, now: float) -> None:
        """Open traces are fetched by their id, whatever searches find."""
        due = self._watch.due(now, 10 * FETCHED_AT_ONCE)
        while due:
            await self._take([Hit(trace_id) for trace_id in due], now)
            due = [trace_id for trace_id in self._watch.due(now, 10 * FETCHED_AT_ONCE) if trace_id not in set(due)]

    async def _take(self, hits: Sequence[Hit], now: float) -> None:
        for at in range(0, len(hits), FETCHED_AT_ONCE):
            got, fault = await self._fetch_all(hits[at : at + FETCHED_AT_ONCE])
            await self._hand_over(got, now)
            if fault is not None:
                raise fault

    async def _fetch_all(self, hits: Sequence[Hit]) -> tuple[list[_Got], BaseException | None]:
        """Fetch side by side: what came, and the first fault of the source."""
        room = asyncio.Semaphore(self._pace.max_concurrency)

        async def one(hit: Hit) -> _Got:
            async with room:
                return await self._fetch(hit)

        results = await asyncio.gather(*(one(hit) for hit in hits), return_exceptions=True)
        fault = next((result for result in results if isinstance(result, BaseException)), None)
        return [result for result in results if isinstance(result, _Got)], fault

    async def _fetch(self, hit: Hit) -> _Got:
        extent = self._watch.extent(hit.trace_id)
        window = Window(max(0.0, extent.start - _EARLIER_SECONDS), self._now() + _LATER_SECONDS)
        try:
            fetched = hit.load() if hit.load else await self._source.fetch(hit.trace_id, window)
            if fetched is None:
                return _Got(hit.trace_id)
            return _Got(hit.trace_id, fetched.partial, trace_content(fetched.body))
        except MalformedRequest as error:
            self._unusable(hit.trace_id, RejectReason.MALFORMED, str(error))
        except SourceFault as fault:
            if fault.kind not in _ABOUT_ONE_TRACE:
                raise
            too_large = fault.kind is FaultKind.TOO_LARGE
            reason = RejectReason.TOO_LARGE if too_large else RejectReason.MALFORMED
            self._unusable(hit.trace_id, reason, str(fault))
        return _Got(hit.trace_id)

    def _unusable(self, trace_id: str, reason: RejectReason, message: str) -> None:
        """One trace that cannot be taken is counted and said once, and does not keep the others; it may be better next time."""
        if self._watch.mark_unusable(trace_id):
            LOG.error("%s: trace %s cannot be taken: %s", self._name, trace_id, message)
            self._meter.rejected(self._name, reason)

    async def _hand_over(self, got: Sequence[_Got], now: float) -> None:
        whole = [(one, one.content) for one in got if one.content is not None]
        fresh = [c for one, c in whole if self._watch.is_news(one.trace_id, c, one.partial, now)]
        await self._delivery.send([Parcel(content.body) for content in fresh])
        for one, content in whole:
            self._watch.fetched(one.trace_id, content, now)
        for one in got:
            if one.content is None:
                self._watch.missing(one.trace_id, now)

    async def _save(self) -> None:
        cursor: Mapping[str, object] = {
            "timeline": self._timeline.as_json(),
            "open": self._watch.as_json(self._timeline.oldest),
        }
        await asyncio.to_thread(self._cursors.save, self._name, cursor)


def _shown(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
