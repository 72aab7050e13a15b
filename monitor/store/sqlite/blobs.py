"""Content as it lies on disk: a byte that names the codec, then the bytes."""

from __future__ import annotations

import json
import zlib
from collections.abc import Collection
from typing import Any

_PLAIN, _ZLIB = b"\x00", b"\x01"
_HEX_IDS, _TEXT_IDS = b"\x00", b"\x01"
_LEVEL = 1
"""Level 6 takes three times the time for a tenth less; writing is what limits how many traces a process can take."""


def packed(body: bytes) -> bytes:
    """Compressed, unless that would be longer."""
    small = zlib.compress(body, _LEVEL)
    return _ZLIB + small if len(small) < len(body) else _PLAIN + body


def unpacked(blob: bytes) -> bytes:
    """The inverse of `packed`. Raises ValueError for a codec of a later version."""
    codec, body = blob[:1], blob[1:]
    if codec == _ZLIB:
        return zlib.decompress(body)
    if codec == _PLAIN:
        return body
    raise ValueError(f"content is stored with codec {codec.hex()}, which this rubricd does not know")


def unpacked_start(blob: bytes, size: int) -> bytes:
    """The first `size` bytes of what was packed, without unpacking the rest. Raises ValueError for a codec of a later version."""
    return zlib.decompressobj().decompress(blob[1:], size) if blob[:1] == _ZLIB else unpacked(blob)[:size]


_encode = json.JSONEncoder(separators=(",", ":"), default=str).encode


def packed_json(value: Any) -> bytes:
    """A JSON value, packed. ASCII on purpose: half of a surrogate pair survives."""
    return packed(_encode(value).encode("ascii"))


def unpacked_json(blob: bytes) -> Any:
    """The inverse of `packed_json`."""
    return json.loads(unpacked(blob))


def packed_ids(span_ids: Collection[str]) -> bytes:
    """Span ids, 8 bytes each; as text where one is no 16 hex digits."""
    try:
        return _HEX_IDS + b"".join(_eight_bytes(span_id) for span_id in sorted(span_ids))
    except ValueError:
        return _TEXT_IDS + " ".join(sorted(span_ids)).encode(errors="surrogatepass")


def _eight_bytes(span_id: str) -> bytes:
    raw = bytes.fromhex(span_id)
    if len(raw) != 8 or raw.hex() != span_id:
        raise ValueError("no span id of 16 lower-case hex digits")
    return raw


def unpacked_ids(blob: bytes) -> frozenset[str]:
    """The inverse of `packed_ids`."""
    codec, body = blob[:1], blob[1:]
    if codec == _HEX_IDS:
        return frozenset(body[start : start + 8].hex() for start in range(0, len(body), 8))
    return frozenset(body.decode(errors="surrogatepass").split())
