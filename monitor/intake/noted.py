"""What goes into the index of open traces and comes out of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from collectors.immutable import immutable
from collectors.otlp.request import Item
from collectors.sink import Signal
from monitor.intake.opentrace import OpenTrace
from monitor.model.invocation import SettledBy
from monitor.model.run import JournalPosition


@immutable(frozen=True, slots=True)
class Arrival:
    """Items of one frame as they are noted: ordinals with their items, all of the same signal."""

    position: JournalPosition
    signal: Signal
    collector: str
    received_at: float
    kept_below: float
    items: Sequence[tuple[int, Item]]


@immutable(frozen=True, slots=True)
class Taken:
    """A trace that is being settled: out of the index, but its segments are still needed."""

    trace_id: bytes
    trace: OpenTrace
    settled_by: SettledBy


@dataclass(frozen=True, slots=True)
class DueTraces:
    """Traces that settle now, and incomplete ones of which the store may know an earlier settlement. `more`: there are others due.

    `open` are traces that stay open, in which an invocation may be over.
    """

    taken: tuple[Taken, ...] = ()
    unknown: tuple[bytes, ...] = ()
    open: tuple[bytes, ...] = ()
    more: bool = False


@dataclass(frozen=True, slots=True)
class Survivor:
    """Items of an open trace in a frame of an old segment: which trace, where in its records, and their ordinals in the frame."""

    trace_id: bytes
    at: int
    ordinals: tuple[int, ...]
