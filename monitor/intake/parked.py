"""Frames of the journal that wait to be indexed, because as much is open in memory as is to be: where they lie, and what is counted of them.

All of the journal from `reads_from` to `last` is parked, and what comes is parked behind it, until all of that has been read (see
reading_on.py).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from monitor.intake.noted import Arrival
from monitor.intake.seen import Seen
from monitor.model.run import JournalPosition

MAX_PAUSE = 5.0
"""Seconds without a frame of an earlier process after which silence counts anew: it may not have been there to listen."""


@dataclass(slots=True)
class Unread:
    """The part of the journal that an earlier process left and this one has not read: how much it is, not what.

    `size` is in bytes and shrinks, `items_per_byte` an estimate. Which traces lie in frames that were taken at an early drop's rate above
    `known_above` is known all the same. It all came before `began`, seconds since 1970-01-01Z, whatever a clock said.
    """

    until: JournalPosition
    size: int
    began: float
    items_per_byte: float = 0.0
    known_above: float = math.inf

    @property
    def items(self) -> int:
        """About how many spans and log records it holds, at least one."""
        return max(1, round(self.size * self.items_per_byte))


class Parked:
    """What is parked. Guarded by the index's lock."""

    __slots__ = ("_seen", "items", "last", "reads_from", "segments", "traces", "unread")

    def __init__(self, reads_from: JournalPosition, last: JournalPosition, unread: Unread | None = None) -> None:
        self.reads_from = reads_from
        self.last = last
        self.unread = unread
        self.items = 0
        self.traces: Counter[str] = Counter()  # by collector; one that lies in several frames counts in each
        self.segments: set[int] = set()
        self._seen = Seen()

    @property
    def count(self) -> int:
        """Spans and log records; where a part is unread, about."""
        return self.items + (self.unread.items if self.unread is not None else 0)

    def add(self, position: JournalPosition, collector: str, trace_ids: Sequence[bytes]) -> None:
        """Another frame, with the trace id of each of its items."""
        distinct = set(trace_ids)
        self._seen.add(distinct)
        self.last = position
        self.items += len(trace_ids)
        self.traces[collector] += len(distinct)
        self.segments.add(position.segment)

    def remember(self, trace_ids: Iterable[bytes]) -> None:
        """Traces of a frame that is unread, taken at a rate above `known_above`."""
        self._seen.add(set(trace_ids))

    def taken(self, arrival: Arrival, end: int, trace_ids: Collection[bytes]) -> None:
        """The next frame, which ends at the offset `end`, has been indexed; the trace id of each item in it."""
        position, distinct = arrival.position, set(trace_ids)
        self.read_to(position)
        if self.unread is not None:
            self.unread.size -= end - position.offset
        else:
            self.items -= len(trace_ids)
            self.traces[arrival.collector] -= len(distinct)
        if self.unread is None or arrival.kept_below > self.unread.known_above:
            self._seen.remove(distinct)
        self.read_to(JournalPosition(position.segment, end))

    def read_to(self, position: JournalPosition) -> None:
        """All before the position has been read."""
        if not self.reads_from < position:
            return
        if position.segment > self.reads_from.segment:
            self.segments = {segment for segment in self.segments if segment >= position.segment}
        self.reads_from = position
        if self.unread is not None and not position < self.unread.until:
            self.unread = None

    @property
    def is_read(self) -> bool:
        """Whether nothing is left."""
        return self.last < self.reads_from

    def __contains__(self, trace_id: bytes) -> bool:
        """Whether a trace may lie in it; of most of what is unread that is not known."""
        return trace_id in self._seen


class Backlog:
    """What is indexed of the journal, and what is parked. Guarded by the index's lock. Times are seconds since 1970-01-01Z."""

    __slots__ = ("_all_at_once", "_heard_since", "_newest", "max_indexed", "parked")

    def __init__(self, max_indexed: int) -> None:
        self.max_indexed = max_indexed
        self.parked: Parked | None = None
        self._newest = 0.0  # when the newest came that is indexed
        self._heard_since = 0.0
        self._all_at_once = False

    def parks(self, indexed: int) -> bool:
        """Whether what comes is parked, where so much is indexed."""
        return self.parked is not None or (indexed >= self.max_indexed and not self._all_at_once)

    def park(self, position: JournalPosition, collector: str, trace_ids: Sequence[bytes]) -> None:
        """The next frame of the journal waits."""
        if self.parked is None:
            self.parked = Parked(position, position)
        self.parked.add(position, collector, trace_ids)

    def came(self, received_at: float, settle_after: float) -> None:
        """The next frame is indexed, which came at that time."""
        unread = self.parked is not None and self.parked.unread is not None
        if unread and received_at - self._newest > min(MAX_PAUSE, settle_after):
            self._heard_since = received_at
        self._newest = max(self._newest, received_at)

    def read_to(self, position: JournalPosition) -> None:
        """All before the position has been read."""
        if self.parked is not None:
            self.parked.read_to(position)
            if self.parked.is_read:
                self.parked = None

    def moment(self, now: float, listening_since: float) -> tuple[float, float]:
        """For what moment can be told what has settled, and since when silence counts: while frames are parked not for a later one than when
        the newest came that is indexed, or a trace would settle of which more had come by then, or without others of its turn.
        """
        if self.parked is None:
            return now, listening_since
        return min(now, self._newest), self._heard_since if self.parked.unread is not None else listening_since

    def is_overdue(self, now: float, settle_after: float) -> bool:
        """Whether what is parked may be due."""
        return self._newest + settle_after <= now

    def keep_indexing(self, wanted: bool) -> bool:
        """Whether nothing is parked; then nothing will be, `wanted` or until that is taken back."""
        self._all_at_once = wanted and self.parked is None
        return self._all_at_once
