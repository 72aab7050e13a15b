"""The raw spans and log records of a settled trace as one blob, kept for late data.

One codec byte, then the length of the traces request (4 bytes, big-endian), that request, and the logs request, both OTLP protobuf;
compressed by zlib in codec 1, by zstd in codecs 2 (both of earlier versions) and 3, which the store keeps without a codec byte of its own.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence

from monitor.compression import FAULTS, compressed, decompressed

_ZLIB, _ZSTD_2, _ZSTD = b"\x01", b"\x02", b"\x03"


class UnknownCodec(ValueError):
    """The blob was written by a version that knows another codec."""


def pack(traces: bytes, logs: bytes) -> bytes:
    """The blob of two export requests, either of which may be empty."""
    return _ZSTD + compressed(b"".join((len(traces).to_bytes(4, "big"), traces, logs)))


def pack_pieces(traces: Sequence[bytes], *, quickly: bool = False) -> bytes:
    """The blob of one export request of traces, given in pieces, each of which is copied once; `quickly`: it may be larger."""
    return _ZSTD + compressed(b"".join((sum(map(len, traces)).to_bytes(4, "big"), *traces)), quickly=quickly)


def unpack(blob: bytes) -> tuple[bytes, bytes]:
    """The traces and the logs request of a blob. Raises UnknownCodec, also for a blob that is damaged."""
    codec, body = blob[:1], blob[1:]
    if codec not in (_ZLIB, _ZSTD_2, _ZSTD):
        raise UnknownCodec(f"stored spans of codec {codec.hex() or 'none'} cannot be read")
    try:
        data = zlib.decompress(body) if codec == _ZLIB else decompressed(body)
    except (zlib.error, *FAULTS) as error:
        raise UnknownCodec("stored spans are damaged") from error
    length = int.from_bytes(data[:4], "big")
    return data[4 : 4 + length], data[4 + length :]
