"""The journal: what was acknowledged survives any crash. One committer thread, one fdatasync for all that wait.

Requests are appended as frames to numbered segment files. Segment numbers never go back, also when the folder was emptied, because
the store remembers positions: a number is the second in which its segment was begun, or the next free one.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue

from collectors.sink import Overloaded, Signal
from monitor.clock import Clock
from monitor.intake.faults import JournalUnwritable
from monitor.intake.frames import Damage, Frame, frame_parts
from monitor.intake.segment import FolderLock, SegmentWriter
from monitor.intake.segments import Segments
from monitor.model.run import JournalPosition

logger = logging.getLogger(__name__)

SEGMENT_BYTES = 64 * 1024**2
MAX_BYTES = 10 * 1024**3
BATCH_BYTES = 32 * 1024**2
PROBE_SECONDS = 1.0
RESERVE_BYTES = 128 * 1024**2
RESERVE_SHARE = 0.02
"""So much of the disk, the smaller of both, is left to the store: what has settled must get out of a journal that has filled the disk."""

Noted = Callable[[JournalPosition], None]
"""Called on the committer thread for each durable frame, in journal order, before its future resolves."""

Told = Callable[[str], None]
"""Called with the kind of a fault when it begins, and of each damage that the replay finds (FaultKind, DamageKind). From any thread."""


def _nobody(_: str) -> None:
    """Nobody counts."""


@dataclass(frozen=True, slots=True)
class _Request:
    """A frame that waits to be made durable."""

    parts: tuple[bytes, bytes]
    length: int
    noted: Noted | None
    over_limit: bool
    future: Future[JournalPosition]


@dataclass(frozen=True, slots=True)
class _Order:
    """What the committer is told besides frames: to begin a fresh segment, or to stop."""

    stop: bool
    future: Future[None]


class Journal:
    """A durable, bounded, sequential spool of export requests in one folder, owned by one process.

    `append`, `read`, `size` and `fault` may be used from any thread; `replay` once, before the first `append`; `trim` from one
    thread. `fault` says why nothing can be written, None while all is well; it goes away by itself.
    """

    def __init__(
        self,
        folder: Path,
        clock: Clock,
        *,
        segment_bytes: int = SEGMENT_BYTES,
        max_bytes: int = MAX_BYTES,
        probe_seconds: float = PROBE_SECONDS,
        told: Told = _nobody,
    ) -> None:
        """Open the journal and begin a fresh segment. Raises JournalUnwritable when that cannot be done.

        While nothing can be written and nobody appends, it tries every `probe_seconds` whether the disk is back.
        """
        self.folder = folder
        self.max_bytes = max_bytes
        self.fault: JournalUnwritable | None = None
        self.damages: list[Damage] = []
        self._clock = clock
        self._told = told
        self._segment_bytes = segment_bytes
        self._probe_seconds = probe_seconds
        self._seed = int.from_bytes(os.urandom(4), "little")
        self._mutex = threading.Lock()
        self._queue: SimpleQueue[_Request | _Order] = SimpleQueue()
        self._pending_bytes = 0
        self._closed = False
        self._lock, self._segments, self._writer = self._open()
        self._first = self.active
        self._replayed = False
        self._committer = threading.Thread(target=self._run, name="journal", daemon=True)
        self._committer.start()

    def _open(self) -> tuple[FolderLock, Segments, SegmentWriter]:
        lock = None
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock = FolderLock(self.folder)
            segments = Segments(self.folder)
            return lock, segments, self._begin_segment(segments)
        except (OSError, JournalUnwritable) as error:
            if lock is not None:
                lock.release()
            if isinstance(error, OSError):
                raise JournalUnwritable.of(error, self.folder) from error
            raise

    def _begin_segment(self, segments: Segments) -> SegmentWriter:
        number = max(int(self._clock.now()), segments.last + 1)
        writer = SegmentWriter(self.folder, number, self._seed)
        segments.add(writer.file, writer.size)
        return writer

    def close(self) -> None:
        """Make durable what waits, then let the folder go. May be called twice."""
        with self._mutex:
            if self._closed:
                return
            self._closed = True
            self._queue.put(_Order(True, Future()))
        self._committer.join()
        self._writer.close()
        self._segments.close()
        self._lock.release()

    # -- appending -----------------------------------------------------------------------------------------------
    def append(
        self,
        body: bytes,
        signal: Signal,
        collector: str,
        received_at: float,
        *,
        kept_below: float = 1.0,
        noted: Noted | None = None,
        over_limit: bool = False,
    ) -> Future[JournalPosition]:
        """Append one request; the future resolves when it is durable, or fails with JournalUnwritable: then nothing of it is kept.

        Raises Overloaded at once when the journal is full of unsettled data (`over_limit` lets survivors of an old segment in)
        or closing.
        """
        parts = frame_parts(body, signal, collector, received_at, kept_below, self._seed)
        request = _Request(parts, len(parts[0]) + len(parts[1]), noted, over_limit, Future())
        request.future.set_running_or_notify_cancel()  # who stops waiting does not stop the write
        with self._mutex:
            self._admit(request.length, over_limit)
            self._pending_bytes += request.length
            self._queue.put(request)
        return request.future

    def _admit(self, length: int, over_limit: bool) -> None:
        if self._closed:
            raise Overloaded("the journal is closing")
        filled = self._segments.total + self._pending_bytes
        if filled + length > self.max_bytes and not over_limit:
            raise Overloaded(f"the journal is full of unsettled data: {filled} of {self.max_bytes} bytes", 3.0)

    def rotate(self) -> Future[None]:
        """Ask for a fresh segment, so that the present one can be trimmed. Nothing happens while that is empty, or when it cannot be made."""
        order = _Order(False, Future())
        with self._mutex:
            if self._closed:
                order.future.set_result(None)
            else:
                self._queue.put(order)
        return order.future

    # -- the committer ---------------------------------------------------------------------------------------------
    def _run(self) -> None:
        order = None
        while order is None or not order.stop:
            batch, order = self._gather()
            if batch:
                self._commit(batch)
            elif order is None:
                self._attempt(self._probe)
            if order is not None:
                if not order.stop and not self._writer.empty:
                    self._attempt(self._rotate)
                order.future.set_result(None)

    def _gather(self) -> tuple[list[_Request], _Order | None]:
        """All requests that wait (up to a size), and the order that came behind them. Both empty: time to probe after a fault."""
        batch: list[_Request] = []
        gathered = 0
        try:
            item = self._queue.get(timeout=self._probe_seconds if self.fault else None)
            while not isinstance(item, _Order):
                batch.append(item)
                gathered += item.length
                if gathered >= BATCH_BYTES:
                    return batch, None
                item = self._queue.get_nowait()
        except Empty:
            return batch, None
        return batch, item

    def _commit(self, batch: list[_Request]) -> None:
        """Write a batch with one sync. All its frames lie in one segment, so a closed segment holds only frames that were noted."""
        fault = self._attempt(lambda: self._write(batch))
        with self._mutex:
            self._pending_bytes -= sum(request.length for request in batch)
            self._segments.resize(self.active, self._writer.size)
        if fault is None:
            self._tell(batch)
        else:
            for request in batch:
                request.future.set_exception(fault)

    def _tell(self, batch: list[_Request]) -> None:
        """Tell that frames are durable: first to who keeps the order, then to who waits, all at once so that few wake-ups do."""
        offset = self._writer.size - sum(request.length for request in batch)
        told = []
        for request in batch:
            position = JournalPosition(self.active, offset)
            told.append((request.future, position, _note(request, position)))
            offset += request.length
        for future, position, error in told:
            if error is None:
                future.set_result(position)
            else:
                future.set_exception(error)

    def _write(self, batch: list[_Request]) -> None:
        self._make_ready()
        if not all(request.over_limit for request in batch):
            self._writer.leave_room(sum(request.length for request in batch), RESERVE_BYTES, RESERVE_SHARE)
        self._writer.append([part for request in batch for part in request.parts])

    def _make_ready(self) -> None:
        """Truncate a failed frame away before anything else, and go on in a fresh segment where the present one is full or failed."""
        failed = self._writer.torn
        if failed:
            self._writer.cut()
        full = self._writer.size >= self._segment_bytes
        if self._writer.spoiled or full or (failed and not self._writer.empty):
            self._rotate()

    def _rotate(self) -> None:
        fresh = self._begin_segment(self._segments)
        self._writer.close()
        self._writer = fresh

    def _probe(self) -> None:
        self._make_ready()
        self._writer.leave_room(0, RESERVE_BYTES, RESERVE_SHARE)
        self._writer.probe()

    def _attempt(self, action: Callable[[], None]) -> JournalUnwritable | None:
        """Do something on disk; a fault is remembered until something succeeds."""
        try:
            action()
        except Exception as error:  # whatever happens, who waits gets an answer and the committer lives
            cause = error if isinstance(error, OSError) else OSError(0, type(error).__name__)
            fault = JournalUnwritable.of(cause, self.folder)
            if self.fault is None or self.fault.kind is not fault.kind:
                logger.error("%s", fault)
                self._told(fault.kind.value)
            self.fault = fault
            return fault
        if self.fault is not None:
            logger.info("journal folder %s can be written again", self.folder)
        self.fault = None
        return None

    # -- reading and trimming ----------------------------------------------------------------------------------------
    @property
    def size(self) -> int:
        """Bytes on disk."""
        return self._segments.total

    @property
    def fullness(self) -> float:
        """How much of `max_bytes` is used, by what is on disk and what waits to be written."""
        return (self._segments.total + self._pending_bytes) / self.max_bytes

    @property
    def active(self) -> int:
        """Number of the segment that is being written; those below are closed."""
        return self._writer.file.number

    def segments(self) -> dict[int, int]:
        """Segment numbers with their sizes in bytes, oldest first."""
        return self._segments.sizes()

    def begun_at(self, segment: int) -> float:
        """When a segment was begun, seconds since 1970-01-01Z."""
        return float(segment)

    def read(self, position: JournalPosition) -> Frame:
        """The frame at a position. Raises FrameUnreadable when it is gone or damaged, JournalUnwritable when it cannot be read now."""
        return self._segments.read(position)

    def replay(self) -> Iterator[Frame]:
        """Every frame that earlier processes left, in journal order. Torn tails are cut; all damage is logged and in `damages`.

        Nothing is trimmed before the iteration has come to its end.
        """
        yield from self.frames(JournalPosition(0, 0), self.earlier_until)
        self.serve()

    @property
    def earlier_until(self) -> JournalPosition:
        """Where what earlier processes left ends; no frame lies there."""
        return JournalPosition(self._first, 0)

    def frames(self, start: JournalPosition, last: JournalPosition, *, again: bool = False) -> Iterator[Frame]:
        """Every frame from `start`, where one begins, to the one at `last`, in journal order; what is found damaged is treated as by `replay`.

        `again`: they are read another time, so damage is only logged.
        """

        def damaged(damage: Damage) -> None:
            if not again:
                self.damages.append(damage)
                self._told(damage.kind.value)

        yield from self._segments.scan(start, last, self._first, damaged)

    def highest_rate(self, start: JournalPosition, last: JournalPosition) -> float:
        """The highest `kept_below` of the frames from `start`, where one begins, to the one at `last`; 1.0 where that cannot be told."""
        return self._segments.highest_rate(start, last)

    def serve(self) -> None:
        """What is needed of earlier processes' segments is known from now on: others may be trimmed."""
        self._replayed = True

    def trim(self, needed: Collection[int], before: int | None = None) -> int:
        """Delete every closed segment whose number is not in `needed`; the bytes freed. Only those below `before` where that is given: what was
        `active` when it was asked what is needed, since one that was closed meanwhile may hold what came meanwhile.
        """
        if not self._replayed:
            return 0
        end = self.active if before is None else before
        return self._segments.delete([n for n in self._segments.sizes() if n < end and n not in needed])


def _note(request: _Request, position: JournalPosition) -> Exception | None:
    """Tell who keeps the order that a frame is durable; returns why that could not be done."""
    try:
        if request.noted is not None:
            request.noted(position)
    except Exception as error:  # a fault of ours: the frame is durable, the sender may send it again
        logger.error("a durable frame could not be noted: %s", type(error).__name__)
        return error
    return None
