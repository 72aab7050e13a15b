"""Request bodies: which encodings are understood, and unpacking that stops at the limit instead of measuring afterwards."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

from collectors.deflate import CODEC
from collectors.sink import Encoding, MalformedRequest

_CHUNK_BYTES = 1 << 20
_MAX_GZIP_MEMBERS = 100
_GZIP_BEGIN = b"\x1f\x8b"  # RFC 1952, section 2.3.1
_ENCODINGS = {
    "application/x-protobuf": Encoding.PROTOBUF,
    "application/protobuf": Encoding.PROTOBUF,
    "application/json": Encoding.JSON,
}


class Compression(StrEnum):
    """How a body is packed."""

    NONE = "identity"
    GZIP = "gzip"
    DEFLATE = "deflate"


_COMPRESSIONS = {
    "": Compression.NONE,
    "identity": Compression.NONE,
    "gzip": Compression.GZIP,
    "x-gzip": Compression.GZIP,
    "deflate": Compression.DEFLATE,
}
_WINDOW_BITS = {Compression.GZIP: 31, Compression.DEFLATE: 15}  # as zlib's manual has them


class TooLarge(Exception):
    """The body is larger than the limit, packed or unpacked. The message says the limit and where it is set."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"the request is larger than {limit} bytes (max_request_size): send smaller batches")


def encoding_of(content_type: str) -> Encoding | None:
    """The encoding that a Content-Type names, parameters left aside; None for one that OTLP does not have."""
    return _ENCODINGS.get(content_type.partition(";")[0].strip().lower())


def compression_of(content_encoding: str) -> Compression | None:
    """The compression that a Content-Encoding names; None for an unknown one, and for several on top of each other."""
    return _COMPRESSIONS.get(content_encoding.strip().lower())


def sniffed_compression(message: bytes) -> Compression:
    """The compression of a gRPC message by its first bytes: neither gzip's nor zlib's can begin an OTLP request.

    0x1f would be a field of wire type 7, which does not exist; 0x78 is field 15, which no export request has.
    """
    if message[:2] == _GZIP_BEGIN:
        return Compression.GZIP
    if message[:1] == b"\x78" and len(message) > 1 and int.from_bytes(message[:2]) % 31 == 0:
        return Compression.DEFLATE
    return Compression.NONE


def _unbounded(_: int) -> None:
    """Nobody counts."""


def unpack(body: bytes, compression: Compression, limit: int, grow: Callable[[int], None] = _unbounded) -> bytes:
    """The unpacked body, of at most `limit` bytes.

    `grow` is told of every piece before the next is unpacked and may stop it by raising. `deflate` is zlib's format (RFC 9110, 8.4.1.2).
    Raises TooLarge as soon as the limit is passed, MalformedRequest for data that are cut or are no such format.
    """
    if compression is Compression.NONE:
        if len(body) > limit:
            raise TooLarge(limit)
        return body
    unpacker = _Unpacker(limit, grow)
    try:
        unpacker.unpack(memoryview(body), compression)
    except CODEC.error:
        raise MalformedRequest(f"the body is no {compression} data") from None
    return b"".join(unpacker.pieces)


class _Unpacker:
    """Unpacks piece by piece and counts."""

    def __init__(self, limit: int, grow: Callable[[int], None]) -> None:
        self.pieces: list[bytes] = []
        self._size = 0
        self._limit = limit
        self._grow = grow

    def unpack(self, packed: memoryview, compression: Compression) -> None:
        """One packed stream, or for gzip several after each other (RFC 1952, section 2.2)."""
        for member in range(_MAX_GZIP_MEMBERS):
            if compression is Compression.GZIP and not _GZIP_BEGIN.startswith(packed[:2]):
                raise MalformedRequest("bytes follow the gzip data" if member else "the body is no gzip data")
            packed = packed[self._stream(packed, compression) :]
            if not packed:
                return
            if compression is Compression.DEFLATE:
                raise MalformedRequest("bytes follow the deflate data")
        raise MalformedRequest(f"the gzip data have more than {_MAX_GZIP_MEMBERS} members")

    def _stream(self, packed: memoryview, compression: Compression) -> int:
        """Unpack one stream; returns how many of the bytes it was."""
        stream = CODEC.decompressobj(_WINDOW_BITS[compression])
        fed = 0
        while not stream.eof:
            given: bytes | memoryview = stream.unconsumed_tail
            if not given:
                given = packed[fed : fed + _CHUNK_BYTES]
                fed += len(given)
            piece = stream.decompress(given, _CHUNK_BYTES)
            if piece:
                self._take(piece)
            elif not given:
                raise MalformedRequest(f"the {compression} data are cut")
        return fed - len(stream.unused_data)

    def _take(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._size > self._limit:
            raise TooLarge(self._limit)
        self._grow(len(piece))
        self.pieces.append(piece)
