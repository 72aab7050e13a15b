"""The spans and log records of a trace, read back from the journal and decoded."""

from __future__ import annotations

import logging
from collections import OrderedDict

from collectors.immutable import immutable
from collectors.otlp.lazy import BlankSpans
from collectors.otlp.request import Decoded, RawItems, decode, select
from collectors.sink import MalformedRequest, Signal
from monitor.intake.faults import FrameUnreadable
from monitor.intake.frames import Frame
from monitor.intake.journal import Journal
from monitor.intake.opentrace import OpenTrace
from monitor.intake.privacy import Dropped, scrub
from monitor.model.run import JournalPosition

logger = logging.getLogger(__name__)

CACHE_BYTES = 16 * 1024**2


class CachedFrame:
    """A frame, and its items once somebody has asked for them."""

    __slots__ = ("_items", "frame", "settled")

    def __init__(self, frame: Frame) -> None:
        self.frame = frame
        self.settled = 0
        self._items: RawItems | None = None

    @property
    def items(self) -> RawItems:
        """Its items by ordinal. Raises MalformedRequest."""
        if self._items is None:
            self._items = RawItems(self.frame.body, self.frame.signal)
        return self._items

    @property
    def cost(self) -> int:
        """Bytes that it holds: the body, and once more its items."""
        return 3 * len(self.frame.body)


class FrameCache:
    """The frames read last, up to a number of bytes: a frame that holds many traces is read once. Not thread-safe.

    `blanks`: what spans of heads are read into.
    """

    def __init__(self, journal: Journal, max_bytes: int = CACHE_BYTES) -> None:
        self._journal = journal
        self._max_bytes = max_bytes
        self._frames: OrderedDict[JournalPosition, CachedFrame] = OrderedDict()
        self._bytes = 0
        self.blanks = BlankSpans()

    def read(self, position: JournalPosition) -> CachedFrame:
        """The frame at a position. Raises FrameUnreadable."""
        frame = self._frames.get(position)
        if frame is not None:
            self._frames.move_to_end(position)
            return frame
        frame = self._frames[position] = CachedFrame(self._journal.read(position))
        self._bytes += frame.cost
        while self._bytes > self._max_bytes and len(self._frames) > 1:
            self._bytes -= self._frames.popitem(last=False)[1].cost
        return frame

    def settled(self, position: JournalPosition, count: int) -> None:
        """So many items of a frame are read for the last time: one with no others is forgotten, so that its memory serves the next while it is warm."""
        frame = self._frames.get(position)
        if frame is None:
            return
        frame.settled += count
        if frame.settled >= len(frame.items.items):
            self._bytes -= self._frames.pop(position).cost

    def clear(self) -> None:
        """Forget all frames."""
        self._frames.clear()
        self._bytes = 0


@immutable(frozen=True, slots=True)
class Material:
    """What one settlement works on: the trace's export requests, decoded, without dropped attributes.

    `consumed` is the position behind the last frame read. `lost` counts items whose frame could not be read.
    """

    traces: bytes
    logs: bytes
    spans: Decoded
    records: Decoded
    consumed: JournalPosition
    lost: int = 0

    @property
    def repaired(self) -> int:
        """Values that were not valid Unicode or were nested too deep."""
        return self.spans.repaired + self.records.repaired


def decoded(traces: bytes, logs: bytes, consumed: JournalPosition, lost: int = 0) -> Material:
    """Two export requests as material."""
    return Material(traces, logs, decode(traces, Signal.TRACES), decode(logs, Signal.LOGS), consumed, lost)


def load(
    trace: OpenTrace, frames: FrameCache, dropped: Dropped | None, after: JournalPosition | None
) -> Material | None:
    """Read a trace back; None when all of it lies before `after`, where an earlier settlement has read already."""
    places = trace.frames()
    if after is not None:
        places = {position: ordinals for position, ordinals in places.items() if not position < after}
    if not places:
        return None
    parts: dict[Signal, list[bytes]] = {Signal.TRACES: [], Signal.LOGS: []}
    lost = 0
    for position, ordinals in places.items():
        try:
            frame = frames.read(position).frame
            part = select(frame.body, frame.signal, ordinals)
        except (FrameUnreadable, MalformedRequest) as error:
            logger.error("%d items of a trace are lost: %s", len(ordinals), error)
            lost += len(ordinals)
            continue
        parts[frame.signal].append(part if dropped is None else scrub(part, frame.signal, dropped))
    last = max(places, key=lambda position: (position.segment, position.offset))
    behind = JournalPosition(last.segment, last.offset + 1)
    return decoded(b"".join(parts[Signal.TRACES]), b"".join(parts[Signal.LOGS]), behind, lost)
