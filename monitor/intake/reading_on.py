"""The journal is read on where what is open in memory leaves room: frames are indexed in journal order, each once.

What an earlier process left is read in the same way, without what the store has already consumed.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from collectors.otlp.request import Item, split
from collectors.sink import MalformedRequest
from monitor.intake.faults import place_of
from monitor.intake.frames import DamageKind, Frame
from monitor.intake.index import Arrival, Index
from monitor.intake.journal import Journal
from monitor.intake.parked import Unread
from monitor.model.run import JournalPosition
from monitor.telemetry import DropReason, Telemetry

logger = logging.getLogger(__name__)

READ_AT_ONCE = 16 * 1024**2
"""Bytes of frames that are read, and looked up in the store, together; or `ITEMS_AT_ONCE`, whichever is less: what is split takes 600 bytes an
item.
"""

ITEMS_AT_ONCE = 16_384

READ_AT_START = 64 * 1024**2
"""Bytes of the journal that are indexed before anything is accepted: a quarter of a second. The settler reads the rest, whatever its size."""

Consumed = Callable[[Collection[str]], Mapping[str, JournalPosition]]
"""`Store.consumed_positions`."""


@dataclass(frozen=True, slots=True)
class _Read:
    """A frame and its items; None where it is not what we wrote, because the format of the signal has changed."""

    frame: Frame
    items: list[Item] | None

    @property
    def trace_ids(self) -> list[bytes]:
        """The trace id of each item."""
        return [item.trace_id for item in self.items or ()]


def _split(frame: Frame) -> _Read:
    try:
        return _Read(frame, split(frame.body, frame.signal).items)
    except MalformedRequest:
        return _Read(frame, None)


class ReadingOn:
    """Reads on from the journal into the index. Used by one thread at a time: at the start, then the settler's."""

    def __init__(self, journal: Journal, index: Index, telemetry: Telemetry, consumed: Consumed) -> None:
        self.bytes_at_once = READ_AT_ONCE
        self._journal = journal
        self._index = index
        self._telemetry = telemetry
        self._consumed = consumed
        self._fault = ""

    def begin(self, now: float = math.inf, rate: float = 1.0) -> int:
        """Index the beginning of what earlier processes left; how many spans and log records are indexed, or wait, about. `step` reads the rest.

        Once, after opening the journal and before anything is accepted. What seems to have come later than `now`, because the clock was put
        back since, came now. `rate` is that of the early drop to be in force: traces that were taken at a higher one are open, and are not to be
        cut, so of what is not read yet these are looked for. Raises StoreUnwritable, and JournalUnwritable where the journal may not be read.
        """
        left = {number: size for number, size in self._journal.segments().items() if number < self._journal.active}
        if left:
            size = sum(left.values())
            unread = Unread(self._journal.earlier_until, size, now)
            self._index.park_unread(unread, left)
            while self._index.has_room(-math.inf, idle=False) and size - unread.size < READ_AT_START:
                self._read_some()
            stretch = self._index.stretch()
            if stretch is not None:
                unread.items_per_byte = self._index.indexed_items / max(1, size - unread.size)
                self._remember(unread, stretch, rate)
        self._journal.serve()
        return self._index.open_items

    def _remember(self, unread: Unread, stretch: tuple[JournalPosition, JournalPosition], rate: float) -> None:
        parked = self._index.parked
        if rate >= 1.0 or parked is None or self._journal.highest_rate(*stretch) <= rate:
            return
        unread.known_above = rate
        for frame in self._journal.frames(*stretch, again=True):
            if frame.kept_below > rate:
                parked.remember(_split(frame).trace_ids)

    def step(self, now: float, *, idle: bool) -> bool:
        """Read on if something waits and there is room for it, or nothing else is due (`idle`) though it may be; whether to come again at once.

        `now` is seconds since 1970-01-01Z. Where journal or store cannot be read all that was to be indexed still waits, and False is returned.
        """
        if not self._index.has_room(now, idle=idle):
            return not idle and self._index.parked is not None
        try:
            read, self._fault = self._read_some(), ""
            return read
        except Exception as error:
            if self._fault != (reason := type(error).__name__):
                logger.error("what waits in the journal cannot be read on, and is tried again: %s", place_of(error))
            self._fault = reason
            return False

    def _read_some(self) -> bool:
        """Index some more; False when nothing waits."""
        stretch = self._index.stretch()
        if stretch is None:
            return False
        known = len(self._journal.damages)
        read: list[_Read] = []
        size = items = 0
        enough = False
        for frame in self._journal.frames(*stretch):
            read.append(_split(frame))
            size += len(frame.body)
            items += len(read[-1].items or ())
            if enough := size >= self.bytes_at_once or items >= ITEMS_AT_ONCE:
                break
        self._note(read, self._consumed_until(read))
        corrupt = sum(damage.kind is DamageKind.CORRUPT for damage in self._journal.damages[known:])
        unreadable = corrupt + sum(one.items is None for one in read)
        self._telemetry.spans_dropped.labels(DropReason.UNREADABLE).inc(unreadable)  # at least one span each
        if not enough:
            last = stretch[1]
            self._index.read_to(JournalPosition(last.segment, last.offset + 1))
        return True

    def _note(self, read: list[_Read], until: Mapping[bytes, JournalPosition]) -> None:
        for one in read:
            frame = one.frame
            left = [
                (ordinal, item)
                for ordinal, item in enumerate(one.items or ())
                if item.trace_id not in until or not frame.position < until[item.trace_id]
            ]
            unread = self._index.unread
            earlier = unread is not None and frame.position < unread.until
            came = min(frame.received_at, unread.began) if unread is not None and earlier else frame.received_at
            arrival = Arrival(frame.position, frame.signal, frame.collector, came, frame.kept_below, left)
            self._index.note_parked(arrival, frame.end, one.trace_ids)

    def _consumed_until(self, read: list[_Read]) -> dict[bytes, JournalPosition]:
        """How far the store has read the traces of what earlier processes left. Of what this one took nothing that waits has been read."""
        until = self._journal.earlier_until
        ids = {trace_id.hex() for one in read if one.frame.position < until for trace_id in one.trace_ids}
        return {bytes.fromhex(trace_id): position for trace_id, position in self._consumed(ids).items()} if ids else {}
