"""The bytes of the journal: segment headers and frames, and how they are found again after damage.

A segment is `SEGMENT_HEADER` followed by frames. A frame is `FRAME_HEADER`, the collector's name, the body. All checksums
start from the segment's random seed, which also stands in the file name: bytes of a journal that arrive inside a
request body can never pass for a frame, and a damaged segment header costs no frame. Integers are little-endian.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import BinaryIO

from collectors.deflate import crc32
from collectors.sink import Signal
from monitor.model.run import JournalPosition

FORMAT_VERSION = 1
SEGMENT_MAGIC = b"RUBRICDJ"
FRAME_MAGIC = b"\xf5RJF"  # 0xf5 never occurs in UTF-8
SEGMENT_HEADER = struct.Struct("<8sHHIQI")  # magic, version, unused, seed, segment number, crc32 of what stands before
FRAME_HEADER = struct.Struct("<4sIIIddBBH")
"""Magic, crc32 of the rest of the header and the name, body length, crc32 of the body, received_at and kept_below
(seconds since 1970-01-01Z; share), signal, unused, length of the collector's name."""

_CHECKED_FROM = 8  # magic and the checksum itself are not part of the header's checksum
_SIGNALS = (Signal.TRACES, Signal.LOGS)


@dataclass(frozen=True, slots=True)
class Frame:
    """One export request in the journal. `received_at` is seconds since 1970-01-01Z; `end` is the offset behind the frame.

    `kept_below` is the rate of the early drop that was in force when it was taken, 1.0 without.
    """

    position: JournalPosition
    end: int
    signal: Signal
    collector: str
    received_at: float
    kept_below: float
    body: bytes


class DamageKind(StrEnum):
    """What was found instead of a frame."""

    TORN_TAIL = "torn_tail"
    CORRUPT = "corrupt"
    SEGMENT_HEADER = "segment_header"


@dataclass(frozen=True, slots=True)
class Damage:
    """Bytes of a segment that hold no readable frame: a write that a crash tore, or corruption."""

    kind: DamageKind
    segment: int
    offset: int
    length: int

    def __str__(self) -> str:
        return f"segment {self.segment}: {self.length} bytes at offset {self.offset}: {self.kind.value}"


def said_of(damages: Sequence[Damage]) -> str:
    """What was damaged, for people; empty where only writes were torn, which a crash does and nobody had been told of."""
    lost = [damage for damage in damages if damage.kind is not DamageKind.TORN_TAIL]
    return f"{len(lost)} places were damaged at the start; the first is {lost[0]}" if lost else ""


def segment_header(number: int, seed: int) -> bytes:
    """The first bytes of a segment."""
    head = SEGMENT_HEADER.pack(SEGMENT_MAGIC, FORMAT_VERSION, 0, seed, number, 0)[:-4]
    return head + crc32(head, 0).to_bytes(4, "little")


def segment_version(header: bytes) -> int | None:
    """The format version of an intact segment header, None for anything else."""
    if len(header) < SEGMENT_HEADER.size:
        return None
    magic, version, *_, crc = SEGMENT_HEADER.unpack(header[: SEGMENT_HEADER.size])
    intact = magic == SEGMENT_MAGIC and crc32(header[: SEGMENT_HEADER.size - 4], 0) == crc
    return int(version) if intact else None


def frame_parts(
    body: bytes, signal: Signal, collector: str, received_at: float, kept_below: float, seed: int
) -> tuple[bytes, bytes]:
    """Header (with the collector's name) and body of a frame, as they are written one after the other."""
    name = collector.encode()
    crc = crc32(body, seed)
    kind = _SIGNALS.index(signal)
    head = FRAME_HEADER.pack(FRAME_MAGIC, 0, len(body), crc, received_at, kept_below, kind, 0, len(name)) + name
    check = crc32(head[_CHECKED_FROM:], seed)
    return head[:4] + check.to_bytes(4, "little") + head[8:], body


@dataclass(frozen=True, slots=True)
class _Header:
    """A frame header whose checksum held; `body_at` is relative to the frame's start."""

    signal: Signal
    collector: str
    received_at: float
    kept_below: float
    body_at: int
    body_length: int
    body_crc: int

    @property
    def length(self) -> int:
        return self.body_at + self.body_length


def read_frame(file: BinaryIO, segment: int, offset: int, seed: int) -> Frame | None:
    """The frame at that offset of the segment, or None when no intact frame starts there."""
    header = _read_header(file, offset, seed)
    if header is None:
        return None
    body = file.read(header.body_length)
    if len(body) != header.body_length or crc32(body, seed) != header.body_crc:
        return None
    return Frame(
        JournalPosition(segment, offset),
        offset + header.length,
        header.signal,
        header.collector,
        header.received_at,
        header.kept_below,
        body,
    )


def _read_header(file: BinaryIO, offset: int, seed: int) -> _Header | None:
    file.seek(offset)
    fixed = file.read(FRAME_HEADER.size)
    if len(fixed) < FRAME_HEADER.size or fixed[:4] != FRAME_MAGIC:
        return None
    _, check, body_length, body_crc, received_at, kept_below, kind, _, name_length = FRAME_HEADER.unpack(fixed)
    name = file.read(name_length)
    if crc32(fixed[_CHECKED_FROM:] + name, seed) != check or kind >= len(_SIGNALS):
        return None
    at = FRAME_HEADER.size + name_length
    return _Header(_SIGNALS[kind], name.decode(), received_at, kept_below, at, body_length, body_crc)


def scan(file: BinaryIO, size: int, segment: int, seed: int, start: int = 0) -> Iterator[Frame | Damage]:
    """Every frame of a segment in order, and what lies between them. Damage that reaches the end of the segment is a torn tail.

    `start` is 0 or where a frame begins.
    """
    file.seek(0)
    if not start and 0 < size < SEGMENT_HEADER.size:
        yield Damage(DamageKind.TORN_TAIL, segment, 0, size)
    elif not start and size and segment_version(file.read(SEGMENT_HEADER.size)) is None:
        yield Damage(DamageKind.SEGMENT_HEADER, segment, 0, SEGMENT_HEADER.size)
    offset = max(start, SEGMENT_HEADER.size)
    while offset < size:
        frame = read_frame(file, segment, offset, seed)
        if frame is not None:
            yield frame
            offset = frame.end
            continue
        following = _next_frame(file, size, segment, offset, seed)
        kind = DamageKind.TORN_TAIL if following == size else DamageKind.CORRUPT
        yield Damage(kind, segment, offset, following - offset)
        offset = following


def highest_rate(file: BinaryIO, size: int, seed: int, start: int = 0) -> float:
    """The highest `kept_below` of a segment's frames, by their headers alone; 1.0 as soon as one says so, or cannot be read."""
    highest, offset = 0.0, max(start, SEGMENT_HEADER.size)
    while offset < size and highest < 1.0:
        header = _read_header(file, offset, seed)
        highest = max(highest, 1.0 if header is None else header.kept_below)
        offset += size if header is None else header.length
    return highest


def _next_frame(file: BinaryIO, size: int, segment: int, offset: int, seed: int) -> int:
    """Where the next intact frame starts behind the damage at `offset`, or the size of the segment.

    An intact header tells how long its damaged body is; otherwise the magic is searched for.
    """
    header = _read_header(file, offset, seed)
    start = offset + (header.length if header is not None and offset + header.length <= size else 1)
    if header is not None and _read_header(file, start, seed) is not None:
        return start  # though its frame may be torn: what lies before it was whole once
    file.seek(start)
    rest = file.read(size - start)
    at = rest.find(FRAME_MAGIC)
    while at >= 0:
        if read_frame(file, segment, start + at, seed) is not None:
            return start + at
        at = rest.find(FRAME_MAGIC, at + 1)
    return size
