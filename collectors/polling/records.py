"""Records of a file of OTLP: JSON lines, or records with their length in front; plain, gzip or zstd.

The Collector's file exporter writes JSON lines; with `format: proto`, and with its own compression, it writes each record with a 4-byte big-endian
length in front. What is compressed as a whole was rotated by someone else. The format is told by the first bytes.
"""

from __future__ import annotations

import gzip
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_LENGTH = struct.Struct(">I")
_LONGEST_LENGTH_BYTE = 8
"""Records are shorter than 128 MiB, so a length begins with a byte that no JSON text begins with."""
_CHUNK = 256 * 1024


class Damaged(Exception):
    """The file cannot be read on; the message says why."""


@dataclass(frozen=True, slots=True)
class Record:
    """One record and the offset behind it in the decompressed file. `body` is None for one that is larger than the limit."""

    body: bytes | None
    end: int


def open_plain(path: Path) -> IO[bytes]:
    """The file, decompressed as it is read. Raises OSError, and Damaged without zstd."""
    with path.open("rb") as stream:
        magic = stream.read(4)
    if magic[:2] == _GZIP:
        return cast("IO[bytes]", gzip.open(path))
    if magic == _ZSTD:
        return cast("IO[bytes]", _zstd().open(path))
    return path.open("rb")


def records(stream: IO[bytes], offset: int, longest: int) -> Iterator[Record]:
    """Whole records from an offset on; what is not yet whole at the end waits. Raises Damaged."""
    try:
        stream.seek(0)
        framed = _is_framed(stream.read(1))
        stream.seek(offset)
        yield from _framed(stream, offset, longest) if framed else _lines(stream, offset, longest)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise Damaged("the compressed data are cut or damaged") from error
    except Exception as error:
        if type(error).__name__ == "ZstdError":
            raise Damaged("the compressed data are cut or damaged") from error
        raise


def _is_framed(first: bytes) -> bool:
    return bool(first) and first[0] < _LONGEST_LENGTH_BYTE


def _lines(stream: IO[bytes], at: int, longest: int) -> Iterator[Record]:
    held, too_long = bytearray(), False
    while chunk := stream.read(_CHUNK):
        begin = 0
        while (end := chunk.find(b"\n", begin)) >= 0:
            held += chunk[begin:end]
            at += end - begin + 1
            whole = None if too_long or len(held) > longest else bytes(held)
            yield Record(whole, at)
            held.clear()
            too_long, begin = False, end + 1
        held += chunk[begin:]
        at += len(chunk) - begin
        if len(held) > longest:
            too_long = True
            held.clear()


def _framed(stream: IO[bytes], at: int, longest: int) -> Iterator[Record]:
    while len(head := stream.read(_LENGTH.size)) == _LENGTH.size:
        (length,) = _LENGTH.unpack(head)
        if length > longest:
            if len(stream.read(length)) < length:
                return
            at += _LENGTH.size + length
            yield Record(None, at)
            continue
        body = stream.read(length)
        if len(body) < length:
            return
        at += _LENGTH.size + length
        yield Record(_unpacked(body), at)


def _unpacked(body: bytes) -> bytes:
    """A record that the exporter compressed by itself."""
    if body[:4] != _ZSTD:
        return body
    return bytes(_zstd().decompress(body))


def _zstd() -> Any:
    """Python's zstd module, or its backport."""
    import importlib

    for name in ("compression.zstd", "backports.zstd"):
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    raise Damaged("is zstd data, which this Python cannot read: install backports.zstd")
