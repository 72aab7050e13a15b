"""Content as it lies on disk: a byte that names the codec, then the bytes."""

from __future__ import annotations

import json
import zlib
from collections.abc import Collection
from contextlib import suppress
from typing import Any

from monitor.compression import compressed, decompressed, decompressed_start

_PLAIN, _ZLIB, _ZSTD = b"\x00", b"\x01", b"\x02"
_AS_IT_IS = b"\x03"  # its maker's own mark (`stored_spans`), under which nothing else is stored
_HEX_IDS, _TEXT_IDS = b"\x00", b"\x01"
_HEX_LENGTHS = {16}


def packed(body: bytes) -> bytes:
    """Compressed, unless that would be longer."""
    small = compressed(body)
    return _ZSTD + small if len(small) < len(body) else _PLAIN + body


def as_it_is(body: bytes) -> bytes:
    """Packed without an attempt to compress: for what its maker has compressed. What bears the mark for it is not even copied."""
    return body if body.startswith(_AS_IT_IS) else _PLAIN + body


def unpacked(blob: bytes) -> bytes:
    """The inverse of `packed`. Raises ValueError for a codec of a later version."""
    codec, body = blob[:1], blob[1:]
    if codec == _ZSTD:
        return decompressed(body)
    if codec == _ZLIB:  # earlier versions
        return zlib.decompress(body)
    if codec == _PLAIN:
        return body
    if codec == _AS_IT_IS:
        return blob
    raise ValueError(f"content is stored with codec {codec.hex()}, which this rubricd does not know")


def unpacked_start(blob: bytes, size: int) -> bytes:
    """The first `size` bytes of what was packed, without unpacking the rest. Raises ValueError for a codec of a later version."""
    codec = blob[:1]
    if codec == _ZSTD:
        return decompressed_start(blob[1:], size)
    return zlib.decompressobj().decompress(blob[1:], size) if codec == _ZLIB else unpacked(blob)[:size]


_encode = json.JSONEncoder(separators=(",", ":"), default=str).encode


def packed_json(value: Any) -> bytes:
    """A JSON value, packed. ASCII on purpose: half of a surrogate pair survives."""
    return packed(_encode(value).encode("ascii"))


def unpacked_json(blob: bytes) -> Any:
    """The inverse of `packed_json`."""
    return json.loads(unpacked(blob))


def packed_ids(span_ids: Collection[str]) -> bytes:
    """Span ids, 8 bytes each; as text where one is no 16 hex digits in lower case."""
    ordered = sorted(span_ids)
    joined = "".join(ordered)
    if set(map(len, ordered)) <= _HEX_LENGTHS:
        with suppress(ValueError):
            raw = bytes.fromhex(joined)
            if raw.hex() == joined:
                return _HEX_IDS + raw
    return _TEXT_IDS + " ".join(ordered).encode(errors="surrogatepass")


def unpacked_ids(blob: bytes) -> frozenset[str]:
    """The inverse of `packed_ids`."""
    codec, body = blob[:1], blob[1:]
    if codec == _HEX_IDS:
        return frozenset(body[start : start + 8].hex() for start in range(0, len(body), 8))
    return frozenset(body.decode(errors="surrogatepass").split())
