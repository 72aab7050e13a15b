"""One open trace in memory: ids, times and where its bytes lie, packed to a few dozen bytes an item."""

from __future__ import annotations

import math
import struct
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from collectors.otlp.request import Item
from collectors.sink import Signal
from monitor.intake.settling import SpanHead, TraceState, is_complete
from monitor.model.run import JournalPosition

RECORD = struct.Struct("<8s8sIIIIB")
"""Span id, parent span id (zeros: none), journal segment, offset of the frame, ordinal in it, when it came (the next whole second), flags."""
_ENDED, _LOG, _STORED = 1, 2, 4
_ALL_ENDED, _NO_PARENT = bytes([_ENDED]), bytes(8)
_FLAGS_AT = RECORD.size - 1
_SEGMENT_AT = 16  # segment, offset and ordinal lie together
_PLACE = struct.Struct("<III")


class Place(NamedTuple):
    """Where an item of a trace lies: its frame, and its ordinal in the frame's request."""

    segment: int
    offset: int
    ordinal: int


class Row(NamedTuple):
    """An item of a trace as it is kept, and its place among all items; `received` in whole seconds, rounded up."""

    place: int
    span_id: bytes
    parent: bytes
    received: int
    ended: bool
    log: bool


@dataclass(frozen=True, slots=True)
class Inside:
    """What is remembered of looking into an open trace (see parting.py).

    When `looked` of its items were quiet it was looked into; again from `wanted` on, not before `at`. `settled`: its stored invocations
    with their digests, None when nobody has asked the store.
    """

    looked: int = 0
    wanted: int = 2
    at: float = 0.0
    settled: Mapping[str, str] | None = None


def packed(
    items: Iterable[tuple[int, Item]], signal: Signal, position: JournalPosition, received_at: float
) -> list[bytes]:
    """Items of one frame, with their ordinals in it, as they are kept in memory. Every span comes through here."""
    segment, offset = position.segment, position.offset
    pack, log = RECORD.pack, _LOG if signal is Signal.LOGS else 0
    received = min(max(0, math.ceil(received_at)), 2**32 - 1)
    return [
        pack(span_id, parent, segment, offset, ordinal, received, log or (_ENDED if end > 0 and end >= start else 0))
        for ordinal, (_, span_id, parent, start, end, *_) in items
    ]


class OpenTrace:
    """What is known of a trace that has not settled. Times are seconds since 1970-01-01Z; not thread-safe.

    `kept_below` is the early drop's rate when it began: with what probability the trace was kept.
    """

    __slots__ = (
        "_complete", "check_at", "collector", "end_marker", "first_received", "held_until", "inside", "kept_below", "last_received", "looked_up", "records",
        "settled_before",
    )  # fmt: skip

    def __init__(self, collector: str, received_at: float, kept_below: float) -> None:
        self.collector = collector
        self.first_received = received_at
        self.last_received = received_at
        self.kept_below = kept_below
        self.records = bytearray()
        self.end_marker = False
        self.looked_up = False  # whether the store was asked for an earlier settlement
        self.settled_before = False
        self.check_at = 0.0
        self.held_until = 0.0  # it waits so long for other traces of its turn, unless more of it comes
        self.inside: Inside | None = None
        self._complete: bool | None = None

    def add(self, records: Sequence[bytes], received_at: float, kept_below: float, end_marker: bool) -> None:
        """More items of the trace, all of one frame."""
        self.records += b"".join(records)
        self.last_received = max(self.last_received, received_at)
        if received_at < self.first_received:  # replayed from where it was moved to
            self.first_received, self.kept_below = received_at, kept_below
        self.end_marker = self.end_marker or end_marker
        self._complete = None
        self.held_until = 0.0

    def join(self, other: OpenTrace) -> None:
        """The items of the same trace that came meanwhile, behind those here."""
        self.add([bytes(other.records)], other.last_received, other.kept_below, other.end_marker)

    @property
    def item_count(self) -> int:
        """Spans and log records, every copy counted."""
        return len(self.records) // RECORD.size

    @property
    def places(self) -> list[Place]:
        """Where its items lie, in the order noted. Reads a copy: a buffer that is being iterated over cannot grow."""
        return [Place(*fields[2:5]) for fields in RECORD.iter_unpack(bytes(self.records))]

    @property
    def segments(self) -> list[int]:
        """In which segment each of its items lies."""
        return [fields[2] for fields in RECORD.iter_unpack(self.records)]

    @property
    def first_place(self) -> tuple[int, int, int]:
        """Where the first item noted lies: segment, offset, ordinal."""
        segment, offset, ordinal = _PLACE.unpack_from(self.records, _SEGMENT_AT)
        return segment, offset, ordinal

    @property
    def has_logs(self) -> bool:
        """Whether there are log records among its items."""
        return max(self.records[RECORD.size - 1 :: RECORD.size], default=0) >= _LOG

    def frames(self) -> dict[JournalPosition, list[int]]:
        """Its frames in journal order, with the ordinals of its items in each."""
        places = [fields[2:5] for fields in RECORD.iter_unpack(bytes(self.records))]
        places.sort()
        if places and places[0][:2] == places[-1][:2]:  # nearly always
            return {JournalPosition(*places[0][:2]): [ordinal for _, _, ordinal in places]}
        found: dict[tuple[int, int], list[int]] = {}
        for segment, offset, ordinal in places:
            found.setdefault((segment, offset), []).append(ordinal)
        return {JournalPosition(*place): ordinals for place, ordinals in found.items()}

    def places_in(self, segment: int) -> Iterator[tuple[int, Place]]:
        """Its items in a segment, each with its index among all items."""
        return ((index, place) for index, place in enumerate(self.places) if place.segment == segment)

    def move(self, index: int, place: Place) -> None:
        """An item has been written to another place."""
        _PLACE.pack_into(self.records, index * RECORD.size + _SEGMENT_AT, *place)

    # -- looking into it while it is open ------------------------------------------------------------------------------
    def rows(self) -> tuple[list[Row], set[bytes]]:
        """Its items that are not stored, in the order noted, and the span ids of those that are."""
        rows: list[Row] = []
        stored: set[bytes] = set()
        for place, (span_id, parent, _, _, _, received, flags) in enumerate(RECORD.iter_unpack(bytes(self.records))):
            if flags & _STORED:
                stored.add(span_id)
            else:
                rows.append(Row(place, span_id, parent, received, bool(flags & _ENDED), bool(flags & _LOG)))
        return rows, stored

    def copy(self) -> OpenTrace:
        """As it is now."""
        made = OpenTrace(self.collector, self.first_received, self.kept_below)
        made.records, made.inside, made.last_received = bytearray(self.records), self.inside, self.last_received
        return made

    def only(self, places: Collection[int]) -> OpenTrace:
        """A copy with only the items at those places."""
        made = self.copy()
        size = RECORD.size
        made.records = bytearray(b"".join(bytes(self.records[at * size : (at + 1) * size]) for at in sorted(places)))
        return made

    def mark_stored(self, places: Collection[int], *, stored: bool) -> None:
        """The items at those places are part of stored invocations and need not be read again, or are to be read again."""
        for at in places:
            flags_at = at * RECORD.size + _FLAGS_AT
            self.records[flags_at] = self.records[flags_at] & ~_STORED | (_STORED if stored else 0)

    def is_to_look_into(self, quiet_until: float, now: float) -> bool:
        """Whether more of it has become quiet than when it was last looked into, enough to look again."""
        inside = self.inside or Inside()
        count = self.item_count
        if count < inside.wanted or now < inside.at:
            return False
        size = RECORD.size
        while count and int.from_bytes(self.records[count * size - 5 : count * size - 1], "little") > quiet_until:
            count -= 1
        return count >= inside.wanted and count > inside.looked

    def state(self, max_spans: int) -> TraceState:
        """What settling looks at. Copies of a span count once where it matters, past `max_spans`."""
        if self._complete is None:
            self._complete = self._is_complete()
        count = self.item_count
        if count > max_spans:
            count = len({fields[0] for fields in RECORD.iter_unpack(self.records)})
        return TraceState(
            self.first_received,
            self.last_received,
            count,
            self._complete,
            self.end_marker,
            self.settled_before,
            self.held_until,
        )

    def _is_complete(self) -> bool:
        """`is_complete`, by a shorter way where all are spans that have ended: nearly always when a trace settles."""
        records = bytes(self.records)
        if records[_FLAGS_AT :: RECORD.size].strip(_ALL_ENDED):
            return is_complete(self._heads())
        fields = list(RECORD.iter_unpack(records))
        parents = {one[1] for one in fields}
        return _NO_PARENT in parents and parents <= {_NO_PARENT, *[one[0] for one in fields]}

    def _heads(self) -> Iterator[SpanHead]:
        for span_id, parent, *_, flags in RECORD.iter_unpack(self.records):
            if not flags & _LOG:
                yield SpanHead(span_id, parent, bool(flags & _ENDED))
