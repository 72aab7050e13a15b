"""Cron expressions as people know them from Unix, made of APScheduler's triggers.

APScheduler numbers weekdays from Monday = 0, joins day of month and day of week by AND, and gives wall times that do not exist or happen twice. Here
0 and 7 are Sunday, two restricted day fields are joined by OR as in Unix, and `instants` says what a clock change does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any, NamedTuple

from apscheduler.triggers.cron import CronTrigger

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_TOKEN = re.compile(
    r"(?:(?P<all>\*)|(?P<first>\d{1,2}|[a-z]{3})(?:-(?P<last>\d{1,2}|[a-z]{3}))?)(?:/(?P<step>\d{1,2}))?"
)
_LARGEST_SHIFT = timedelta(hours=4)
"""Since 1970 no zone has put its clocks back by more than 3 hours (Casey, 2010). Left-out time may be longer (Samoa, a day in 2011)."""


class _Field(NamedTuple):
    name: str
    low: int
    high: int
    names: Mapping[str, int]


_FIELDS = (
    _Field("minute", 0, 59, {}),
    _Field("hour", 0, 23, {}),
    _Field("day of month", 1, 31, {}),
    _Field("month", 1, 12, {name: number for number, name in enumerate(_MONTHS, 1)}),
    _Field("day of week", 0, 7, {name: number for number, name in enumerate(_WEEKDAYS)}),
)


@dataclass(frozen=True, slots=True)
class Cron:
    """A parsed expression in its time zone. `triggers` give wall times; `every_hour` tells that the hour field begins with `*`."""

    text: str
    zone: tzinfo
    triggers: tuple[CronTrigger, ...]
    every_hour: bool

    def after(self, moment: datetime) -> Iterator[datetime]:
        """The instants that the expression names after a moment, in UTC, in order, without end or until the year 9999."""
        if self.zone is UTC:
            yield from self._walls(moment.astimezone(UTC).replace(tzinfo=None), inclusive=False)
            return
        held: list[datetime] = []
        for wall in self._walls((moment.astimezone(self.zone) - _LARGEST_SHIFT).replace(tzinfo=None), inclusive=True):
            safe = wall.replace(tzinfo=None) - _LARGEST_SHIFT
            held.sort()
            while held and held[0].astimezone(self.zone).replace(tzinfo=None) < safe:
                yield held.pop(0)
            held += [one for one in self.instants(wall.replace(tzinfo=None)) if one > moment and one not in held]
        yield from sorted(held)

    def _walls(self, start: datetime, *, inclusive: bool) -> Iterator[datetime]:
        """Wall times that match, as if every day had 24 hours; APScheduler reads them in UTC, where that is so."""
        moment = start.replace(tzinfo=UTC) + timedelta(microseconds=0 if inclusive else 1)
        while True:
            found = [trigger.get_next_fire_time(None, moment) for trigger in self.triggers]
            known = [wall for wall in found if wall is not None]
            if not known:
                return
            wall = min(known)
            yield wall
            moment = wall + timedelta(microseconds=1)

    def instants(self, wall: datetime) -> list[datetime]:
        """The instants at which the clock on the wall shows a time: none in the hour left out in spring, two in that repeated in autumn.

        As in Vixie's cron, expressions for every hour go by real time: nothing happens in the left-out hour, and the repeated one is run through twice.
        Those for certain hours happen once a day: what falls into the left-out hour happens when the clocks have been put
        forward, what falls into the repeated hour happens the first time.
        """
        first, second = (wall.replace(tzinfo=self.zone, fold=fold).astimezone(UTC) for fold in (0, 1))
        if first.astimezone(self.zone).replace(tzinfo=None) != wall:
            return [] if self.every_hour else [_end_of_gap(self.zone, second, first)]
        return [first] if first == second or not self.every_hour else [first, second]


def _end_of_gap(zone: tzinfo, before: datetime, behind: datetime) -> datetime:
    """The instant at which the offset changes between two instants, found by halving, to the second."""
    offset = behind.astimezone(zone).utcoffset()
    while behind - before > timedelta(seconds=1):
        middle = before + (behind - before) / 2
        if middle.astimezone(zone).utcoffset() == offset:
            behind = middle
        else:
            before = middle
    return behind.replace(microsecond=0)


def parse_cron(text: str, timezone: str = "UTC") -> Cron:
    """Parse `minute hour day-of-month month day-of-week`. Raises ValueError that names the field and what would be right."""
    zone = _zone(timezone)
    parts = text.lower().split()
    if len(parts) != len(_FIELDS):
        raise ValueError(
            f"cron {text!r} has {len(parts)} fields: write five, minute hour day-of-month month day-of-week, like `*/5 * * * *`"
        )
    values = [_values(text, field, part) for field, part in zip(_FIELDS, parts, strict=True)]
    cron = Cron(text, zone, tuple(_triggers(parts, values)), every_hour=parts[1].startswith("*"))
    if next(cron.after(datetime(2000, 1, 1, tzinfo=UTC)), None) is None:
        raise ValueError(f"cron {text!r} never happens: no month that it names has such a day")
    return cron


def _zone(name: str) -> tzinfo:
    if name.upper() == "UTC":
        return UTC
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(f"timezone {name!r} is not known: write an IANA name like Europe/Berlin, or UTC") from None


def _triggers(parts: Sequence[str], values: Sequence[frozenset[int]]) -> Iterator[CronTrigger]:
    """One trigger, or one for each day field where neither begins with `*`."""
    minute, hour, day, month, weekday = (
        "*" if len(found) == field.high - field.low + 1 else ",".join(map(str, sorted(found)))
        for field, found in zip(_FIELDS, values, strict=True)
    )
    weekday = (
        "*" if {number % 7 for number in values[4]} == set(range(7)) else ",".join(_WEEKDAYS[n % 7] for n in values[4])
    )
    common: dict[str, Any] = {"minute": minute, "hour": hour, "month": month, "timezone": UTC}
    if parts[2].startswith("*") or parts[4].startswith("*"):
        yield CronTrigger(day=day, day_of_week=weekday, **common)
    else:
        yield CronTrigger(day=day, **common)
        yield CronTrigger(day_of_week=weekday, **common)


def _values(text: str, field: _Field, part: str) -> frozenset[int]:
    """The numbers that one field names."""
    return frozenset(number for token in part.split(",") for number in _token_values(text, field, token))


def _token_values(text: str, field: _Field, token: str) -> range | list[int]:
    match = _TOKEN.fullmatch(token)
    if match is None:
        raise _fault(text, field, token)
    step = int(match["step"] or 1)
    if match["all"]:
        first, last = field.low, 6 if field.names is _FIELDS[4].names else field.high
    else:
        first = _number(text, field, match["first"])
        open_end = field.high if match["step"] else first
        last = open_end if match["last"] is None else _number(text, field, match["last"])
    if step == 0:
        raise _fault(text, field, token)
    if first > last and field.names:  # fri-mon, nov-feb: once around
        span = 7 if field.high == 7 else 12
        return [(number - field.low) % span + field.low for number in range(first, last + span + 1, step)]
    if first > last:
        raise _fault(text, field, token)
    return range(first, last + 1, step)


def _number(text: str, field: _Field, word: str) -> int:
    number = int(word) if word.isdigit() else field.names.get(word, -1)
    if not field.low <= number <= field.high:
        raise _fault(text, field, word)
    return number


def _fault(text: str, field: _Field, token: str) -> ValueError:
    names = f" or {', '.join(field.names)}" if field.names else ""
    return ValueError(
        f"cron {text!r}: {token!r} is no {field.name}: write *, {field.low} to {field.high}{names}, a range like "
        f"{field.low}-{field.high}, a step like */2, or several with commas"
    )
