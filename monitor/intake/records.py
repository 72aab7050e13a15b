"""Items of a frame as they are kept in memory while their traces are open: column by column, about twenty bytes each.

Every span comes through here. Columns are cut and packed whole, which costs a fraction of going from item to item.
"""

from __future__ import annotations

import math
import operator
import struct
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import groupby
from typing import NamedTuple

from collectors.otlp.request import Item
from collectors.sink import Signal
from monitor.model.run import JournalPosition

HEADER = struct.Struct("<IIII")
"""Of the items of one trace in one frame: journal segment, offset of the frame, when it came (the next whole second), how many. Behind it
their span ids, parent span ids (zeros: none), ordinals in the frame, and flags.
"""
ID_BYTES, ORDINAL_BYTES = 8, 4
ITEM_BYTES = 2 * ID_BYTES + ORDINAL_BYTES + 1
ENDED, LOG, STORED = 1, 2, 4
"""Flags."""
NO_ID = bytes(ID_BYTES)
_ID = struct.Struct("8s")


class Block(NamedTuple):
    """Items of one trace in one frame: where in the trace's records they begin, and where the frame lies in the journal."""

    at: int
    segment: int
    offset: int
    received: int
    items: int

    @property
    def ids_at(self) -> int:
        """Where its span ids begin; parents lie behind them."""
        return self.at + HEADER.size

    @property
    def ordinals_at(self) -> int:
        """Where its ordinals begin."""
        return self.ids_at + 2 * ID_BYTES * self.items

    @property
    def flags_at(self) -> int:
        """Where its flags begin."""
        return self.ordinals_at + ORDINAL_BYTES * self.items

    @property
    def end(self) -> int:
        """Where the next one begins."""
        return self.at + HEADER.size + ITEM_BYTES * self.items


def blocks(records: bytes | bytearray) -> Iterator[Block]:
    """The blocks of a trace in the order noted."""
    at, end = 0, len(records)
    while at < end:
        block = Block(at, *HEADER.unpack_from(records, at))
        yield block
        at = block.end


def ordinals_of(records: bytes | bytearray, block: Block) -> tuple[int, ...]:
    """The ordinals in their frame of the items of a block, ascending."""
    return struct.unpack_from(f"<{block.items}I", records, block.ordinals_at)


def only_block(records: bytes | bytearray, items: int) -> tuple[int, int, tuple[int, ...]] | None:
    """Segment and offset of the frame, and the ordinals in it, of a trace that came in one; None for none and several. `items`: how many it has."""
    if not items:
        return None
    segment, offset, _, count = HEADER.unpack_from(records)
    if count != items:
        return None
    return segment, offset, _ordinals(count).unpack_from(records, HEADER.size + 2 * ID_BYTES * count)


@lru_cache(maxsize=256)
def _ordinals(items: int) -> struct.Struct:
    return struct.Struct(f"<{items}I")


def ids_of(records: bytes | bytearray, block: Block) -> tuple[list[bytes], list[bytes]]:
    """Span ids and parent span ids of a block."""
    ids = [one for (one,) in _ID.iter_unpack(bytes(records[block.ids_at : block.ordinals_at]))]
    return ids[: block.items], ids[block.items :]


def flags_of(records: bytes | bytearray, block: Block) -> bytes:
    """The flags of a block's items, a byte each."""
    return bytes(records[block.flags_at : block.end])


@lru_cache(maxsize=256)
def _layout(items: int) -> struct.Struct:
    return struct.Struct("<4I" + "8s" * (2 * items) + f"{items}I{items}s")


class Columns:
    """The items of one frame, all of the same signal and at least one, with their ordinals in it. Made by `of`.

    `runs` says of each trace which items are its own: the first, and the one behind the last.
    """

    __slots__ = (
        "_ended",
        "_ends",
        "_log",
        "_markers",
        "_ordinals",
        "_parents",
        "_place",
        "_span_ids",
        "_starts",
        "runs",
    )

    def __init__(
        self, items: Sequence[tuple[int, Item]], signal: Signal, position: JournalPosition, received_at: float
    ) -> None:
        self._ordinals, rows = zip(*items, strict=True)
        trace_ids, self._span_ids, self._parents, self._starts, self._ends, _, markers, *_ = zip(*rows, strict=True)
        self.runs: list[tuple[bytes, int, int]] = []
        first = 0
        for trace_id, run in groupby(trace_ids):
            end = first + len([*run])
            self.runs.append((trace_id, first, end))
            first = end
        self._place = (position.segment, position.offset, min(max(0, math.ceil(received_at)), 2**32 - 1))
        self._log = signal is Signal.LOGS
        self._ended = not self._log and 0 not in self._ends and all(map(operator.le, self._starts, self._ends))
        self._markers = markers if True in markers else None

    @classmethod
    def of(
        cls, items: Sequence[tuple[int, Item]], signal: Signal, position: JournalPosition, received_at: float
    ) -> Columns:
        """Columns in which the items of each trace lie together, also where they lay across each other in the frame."""
        made = cls(items, signal, position, received_at)
        if len(made.runs) > 1 and len(made.runs) > len({trace_id for trace_id, _, _ in made.runs}):
            made = cls(sorted(items, key=lambda one: one[1].trace_id), signal, position, received_at)
        return made

    @property
    def log(self) -> bool:
        """Whether they are log records."""
        return self._log

    def records(self, first: int, end: int) -> bytes:
        """Those items as a block."""
        count = end - first
        return _layout(count).pack(
            *self._place, count, *self._span_ids[first:end], *self._parents[first:end], *self._ordinals[first:end], self._flags(first, end)
        )  # fmt: skip

    def _flags(self, first: int, end: int) -> bytes:
        if self._ended:
            return b"\1" * (end - first)
        if self._log:
            return bytes([LOG]) * (end - first)
        times = zip(self._starts[first:end], self._ends[first:end], strict=True)
        return bytes([ENDED if stop and stop >= start else 0 for start, stop in times])

    def complete(self, first: int, end: int) -> bool | None:
        """`is_complete` of those items alone, by a shorter way where all of the frame have ended; else None, for not looked for."""
        if not self._ended:
            return None
        missing = {*self._parents[first:end]}
        missing.difference_update(self._span_ids[first:end])
        return missing == _ROOT

    def end_marker(self, first: int, end: int) -> bool:
        """Whether one of those items marks the end of its trace."""
        return self._markers is not None and True in self._markers[first:end]


_ROOT = {b""}
