"""Durations (`200ms 30s 5m 1h30m 7d`) and sizes (`8GiB`) as they are written in configuration."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, WithJsonSchema

_DURATION_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
MOST_SECONDS = 36500 * 86400.0
"""Longer durations are slips of the pen, and times computed from them do not exist."""

_DURATION = re.compile(r"(?:\d+(?:\.\d+)?(?:ms|s|m|h|d))+")
_DURATION_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_SIZE_UNITS = {
    "B": 1,
    "KiB": 1024,
    "MiB": 1024**2,
    "GiB": 1024**3,
    "TiB": 1024**4,
    "kB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-z]+)")


def parse_duration(text: object) -> float:
    """Seconds of a duration such as `1h30m`. Raises ValueError for anything else, also for a bare number."""
    if not isinstance(text, str) or not _DURATION.fullmatch(text.strip()):
        raise ValueError(f"{text!r} is no duration: write it with a unit, like 200ms, 30s, 5m, 1h30m or 7d")
    seconds = sum(float(number) * _DURATION_UNITS[unit] for number, unit in _DURATION_PART.findall(text))
    if seconds > MOST_SECONDS:
        raise ValueError(f"{text!r} is too long: a hundred years, 36500d, at most")
    return seconds


def parse_size(text: object) -> int:
    """Bytes of a size such as `8GiB`. Raises ValueError for anything else, also for a bare number."""
    match = _SIZE.fullmatch(text.strip()) if isinstance(text, str) else None
    if match is None or match[2] not in _SIZE_UNITS:
        raise ValueError(f"{text!r} is no size: write it with a unit, like 64MiB or 10GiB")
    return int(float(match[1]) * _SIZE_UNITS[match[2]])


def duration_text(seconds: float) -> str:
    """Seconds as a short duration, `90.0` as `1m30s`."""
    if seconds < 1:
        return f"{round(seconds * 1000)}ms"
    rest, parts = round(seconds), []
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60), ("s", 1)):
        count, rest = divmod(rest, size)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts)


def size_text(count: int) -> str:
    """Bytes as a size, `8589934592` as `8GiB`."""
    for unit in ("TiB", "GiB", "MiB", "KiB"):
        if count >= _SIZE_UNITS[unit] and count % _SIZE_UNITS[unit] == 0:
            return f"{count // _SIZE_UNITS[unit]}{unit}"
    return f"{count}B"


Duration = Annotated[
    float,
    BeforeValidator(parse_duration),
    WithJsonSchema({"type": "string", "pattern": f"^{_DURATION.pattern}$", "examples": ["30s", "1h30m", "7d"]}),
]
"""Seconds, written as a duration."""

Size = Annotated[
    int,
    BeforeValidator(parse_size),
    WithJsonSchema({"type": "string", "pattern": f"^{_SIZE.pattern}$", "examples": ["64MiB", "8GiB"]}),
]
"""Bytes, written as a size."""


def _not_nothing(seconds: float) -> float:
    if seconds <= 0:
        raise ValueError("is no length of time: give more than 0s")
    return seconds


Period = Annotated[Duration, AfterValidator(_not_nothing)]
"""Seconds above 0, written as a duration."""
