"""The raw spans and log records of a settled trace as one blob, kept for late data.

One codec byte, then by codec. Codec 1: zlib over the length of the traces request (4 bytes, big-endian), that request, and the logs
request, both OTLP protobuf.
"""

from __future__ import annotations

import zlib

_ZLIB = b"\x01"
_LEVEL = 1  # the fastest: the blob is read only when late data comes


class UnknownCodec(ValueError):
    """The blob was written by a version that knows another codec."""


def pack(traces: bytes, logs: bytes) -> bytes:
    """The blob of two export requests, either of which may be empty."""
    return _ZLIB + zlib.compress(b"".join((len(traces).to_bytes(4, "big"), traces, logs)), _LEVEL)


def unpack(blob: bytes) -> tuple[bytes, bytes]:
    """The traces and the logs request of a blob. Raises UnknownCodec, also for a blob that is damaged."""
    if blob[:1] != _ZLIB:
        raise UnknownCodec(f"stored spans of codec {blob[:1].hex() or 'none'} cannot be read")
    try:
        data = zlib.decompress(blob[1:])
    except zlib.error as error:
        raise UnknownCodec("stored spans are damaged") from error
    length = int.from_bytes(data[:4], "big")
    return data[4 : 4 + length], data[4 + length :]
