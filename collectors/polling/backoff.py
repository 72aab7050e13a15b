"""How long to wait after failures. Pure: chance is an argument."""

from __future__ import annotations

from collections.abc import Callable

LONGEST_SECONDS = 300.0
LONGEST_ASKED_SECONDS = 3600.0

Random = Callable[[], float]
"""A number in [0, 1)."""


def delay_seconds(first: float, failures: int, random: Random, asked: float | None = None) -> float:
    """Seconds until the next attempt after so many failures in a row (1 or more).

    Doubles from `first` up to five minutes, of which a random half is taken off, so that many pollers do not come back together. What the
    source asked for (Retry-After) is the least, up to an hour.
    """
    full = min(LONGEST_SECONDS, first * 2.0 ** min(failures - 1, 30))
    jittered = full * (0.5 + 0.5 * random())
    return max(jittered, min(asked, LONGEST_ASKED_SECONDS)) if asked is not None else jittered
