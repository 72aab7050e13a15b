"""The past of Phoenix: spans of each project by when they began."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from collectors.collector import HistoryStretch
from collectors.polling.clock import PollClock
from collectors.polling.delivery import Delivery, Parcel
from collectors.sink import SpanSink

EARLIER_SECONDS = 1800.0
_STRETCH_SECONDS = 3600.0
_REMEMBERED = 100_000


class PhoenixHistory:
    """See `collectors.collector.History`. `page` reads one page of a project's spans and says with which parameters the next one is read;
    `parcel` makes a request of a span, None where it cannot be read.
    """

    earlier_seconds = EARLIER_SECONDS

    def __init__(
        self,
        projects: Sequence[str],
        page: Callable[[str, float, float, str | None], Any],
        parcel: Callable[[Mapping[str, Any]], bytes | None],
        sink: SpanSink,
        clock: PollClock,
    ) -> None:
        self._projects, self._page, self._parcel = projects, page, parcel
        self._sink, self._clock = sink, clock
        self._seen: dict[str, None] = {}
        self._reached = 0.0

    async def read(self, since: float, until: float, deliver_as: str | None) -> HistoryStretch:
        """See `collectors.collector.History`."""
        if since != self._reached:
            self._seen.clear()
        end = min(until, since + _STRETCH_SECONDS)
        traces = spans = left_out = 0
        for project in self._projects:
            cursor: str | None = None
            while True:
                found, cursor = await self._page(project, since, end, cursor)
                traces += self._new(found)
                if deliver_as is not None:
                    bodies = [self._parcel(span) for span in found]
                    whole = [Parcel(body) for body in bodies if body is not None]
                    await Delivery(deliver_as, self._sink, self._clock).send(whole)
                    spans, left_out = spans + len(whole), left_out + len(bodies) - len(whole)
                if cursor is None:
                    break
        self._reached = end
        return HistoryStretch(end, traces, spans, left_out)

    def _new(self, spans: Sequence[Mapping[str, Any]]) -> int:
        """How many traces these spans show that were not seen before."""
        before = len(self._seen)
        for span in spans:
            context = span.get("context")
            if isinstance(context, dict):
                self._seen.setdefault(str(context.get("trace_id")), None)
        new = len(self._seen) - before
        if len(self._seen) > _REMEMBERED:
            self._seen = dict.fromkeys(list(self._seen)[-_REMEMBERED // 2 :])
        return new
