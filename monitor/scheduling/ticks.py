"""When runs are due: arithmetic of ticks, a function of its arguments. All times are seconds since 1970-01-01Z."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import takewhile
from typing import Protocol

from monitor.scheduling.cron import Cron, parse_cron
from monitor.settings.tree import Schedule

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SIX_HOURS = 6 * 3600.0
_LONGEST_LOOK_BACK = 10 * 366 * 86400.0
"""From 29 February to the next it may be 8 years (around 2100)."""


class Ticks(Protocol):
    """The ticks of a schedule."""

    def after(self, moment: float) -> Iterator[float]:
        """Ticks after a moment, oldest first."""
        ...

    def last(self, after: float, until: float, count: int) -> list[float]:
        """The newest `count` ticks in (after, until], oldest first; never more work than these need."""
        ...


@dataclass(frozen=True, slots=True)
class EveryTicks:
    """Ticks on multiples of a length of time since 1970-01-01Z, whenever the program was started."""

    seconds: float

    def after(self, moment: float) -> Iterator[float]:
        """Ticks after a moment, oldest first, without end."""
        number = self._number(moment) + 1
        while True:
            yield number * self.seconds
            number += 1

    def last(self, after: float, until: float, count: int) -> list[float]:
        """The newest `count` ticks in (after, until], oldest first."""
        first, last = self._number(after) + 1, self._number(until)
        return [number * self.seconds for number in range(max(first, last - count + 1), last + 1)]

    def _number(self, moment: float) -> int:
        """The number of the newest tick that is not after a moment; a tick is its own, whatever division rounds to."""
        number = math.floor(moment / self.seconds)
        if (number + 1) * self.seconds <= moment:
            return number + 1
        return number - 1 if number * self.seconds > moment else number


@dataclass(frozen=True, slots=True)
class CronTicks:
    """Ticks of a cron expression in its time zone."""

    cron: Cron

    def after(self, moment: float) -> Iterator[float]:
        """Ticks after a moment, oldest first."""
        for instant in self.cron.after(_EPOCH + timedelta(microseconds=math.floor(moment * 1e6))):
            yield instant.timestamp()

    def last(self, after: float, until: float, count: int) -> list[float]:
        """The newest `count` ticks in (after, until], oldest first; looks back twice as far until there are enough."""
        length = _SIX_HOURS
        while True:
            start = max(after, until - length)
            found = deque(takewhile(lambda tick: tick <= until, self.after(start)), maxlen=count)
            if len(found) == count or start == after:
                return list(found)
            length *= 2


def ticks_of(schedule: Schedule) -> Ticks:
    """The ticks of a schedule. Raises ValueError for a cron expression or a time zone that is none."""
    if schedule.every is not None:
        return EveryTicks(schedule.every)
    return CronTicks(parse_cron(schedule.cron or "", schedule.timezone))


def next_tick(ticks: Ticks, after: float) -> float | None:
    """The first tick after a moment; None when there will never be one."""
    return next(iter(ticks.after(after)), None)


def previous_tick(ticks: Ticks, before: float) -> float | None:
    """The newest tick before a moment; None when there was none in the last ten years."""
    found = ticks.last(before - _LONGEST_LOOK_BACK, math.nextafter(before, -math.inf), 1)
    return found[0] if found else None


def ticks_between(ticks: Ticks, after: float, until: float) -> list[float]:
    """All ticks in (after, until], oldest first. For short spans: an outage goes by `due_ticks`."""
    return list(takewhile(lambda tick: tick <= until, ticks.after(after)))


@dataclass(frozen=True, slots=True)
class DueTicks:
    """What is to be done at a wake-up: first record `missed`, the newest tick that is not caught up, then run `run`, oldest first."""

    missed: float | None
    run: tuple[float, ...]


def due_ticks(ticks: Ticks, after: float, now: float, catch_up: int) -> DueTicks:
    """The ticks in (after, now], where `after` is the newest completed one: at most `catch_up` are run, the others are missed.

    One missed tick stands for all older ones: it takes whatever only they would have taken.
    """
    found = ticks.last(after, now, catch_up + 1)
    if len(found) <= catch_up:
        return DueTicks(None, tuple(found))
    return DueTicks(found[0], tuple(found[1:]))
