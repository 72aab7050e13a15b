"""The segments of a journal's folder: which there are, how large, reading frames from them and deleting them."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from monitor.intake.faults import FaultKind, FrameUnreadable, JournalUnwritable, may_pass
from monitor.intake.frames import (
    FORMAT_VERSION,
    SEGMENT_HEADER,
    Damage,
    DamageKind,
    Frame,
    highest_rate,
    read_frame,
    scan,
    segment_version,
)
from monitor.intake.segment import SegmentFile, list_segments, sync_folder
from monitor.model.run import JournalPosition

logger = logging.getLogger(__name__)

_OPEN_READERS = 64


class Segments:
    """All segments of one folder. Thread-safe; sizes are bytes on disk."""

    def __init__(self, folder: Path) -> None:
        """Take stock. Raises OSError, and JournalUnwritable for a segment of a newer format."""
        self._folder = folder
        self._files: dict[int, SegmentFile] = {}
        self._sizes: dict[int, int] = {}
        self._total = 0
        self._readers: OrderedDict[int, BinaryIO] = OrderedDict()
        self._mutex = threading.Lock()
        self._reading = threading.Lock()
        for segment in list_segments(folder):
            _check_version(segment)
            self.add(segment, segment.path.stat().st_size)

    def add(self, segment: SegmentFile, size: int) -> None:
        """A segment has been begun."""
        with self._mutex:
            self._files[segment.number] = segment
            self._total += size - self._sizes.get(segment.number, 0)
            self._sizes[segment.number] = size

    def resize(self, number: int, size: int) -> None:
        """A segment has grown or was cut."""
        with self._mutex:
            self._total += size - self._sizes[number]
            self._sizes[number] = size

    @property
    def last(self) -> int:
        """The highest number, -1 without any."""
        with self._mutex:
            return max(self._files, default=-1)

    @property
    def total(self) -> int:
        """Bytes of all segments."""
        return self._total

    def sizes(self) -> dict[int, int]:
        """Segment numbers with their sizes, oldest first."""
        with self._mutex:
            return dict(sorted(self._sizes.items()))

    def read(self, position: JournalPosition) -> Frame:
        """The frame at a position. Raises FrameUnreadable when it is gone or damaged, JournalUnwritable when it cannot be read now."""
        place = f"journal segment {position.segment} offset {position.offset}"
        with self._reading:
            try:
                reader = self._reader(position.segment)
                frame = read_frame(reader, position.segment, position.offset, self._files[position.segment].seed)
            except (KeyError, OSError) as error:
                if isinstance(error, OSError) and may_pass(error):
                    raise JournalUnwritable.of(error, self._folder) from error
                raise FrameUnreadable(f"{place}: {type(error).__name__}") from error
        if frame is None:
            raise FrameUnreadable(f"{place}: no intact frame there")
        return frame

    def _reader(self, segment: int) -> BinaryIO:
        """An unbuffered reader: a buffer could keep bytes that are cut away after a failed write."""
        reader = self._readers.pop(segment, None) or self._files[segment].path.open("rb", buffering=0)
        self._readers[segment] = reader
        if len(self._readers) > _OPEN_READERS:
            self._readers.popitem(last=False)[1].close()
        return reader

    def scan(
        self, start: JournalPosition, last: JournalPosition, earlier: int, damaged: Callable[[Damage], None]
    ) -> Iterator[Frame]:
        """Every frame from `start` to the one at `last`, in journal order. All damage is logged and reported; torn tails of segments below
        `earlier`, which an earlier process wrote, are cut. Raises JournalUnwritable when a segment may not be read, or not now.
        """
        for segment in self._between(start, last):
            begin = start.offset if segment.number == start.segment else 0
            try:
                for frame in self._scan(segment, begin, segment.number < earlier, damaged):
                    if last < frame.position:
                        return
                    yield frame
            except OSError as error:
                if isinstance(error, PermissionError) or may_pass(error):
                    raise JournalUnwritable.of(error, self._folder) from error
                logger.error("journal %s cannot be read: %s", segment.path, error.strerror)
                damaged(Damage(DamageKind.CORRUPT, segment.number, 0, self._sizes[segment.number]))

    def _between(self, start: JournalPosition, last: JournalPosition) -> list[SegmentFile]:
        with self._mutex:
            return [self._files[number] for number in sorted(self._files) if start.segment <= number <= last.segment]

    def _scan(
        self, segment: SegmentFile, start: int, earlier: bool, damaged: Callable[[Damage], None]
    ) -> Iterator[Frame]:
        with segment.path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size if earlier else self._sizes[segment.number]
            for found in scan(file, size, segment.number, segment.seed, start):
                if isinstance(found, Frame):
                    yield found
                else:
                    self._handle(segment, found, earlier)
                    damaged(found)

    def highest_rate(self, start: JournalPosition, last: JournalPosition) -> float:
        """The highest `kept_below` of the frames from `start` to `last`, by their headers alone; 1.0 where that cannot be told."""
        highest = 0.0
        for segment in self._between(start, last):
            try:
                with segment.path.open("rb") as file:
                    begin = start.offset if segment.number == start.segment else 0
                    highest = max(highest, highest_rate(file, self._sizes[segment.number], segment.seed, begin))
            except OSError:
                return 1.0
        return highest

    def _handle(self, segment: SegmentFile, damage: Damage, earlier: bool) -> None:
        if damage.kind is not DamageKind.TORN_TAIL or not earlier:
            logger.error("journal damage in %s: %s; what lies there is lost", segment.path, damage)
            return
        logger.warning("journal %s: %s, cut: a write that was not finished", segment.path, damage)
        with contextlib.suppress(OSError):
            os.truncate(segment.path, damage.offset)
            self.resize(segment.number, damage.offset)

    def delete(self, numbers: list[int]) -> int:
        """Delete segments; the bytes freed. One that cannot be deleted stays."""
        freed = sum(self._delete(number) for number in numbers)
        if numbers:
            with contextlib.suppress(OSError):
                sync_folder(self._folder)
        return freed

    def _delete(self, number: int) -> int:
        with self._reading:
            reader = self._readers.pop(number, None)
            if reader is not None:
                reader.close()
            try:
                self._files[number].path.unlink(missing_ok=True)
            except OSError:
                return 0
            with self._mutex:
                del self._files[number]
                freed = self._sizes.pop(number)
                self._total -= freed
                return freed

    def close(self) -> None:
        """Close all readers."""
        with self._reading:
            for reader in self._readers.values():
                reader.close()
            self._readers.clear()


def _check_version(segment: SegmentFile) -> None:
    with segment.path.open("rb") as file:
        version = segment_version(file.read(SEGMENT_HEADER.size))
    if version is not None and version > FORMAT_VERSION:
        message = f"{segment.path} was written by a newer rubricd (journal format {version}, this one reads "
        raise JournalUnwritable(FaultKind.NEWER_FORMAT, message + f"{FORMAT_VERSION}): run the newer version")
