"""What earlier processes left in the journal is indexed again, without what the store has already consumed."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping

from collectors.otlp.request import Request, split
from collectors.sink import MalformedRequest
from monitor.intake.frames import DamageKind, Frame
from monitor.intake.index import Arrival, Index
from monitor.intake.journal import Journal
from monitor.model.run import JournalPosition
from monitor.telemetry import DropReason, Telemetry

_BYTES_AT_ONCE = 16 * 1024**2  # frames looked up in the store together

Consumed = Callable[[Collection[str]], Mapping[str, JournalPosition]]
"""`Store.consumed_positions`."""


def replay(journal: Journal, index: Index, telemetry: Telemetry, consumed: Consumed, now: float = math.inf) -> int:
    """Index what is left; the number of spans and log records. Once, after opening the journal and before anything is accepted.

    What seems to have come later than `now`, because the clock was put back since, came now.
    """
    count = 0
    waiting: list[tuple[Frame, Request]] = []
    held = 0
    for frame in journal.replay():
        try:
            waiting.append((frame, split(frame.body, frame.signal)))
        except MalformedRequest:  # not what we wrote: the format of the signal has changed
            telemetry.spans_dropped.labels(DropReason.UNREADABLE).inc()
        held += len(frame.body)
        if held >= _BYTES_AT_ONCE:
            count += _index(waiting, index, consumed, now)
            waiting, held = [], 0
    count += _index(waiting, index, consumed, now)
    corrupt = sum(damage.kind is DamageKind.CORRUPT for damage in journal.damages)
    telemetry.spans_dropped.labels(DropReason.UNREADABLE).inc(
        corrupt
    )  # how many spans lay there is not known: at least one each
    return count


def _index(frames: list[tuple[Frame, Request]], index: Index, consumed: Consumed, now: float) -> int:
    ids = {item.trace_id.hex() for _, request in frames for item in request.items}
    until = {bytes.fromhex(trace_id): position for trace_id, position in consumed(ids).items()} if ids else {}
    count = 0
    for frame, request in frames:
        left = [
            (ordinal, item)
            for ordinal, item in enumerate(request.items)
            if item.trace_id not in until or not frame.position < until[item.trace_id]
        ]
        if left:
            index.note(
                Arrival(
                    frame.position, frame.signal, frame.collector, min(frame.received_at, now), frame.kept_below, left
                )
            )
        count += len(left)
    return count
