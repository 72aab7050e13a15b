"""Inflating and crc32 by Intel's ISA-L where it is installed, else by zlib: the same results, half the time or a tenth of it."""

from __future__ import annotations

import zlib
from typing import Any

_HELD_BYTES = 5120
"""Python gives the interpreter away for the checksum of anything longer, and a busy one comes back only milliseconds later."""


def _fastest() -> Any:
    """The module; it has zlib's names."""
    try:
        from isal import isal_zlib
    except ImportError:  # no wheel for this machine
        return zlib
    return isal_zlib


CODEC: Any = _fastest()
"""`decompressobj` and `error`, as those of the module zlib."""


def crc32(data: bytes, start: int, codec: Any = CODEC) -> int:
    """The checksum of RFC 1952, section 8, begun from `start`, without giving the interpreter away."""
    checksum = codec.crc32
    if len(data) <= _HELD_BYTES:
        return int(checksum(data, start))
    view = memoryview(data)
    for at in range(0, len(view), _HELD_BYTES):
        start = checksum(view[at : at + _HELD_BYTES], start)
    return start
