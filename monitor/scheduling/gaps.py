"""How far apart the ticks of a schedule are: what alerts on stalled runs and ranges over verdicts go by."""

from __future__ import annotations

import statistics
from functools import lru_cache
from itertools import islice, pairwise, takewhile
from typing import NamedTuple

from monitor.scheduling.ticks import ticks_of
from monitor.settings.tree import Schedule

_FRIDAY = 1_704_448_800.0
"""2024-01-05T10:00Z. Gaps are measured from a fixed Friday: the same schedule has the same gaps, and the first days hold a weekend."""
_TICKS, _YEAR = 3000, 366 * 86400.0


class Gaps(NamedTuple):
    """The time between two ticks of a schedule, in seconds."""

    usual: float
    longest: float


def gaps_of(schedule: Schedule) -> Gaps:
    """The usual (median) and the longest time between two ticks; of a cron expression within a year or its first 3000 ticks."""
    if schedule.every is not None:
        return Gaps(schedule.every, schedule.every)
    assert schedule.cron is not None
    return _of_cron(schedule.cron, schedule.timezone)


@lru_cache(maxsize=256)
def _of_cron(cron: str, timezone: str) -> Gaps:
    """A quarter of a second of work for a cron expression that ticks often, and asked for at every scrape."""
    ticks = ticks_of(Schedule(cron=cron, timezone=timezone)).after(_FRIDAY)
    found = [later - earlier for earlier, later in pairwise(takewhile(_in_the_year, islice(ticks, _TICKS)))]
    return Gaps(statistics.median(found), max(found)) if found else Gaps(_YEAR, _YEAR)


def _in_the_year(tick: float) -> bool:
    return tick < _FRIDAY + _YEAR
