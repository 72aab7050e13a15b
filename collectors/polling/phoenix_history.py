"""The past of Phoenix: spans of each project by when they began."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from collectors.collector import HistoryStretch
from collectors.polling.clock import PollClock
from collectors.polling.delivery import Delivery, Parcel
from collectors.polling.seen import SeenTraces
from collectors.sink import SpanSink

EARLIER_SECONDS = 1800.0
_STRETCH_SECONDS = 3600.0


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
        self._seen = SeenTraces()

    async def read(self, since: float, until: float, deliver_as: str | None) -> HistoryStretch:
        """See `collectors.collector.History`."""
        self._seen.begin(since)
        end = min(until, since + _STRETCH_SECONDS)
        spans = left_out = 0
        found_ids: list[str] = []
        for project in self._projects:
            cursor: str | None = None
            while True:
                found, cursor = await self._page(project, since, end, cursor)
                found_ids += _trace_ids(found)
                if deliver_as is not None:
                    bodies = [self._parcel(span) for span in found]
                    whole = [Parcel(body) for body in bodies if body is not None]
                    await Delivery(deliver_as, self._sink, self._clock).send(whole)
                    spans, left_out = spans + len(whole), left_out + len(bodies) - len(whole)
                if cursor is None:
                    break
        new = self._seen.new(found_ids)
        self._seen.reached(end, new)
        return HistoryStretch(end, len(new), spans, left_out)


def _trace_ids(spans: Sequence[Mapping[str, Any]]) -> list[str]:
    contexts = [span.get("context") for span in spans]
    return [str(context.get("trace_id")) for context in contexts if isinstance(context, dict)]
