"""zstd of the standard library, or its backport, for what is kept on disk."""

from __future__ import annotations

import importlib
import sys
import threading
from functools import lru_cache
from typing import Any

_LEVEL = 1
"""Level 3 takes a third more time for a thirtieth less; zlib's level 1 takes three times the time and packs no better."""

_QUICK_LEVEL = -2
"""Of recorded traces 38 % less time for 22 % more bytes, of the benchmarks' 22 % less for 33 % more."""

_SHORTEST_MATCH = 7
"""Of recorded traces a fourteenth less time than by the level's own choice, for a sixtieth more bytes."""

FAULTS = (ValueError, EOFError)
"""What reading raises for damaged bytes."""


@lru_cache(maxsize=1)
def _zstd() -> Any:
    return importlib.import_module("compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd")


class _Contexts(threading.local):
    """A compressor for each thread: making one for each value is a sixth of the time."""

    def __init__(self) -> None:
        zstd = _zstd()
        self.whole_frame = zstd.ZstdCompressor.FLUSH_FRAME
        named = zstd.CompressionParameter
        self.compressor, self.quick = (
            zstd.ZstdCompressor(options={named.compression_level: level, named.min_match: _SHORTEST_MATCH})
            for level in (_LEVEL, _QUICK_LEVEL)
        )


@lru_cache(maxsize=1)
def _contexts() -> _Contexts:
    return _Contexts()


def compressed(body: bytes, *, quickly: bool = False) -> bytes:
    """A value as one zstd frame; `quickly`: time counts for more than bytes."""
    contexts = _contexts()
    compressor = contexts.quick if quickly else contexts.compressor
    result: bytes = compressor.compress(body, contexts.whole_frame)
    return result


def decompressed(body: bytes) -> bytes:
    """The inverse of `compressed`. Raises one of FAULTS for damaged bytes."""
    zstd = _zstd()
    try:
        result: bytes = zstd.decompress(body)
    except zstd.ZstdError as error:
        raise ValueError("damaged zstd data") from error
    return result


def decompressed_start(body: bytes, size: int) -> bytes:
    """The first `size` bytes of what was compressed, the rest unread. Raises one of FAULTS for damaged bytes."""
    zstd = _zstd()
    try:
        result: bytes = zstd.ZstdDecompressor().decompress(body, size)
    except zstd.ZstdError as error:
        raise ValueError("damaged zstd data") from error
    return result
