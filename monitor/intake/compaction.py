"""One long-open trace must not pin gigabytes: what is still needed of an old segment is written anew, then the segment can go."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial

from collectors.otlp.request import select
from collectors.sink import MalformedRequest, Overloaded
from monitor.intake.faults import FrameUnreadable, JournalUnwritable
from monitor.intake.frames import Frame
from monitor.intake.index import Index, Survivor
from monitor.intake.journal import Journal
from monitor.model.run import JournalPosition


@dataclass(frozen=True, slots=True)
class _Move:
    """The surviving items of one frame: the request with only those, and their new ordinals by the old ones."""

    frame: Frame
    survivors: Sequence[Survivor]
    body: bytes
    ordinals: dict[int, int]


def rewrite_survivors(journal: Journal, index: Index, segment: int, max_bytes: int | None = None) -> bool:
    """Write the open items of a closed segment to the end of the journal, durably; True when none is left in it.

    Does nothing when they are larger than `max_bytes`. A crash on the way leaves copies, which are told at assembly. Called by the
    settler, while nothing is being settled. Nothing is moved while frames are parked, nor is any parked meanwhile: what lies behind them
    would be read again as if it had come then, and what the store has read of a trace would seem to reach past them.
    """
    with index.all_indexed() as may_move:
        return may_move and _rewrite(journal, index, segment, max_bytes)


def _rewrite(journal: Journal, index: Index, segment: int, max_bytes: int | None) -> bool:
    moves: list[_Move] = []
    total = 0
    for offset, survivors in index.survivors(segment).items():
        try:
            frame = journal.read(JournalPosition(segment, offset))
            ordinals = sorted({ordinal for survivor in survivors for ordinal in survivor.ordinals})
            body = select(frame.body, frame.signal, ordinals)
        except (FrameUnreadable, MalformedRequest):
            continue  # told when its traces settle
        except JournalUnwritable:
            return False
        total += len(body)
        if max_bytes is not None and total > max_bytes:
            return False
        moves.append(_Move(frame, survivors, body, {old: new for new, old in enumerate(ordinals)}))
    return _append_all(journal, index, moves) and segment not in index.live_segments


def _append_all(journal: Journal, index: Index, moves: Sequence[_Move]) -> bool:
    futures: list[Future[JournalPosition]] = []
    try:
        for move in moves:
            frame = move.frame
            noted = partial(_move, index, move)
            futures.append(
                journal.append(
                    move.body,
                    frame.signal,
                    frame.collector,
                    frame.received_at,
                    kept_below=frame.kept_below,
                    noted=noted,
                    over_limit=True,
                )
            )
    except Overloaded:
        pass  # closing: what has been appended is waited for all the same
    written = [future.exception() is None for future in futures]
    return all(written) and len(written) == len(moves)


def _move(index: Index, move: _Move, position: JournalPosition) -> None:
    index.move(move.survivors, move.frame.position.segment, position, move.ordinals)
