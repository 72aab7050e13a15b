"""Cron expressions: what Unix means by them, clock changes, and what is refused."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import islice

import pytest

from monitor.scheduling.cron import parse_cron


def ticks(text: str, start: str, count: int, timezone: str = "UTC") -> list[str]:
    """The next ticks after a moment, in UTC, to the minute."""
    cron = parse_cron(text, timezone)
    return [f"{tick:%Y-%m-%dT%H:%M}" for tick in islice(cron.after(datetime.fromisoformat(start + "+00:00")), count)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("*/5 * * * *", ["2026-11-30T12:05", "2026-11-30T12:10"]),
        ("7-59/20 * * * *", ["2026-11-30T12:07", "2026-11-30T12:27"]),
        ("50/5 * * * *", ["2026-11-30T12:50", "2026-11-30T12:55"]),
        ("0 9-17/4 * * *", ["2026-11-30T13:00", "2026-11-30T17:00", "2026-12-01T09:00"]),
        ("0 0 1,15 * *", ["2026-12-01T00:00", "2026-12-15T00:00"]),
        ("0 0 29 feb *", ["2028-02-29T00:00", "2032-02-29T00:00"]),
        ("0 0 1 nov-feb *", ["2026-12-01T00:00", "2027-01-01T00:00", "2027-02-01T00:00", "2027-11-01T00:00"]),
        ("0 0 1 */3 *", ["2027-01-01T00:00", "2027-04-01T00:00"]),
        # 30 November 2026 is a Monday
        ("0 9 * * 1", ["2026-12-07T09:00", "2026-12-14T09:00"]),
        ("0 9 * * 0", ["2026-12-06T09:00", "2026-12-13T09:00"]),
        ("0 9 * * 7", ["2026-12-06T09:00", "2026-12-13T09:00"]),
        ("0 9 * * SUN", ["2026-12-06T09:00", "2026-12-13T09:00"]),
        ("0 9 * * 5-7", ["2026-12-04T09:00", "2026-12-05T09:00", "2026-12-06T09:00", "2026-12-11T09:00"]),
        ("0 9 * * mon-fri", ["2026-12-01T09:00", "2026-12-02T09:00"]),
        ("0 9 * * sat-mon", ["2026-12-05T09:00", "2026-12-06T09:00", "2026-12-07T09:00", "2026-12-12T09:00"]),
        ("0 9 * * */2", ["2026-12-01T09:00", "2026-12-03T09:00", "2026-12-05T09:00", "2026-12-06T09:00"]),
        ("0 9 * * 0-7", ["2026-12-01T09:00", "2026-12-02T09:00"]),
        # both day fields restricted: either is enough
        ("0 0 13 * fri", ["2026-12-04T00:00", "2026-12-11T00:00", "2026-12-13T00:00", "2026-12-18T00:00"]),
        # one of them with a star: both must match
        ("0 0 */2 * fri", ["2026-12-11T00:00", "2026-12-25T00:00", "2027-01-01T00:00"]),
    ],
)
def test_expressions_mean_what_unix_means(text: str, expected: list[str]) -> None:
    """Numbers, names, ranges, steps and the two day fields are read as in crontab(5)."""
    assert ticks(text, "2026-11-30T12:00", len(expected)) == expected


def test_a_tick_is_not_after_itself() -> None:
    """The next tick after a tick is the following one."""
    assert ticks("0 12 * * *", "2026-11-30T12:00", 1) == ["2026-12-01T12:00"]
    assert ticks("0 12 * * *", "2026-11-30T11:59:59.999999", 1) == ["2026-11-30T12:00"]


@pytest.mark.parametrize(
    ("text", "zone", "start", "expected"),
    [
        # New York puts its clocks forward at 02:00 EST = 07:00Z on 8 March 2026, back at 02:00 EDT = 06:00Z on 1 November
        ("30 2 * * *", "America/New_York", "2026-03-07T12:00", ["2026-03-08T07:00", "2026-03-09T06:30"]),
        ("10,20 2 * * *", "America/New_York", "2026-03-08T00:00", ["2026-03-08T07:00", "2026-03-09T06:10"]),
        ("30 1 * * *", "America/New_York", "2026-10-31T12:00", ["2026-11-01T05:30", "2026-11-02T06:30"]),
        ("30 1 * * *", "America/New_York", "2026-11-01T05:45", ["2026-11-02T06:30"]),
        (
            "*/30 * * * *",
            "America/New_York",
            "2026-03-08T06:00",
            ["2026-03-08T06:30", "2026-03-08T07:00", "2026-03-08T07:30"],
        ),
        (
            "*/30 * * * *",
            "America/New_York",
            "2026-11-01T05:00",
            ["2026-11-01T05:30", "2026-11-01T06:00", "2026-11-01T06:30"],
        ),
        ("0 9 * * mon", "Europe/Berlin", "2026-03-23T12:00", ["2026-03-30T07:00", "2026-04-06T07:00"]),
        ("0 9 * * mon", "Europe/Berlin", "2026-10-19T12:00", ["2026-10-26T08:00"]),
        # half an hour is left out at 02:00 on 4 October 2026
        ("15 2 * * *", "Australia/Lord_Howe", "2026-10-03T12:00", ["2026-10-03T15:30", "2026-10-04T15:15"]),
        # a whole day was left out: 30 December 2011
        (
            "0 12 * * *",
            "Pacific/Apia",
            "2011-12-29T00:00",
            ["2011-12-29T22:00", "2011-12-30T10:00", "2011-12-30T22:00"],
        ),
    ],
)
def test_clock_changes(text: str, zone: str, start: str, expected: list[str]) -> None:
    """A certain hour happens once a day, at the change when it is left out and first when it is repeated; every hour goes by real time."""
    assert ticks(text, start, len(expected), zone) == expected


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/St_Johns"])
@pytest.mark.parametrize("text", ["*/15 * * * *", "30 2 * * *", "*/20 1,2 * * *", "0 */2 * * *"])
def test_asking_anew_from_any_moment_gives_the_same_ticks(text: str, zone: str) -> None:
    """The ticks of a year are the same whether they are asked for in one go or anew after each, and strictly grow."""
    cron = parse_cron(text, zone)
    whole = list(islice(cron.after(datetime(2026, 2, 20, tzinfo=UTC)), 1_500))
    assert whole == sorted(set(whole))
    for tick, following in zip(whole[::7], whole[1::7], strict=False):
        assert next(cron.after(tick)) == following


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "has 0 fields: write five"),
        ("* * * *", "has 4 fields"),
        ("* * * * * *", "has 6 fields"),
        ("@daily", "has 1 fields"),
        ("61 * * * *", "'61' is no minute: write \\*, 0 to 59"),
        ("* 24 * * *", "is no hour"),
        ("* * 0 * *", "is no day of month"),
        ("* * * 13 *", "is no month: write \\*, 1 to 12 or jan"),
        ("* * * * 8", "is no day of week: write \\*, 0 to 7 or sun"),
        ("* * * * mon#2", "'mon#2' is no day of week"),
        ("* * L * *", "is no day of month"),
        ("*/0 * * * *", "is no minute"),
        ("30-10 * * * *", "is no minute"),
        ("5,,6 * * * *", "'' is no minute"),
        ("* * * foo *", "'foo' is no month"),
        ("0 0 30 2 *", "never happens"),
        ("0 0 31 4,6,9,11 *", "never happens"),
    ],
)
def test_what_is_no_expression_is_refused_with_the_reason(text: str, reason: str) -> None:
    """The message names the field and what would be right."""
    with pytest.raises(ValueError, match=reason):
        parse_cron(text)


@pytest.mark.parametrize("zone", ["Mars/Olympus", "", "../../etc/passwd", "Europe"])
def test_an_unknown_time_zone_is_refused(zone: str) -> None:
    """The message says what a time zone looks like."""
    with pytest.raises(ValueError, match="IANA"):
        parse_cron("* * * * *", zone)
