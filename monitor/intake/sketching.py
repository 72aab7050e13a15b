"""The settlement of a trace of which only the head is read (`assembly.sketch`); most traces of agents, and all that are no agents'."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from collectors.otlp.request import RawItem, RawItems
from collectors.sink import MalformedRequest, Signal
from monitor.assembly import AssemblyContext
from monitor.assembly.sketch import sketch
from monitor.intake import stored_spans
from monitor.intake.faults import FrameUnreadable
from monitor.intake.index import Taken
from monitor.intake.material import FrameCache
from monitor.intake.options import SettlementOptions
from monitor.intake.privacy import Dropped, scrub
from monitor.intake.settlement import Settled, read_until
from monitor.model.origin import collector_of
from monitor.model.run import InvocationChange, JournalPosition


class Head(NamedTuple):
    """A taken trace, and its settlement by the head of its invocation."""

    taken: Taken
    settled: Settled

    @property
    def size(self) -> int:
        """Bytes that it holds."""
        return len(self.settled.settlement.spans or b"")


def sketched(
    taken: Taken,
    frames: FrameCache,
    dropped: Dropped | None,
    options: SettlementOptions,
    now: float,
    *,
    behind: bool = False,
) -> Head | None:
    """The settlement of a trace that was never stored; None where it takes the whole assembly, or a frame cannot be read.

    `behind`: more traces wait than are settled at once, so time counts for more than bytes.
    """
    if not options.heads_first or taken.trace.has_logs:
        return None
    try:
        places = taken.trace.frames()
        parts = _parts(places, frames, dropped)
    except (FrameUnreadable, MalformedRequest):
        return None
    spans = parts[0][1] if len(parts) == 1 else [one for _, chosen in parts for one in chosen]
    context = AssemblyContext(taken.settled_by, collector_of(taken.trace.collector))
    found = sketch(spans, taken.trace_id.hex(), context, frames.blanks)
    if found is None:
        return None
    pieces = [piece for items, chosen in parts for piece in items.pieces(chosen)] if found else []
    blob = stored_spans.pack_pieces(pieces, quickly=behind) if found else None
    for position, ordinals in places.items():
        frames.settled(position, len(ordinals))
    changes = tuple([InvocationChange(one.invocation, one.span_ids, "", assembled=False) for one in found])
    last = next(reversed(places))
    told = read_until(taken, JournalPosition(last.segment, last.offset + 1), options, now, len(spans), changes, blob)
    return Head(taken, Settled(told, len(spans)))


def _parts(
    places: Mapping[JournalPosition, list[int]], frames: FrameCache, dropped: Dropped | None
) -> list[tuple[RawItems, list[RawItem]]]:
    """A trace's items, frame by frame, without dropped attributes."""
    parts: list[tuple[RawItems, list[RawItem]]] = []
    for position, ordinals in places.items():
        items = frames.read(position).items
        chosen = [items.items[ordinal] for ordinal in ordinals]
        if dropped is not None:
            items = RawItems(scrub(items.request(chosen), Signal.TRACES, dropped), Signal.TRACES)
            chosen = items.items
        parts.append((items, chosen))
    return parts
