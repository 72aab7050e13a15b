"""One open trace in memory: ids, times and where its bytes lie, packed to about twenty bytes an item."""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from monitor.intake.records import (
    ENDED,
    HEADER,
    ID_BYTES,
    LOG,
    NO_ID,
    ORDINAL_BYTES,
    STORED,
    Block,
    Columns,
    blocks,
    flags_of,
    ids_of,
    only_block,
    ordinals_of,
)
from monitor.intake.settling import SpanHead, TraceState, is_complete
from monitor.model.run import JournalPosition

_PLACE = struct.Struct("<II")
_ORDINAL = struct.Struct("<I")
_ALL_ENDED = bytes([ENDED])


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


class OpenTrace:
    """What is known of a trace that has not settled. Times are seconds since 1970-01-01Z; not thread-safe.

    `kept_below` is the early drop's rate when it began: with what probability the trace was kept. `item_count` is the number of spans and
    log records, every copy counted.
    """

    __slots__ = (
        "_complete", "check_at", "collector", "end_marker", "first_received", "has_logs", "held_until", "inside", "item_count", "kept_below", "last_received",
        "looked_up", "records", "settled_before",
    )  # fmt: skip

    def __init__(self, collector: str, received_at: float, kept_below: float) -> None:
        self.collector = collector
        self.first_received = received_at
        self.last_received = received_at
        self.kept_below = kept_below
        self.records: bytes | bytearray = b""
        self.item_count = 0
        self.has_logs = False
        self.end_marker = False
        self.looked_up = False  # whether the store was asked for an earlier settlement
        self.settled_before = False
        self.check_at = 0.0
        self.held_until = 0.0  # it waits so long for other traces of its turn, unless more of it comes
        self.inside: Inside | None = None
        self._complete: bool | None = None

    def add(self, columns: Columns, first: int, end: int, received_at: float, kept_below: float) -> None:
        """More items of the trace, all of one frame."""
        if self.item_count:
            self._writable().extend(columns.records(first, end))
            self._complete = None
            self.held_until = 0.0
            self._came(received_at, kept_below)
        else:
            self.records, self._complete = columns.records(first, end), columns.complete(first, end)
        self.item_count += end - first
        self.has_logs = self.has_logs or columns.log
        self.end_marker = self.end_marker or columns.end_marker(first, end)

    def _came(self, received_at: float, kept_below: float) -> None:
        self.last_received = max(self.last_received, received_at)
        if received_at < self.first_received:  # replayed from where it was moved to
            self.first_received, self.kept_below = received_at, kept_below

    def join(self, other: OpenTrace) -> None:
        """The items of the same trace that came meanwhile, behind those here."""
        self._writable().extend(other.records)
        self.item_count += other.item_count
        self.has_logs = self.has_logs or other.has_logs
        self.end_marker = self.end_marker or other.end_marker
        self._complete, self.held_until = None, 0.0
        self._came(other.last_received, other.kept_below)

    def _writable(self) -> bytearray:
        """Most traces come in one frame and need no buffer that can grow."""
        if isinstance(self.records, bytes):
            self.records = bytearray(self.records)
        return self.records

    # -- where its items lie -------------------------------------------------------------------------------------------
    def blocks(self) -> Iterator[Block]:
        """Its items by frame, in the order noted."""
        return blocks(self.records)

    def ordinals(self, block: Block) -> tuple[int, ...]:
        """The ordinals in their frame of the items of a block, ascending."""
        return ordinals_of(self.records, block)

    @property
    def segments(self) -> list[tuple[int, int]]:
        """Segments in which its items lie, with how many; one may occur several times."""
        only = only_block(self.records, self.item_count)
        if only is not None:  # nearly always
            return [(only[0], self.item_count)]
        return [(block.segment, block.items) for block in self.blocks()]

    @property
    def first_place(self) -> tuple[int, int, int]:
        """Where the first item noted lies: segment, offset, ordinal."""
        segment, offset, _, count = HEADER.unpack_from(self.records)
        (ordinal,) = _ORDINAL.unpack_from(self.records, HEADER.size + 2 * ID_BYTES * count)
        return segment, offset, ordinal

    def frames(self) -> dict[JournalPosition, list[int]]:
        """Its frames in journal order, with the ordinals of its items in each."""
        only = only_block(self.records, self.item_count)
        if only is not None:  # nearly always
            return {JournalPosition(only[0], only[1]): list(only[2])}
        found: dict[tuple[int, int], list[int]] = {}
        for block in self.blocks():
            found.setdefault((block.segment, block.offset), []).extend(self.ordinals(block))
        return {JournalPosition(*place): found[place] for place in sorted(found)}

    def move(self, at: int, position: JournalPosition, ordinals: Mapping[int, int]) -> None:
        """The items of the block at that place have been written to another frame; `ordinals` has their new ordinals by the old ones."""
        block = next(one for one in self.blocks() if one.at == at)
        fresh = [ordinals[ordinal] for ordinal in self.ordinals(block)]
        records = self._writable()
        _PLACE.pack_into(records, at, position.segment, position.offset)
        struct.pack_into(f"<{block.items}I", records, block.ordinals_at, *fresh)

    # -- looking into it while it is open ------------------------------------------------------------------------------
    def rows(self) -> tuple[list[Row], set[bytes]]:
        """Its items that are not stored, in the order noted, and the span ids of those that are."""
        rows: list[Row] = []
        stored: set[bytes] = set()
        for place, (span_id, parent, received, flags) in enumerate(self._items()):
            if flags & STORED:
                stored.add(span_id)
            else:
                rows.append(Row(place, span_id, parent, received, bool(flags & ENDED), bool(flags & LOG)))
        return rows, stored

    def _items(self) -> Iterator[tuple[bytes, bytes, int, int]]:
        """Span id, parent, when it came, and flags, of each item. Reads copies: a buffer that is being looked at cannot grow."""
        for block in self.blocks():
            for span_id, parent, flags in zip(*ids_of(self.records, block), flags_of(self.records, block), strict=True):
                yield span_id, parent, block.received, flags

    def copy(self) -> OpenTrace:
        """As it is now."""
        made = OpenTrace(self.collector, self.first_received, self.kept_below)
        made.records, made.inside, made.last_received = bytes(self.records), self.inside, self.last_received
        made.item_count, made.has_logs = self.item_count, self.has_logs
        return made

    def only(self, places: Collection[int]) -> OpenTrace:
        """A copy with only the items at those places."""
        made, wanted, first = self.copy(), frozenset(places), 0
        kept: list[bytes] = []
        for block in self.blocks():
            chosen = [at for at in range(block.items) if first + at in wanted]
            first += block.items
            if chosen:
                kept.append(self._part(block, chosen))
        made.records, made.item_count = b"".join(kept), len(wanted)
        return made

    def _part(self, block: Block, chosen: Sequence[int]) -> bytes:
        """A block with only some of its items."""
        columns = [HEADER.pack(block.segment, block.offset, block.received, len(chosen))]
        at = block.ids_at
        for width in (ID_BYTES, ID_BYTES, ORDINAL_BYTES, 1):
            columns += [bytes(self.records[at + width * one : at + width * (one + 1)]) for one in chosen]
            at += width * block.items
        return b"".join(columns)

    def mark_stored(self, places: Collection[int], *, stored: bool) -> None:
        """The items at those places are part of stored invocations and need not be read again, or are to be read again."""
        if not places:
            return
        flags_at = [at for block in self.blocks() for at in range(block.flags_at, block.end)]
        records = self._writable()
        for place in places:
            at = flags_at[place]
            records[at] = records[at] & ~STORED | (STORED if stored else 0)

    def is_to_look_into(self, quiet_until: float, now: float) -> bool:
        """Whether more of it has become quiet than when it was last looked into, enough to look again."""
        inside = self.inside or Inside()
        if self.item_count < inside.wanted or now < inside.at:
            return False
        quiet = count = 0
        for block in self.blocks():
            count += block.items
            if block.received <= quiet_until:
                quiet = count
        return quiet >= inside.wanted and quiet > inside.looked

    # -- settling ------------------------------------------------------------------------------------------------------
    def state(self, max_spans: int) -> TraceState:
        """What settling looks at. Copies of a span count once where it matters, past `max_spans`."""
        if self._complete is None:
            self._complete = self._is_complete()
        count = self.item_count
        if count > max_spans:
            count = len({span_id for span_id, *_ in self._items()})
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
        spans: set[bytes] = set()
        parents: set[bytes] = set()
        for block in self.blocks():
            if flags_of(self.records, block).strip(_ALL_ENDED):
                heads = ((span_id, parent, flag) for span_id, parent, _, flag in self._items() if not flag & LOG)
                return is_complete(SpanHead(span_id, parent, bool(flag & ENDED)) for span_id, parent, flag in heads)
            own, above = ids_of(self.records, block)
            spans.update(own)
            parents.update(above)
        return NO_ID in parents and parents <= {NO_ID, *spans}
