"""Values that SQLite would refuse, made storable: one odd value must not keep a batch of traces out of the store."""

from __future__ import annotations

import json
from typing import Any, overload

_LARGEST = 2**63 - 1


@overload
def text(value: str) -> str: ...
@overload
def text(value: None) -> None: ...
def text(value: str | None) -> str | None:
    """A text that can be written as UTF-8: half a surrogate pair becomes `?`."""
    if value is None or value.isascii():
        return value
    return value.encode(errors="replace").decode()


@overload
def integer(value: int) -> int: ...
@overload
def integer(value: None) -> None: ...
def integer(value: int | None) -> int | None:
    """A whole number cut to 64 bits with sign: OTLP times have 64 without."""
    if value is None or (type(value) is int and -_LARGEST <= value <= _LARGEST):
        return value
    return max(-_LARGEST, min(_LARGEST, int(value)))


_encode = json.JSONEncoder(separators=(",", ":"), sort_keys=True, default=str).encode


def compact(value: Any) -> str:
    """A JSON value as a short text, ASCII, keys in order: equal values give equal texts."""
    return _encode(value)
