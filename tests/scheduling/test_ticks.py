"""Tick arithmetic."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.scheduling.ticks import DueTicks, EveryTicks, due_ticks, next_tick, previous_tick, ticks_between, ticks_of
from monitor.settings.tree import Schedule


def at(text: str) -> float:
    """Seconds of a UTC time."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


def schedule(**given: object) -> Schedule:
    """A schedule as it is configured."""
    return Schedule.model_validate(given)


def test_every_is_on_multiples_since_the_epoch() -> None:
    """Whenever the program was started, ticks of 7 minutes are at multiples of 420 s."""
    ticks = ticks_of(schedule(every="7m"))
    found = list(islice(ticks.after(at("2026-11-30T09:03:12")), 3))
    assert all(tick % 420 == 0 for tick in found)
    assert found[0] - 420 <= at("2026-11-30T09:03:12") < found[0]
    assert found[1] - found[0] == found[2] - found[1] == 420


@pytest.mark.parametrize(
    ("given", "after", "expected"),
    [
        ({"every": "10m"}, "2026-11-30T09:00:00", "2026-11-30T09:10:00"),
        ({"every": "10m"}, "2026-11-30T09:09:59.999", "2026-11-30T09:10:00"),
        ({"every": "1d"}, "2026-11-30T09:00:00", "2026-12-01T00:00:00"),
        ({"cron": "30 4 * * *"}, "2026-11-30T09:00:00", "2026-12-01T04:30:00"),
        ({"cron": "30 4 * * *", "timezone": "Europe/Berlin"}, "2026-11-30T09:00:00", "2026-12-01T03:30:00"),
    ],
)
def test_next_tick(given: dict[str, str], after: str, expected: str) -> None:
    """The first tick strictly after a moment."""
    assert next_tick(ticks_of(schedule(**given)), at(after)) == at(expected)


@given(st.floats(1, 1e6), st.floats(0, 4e9))
def test_every_ticks_of_any_length_lie_around_any_moment(seconds: float, moment: float) -> None:
    """The newest tick up to a moment and the next after it are one length apart, whatever floating point rounds to."""
    ticks = EveryTicks(seconds)
    (last,) = ticks.last(moment - 3 * seconds, moment, 1)
    following = next_tick(ticks, moment)
    assert following is not None
    assert last <= moment < following
    assert following - last == pytest.approx(seconds, rel=1e-5)
    assert next_tick(ticks, last) == following
    assert previous_tick(ticks, following) == last


def test_previous_tick() -> None:
    """The newest tick strictly before a tick; a 29 February may be years ago."""
    assert previous_tick(ticks_of(schedule(every="1h")), at("2026-11-30T09:00")) == at("2026-11-30T08:00")
    assert previous_tick(ticks_of(schedule(cron="0 9 * * mon")), at("2026-11-30T09:00")) == at("2026-11-23T09:00")
    assert previous_tick(ticks_of(schedule(cron="0 0 29 2 *")), at("2028-02-29T00:00")) == at("2024-02-29T00:00")


def test_ticks_between_leaves_out_its_start_and_has_its_end() -> None:
    """(after, until]: a tick is in exactly one of two neighbouring spans."""
    ticks = ticks_of(schedule(cron="0 * * * *"))
    assert ticks_between(ticks, at("2026-11-30T08:00"), at("2026-11-30T10:00")) == [
        at("2026-11-30T09:00"),
        at("2026-11-30T10:00"),
    ]
    assert ticks_between(ticks, at("2026-11-30T10:00"), at("2026-11-30T10:59")) == []


@pytest.mark.parametrize("given", [{"every": "10m"}, {"cron": "*/10 * * * *"}])
def test_missed_ticks_are_caught_up_to_a_limit(given: dict[str, str]) -> None:
    """After an outage at most catch_up ticks are run, oldest first; the newest of the older ones stands for them."""
    ticks = ticks_of(schedule(**given))
    after, now = at("2026-11-30T09:00"), at("2026-11-30T09:34")
    three = (at("2026-11-30T09:10"), at("2026-11-30T09:20"), at("2026-11-30T09:30"))
    assert due_ticks(ticks, after, now, 6) == DueTicks(None, three)
    assert due_ticks(ticks, after, now, 3) == DueTicks(None, three)
    assert due_ticks(ticks, after, now, 2) == DueTicks(three[0], three[1:])
    assert due_ticks(ticks, after, now, 1) == DueTicks(three[1], three[2:])
    assert due_ticks(ticks, now, now, 6) == DueTicks(None, ())
    assert due_ticks(ticks, now, after, 6) == DueTicks(None, ())


@pytest.mark.parametrize(
    "given", [{"every": "1s"}, {"cron": "* * * * *"}, {"cron": "* * * * *", "timezone": "Europe/Berlin"}]
)
def test_a_year_of_outage_costs_nothing(given: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """However long the outage was, only about as many ticks are computed as are needed."""
    computed = 0
    real = EveryTicks.after

    def counting(self: EveryTicks, moment: float) -> object:
        nonlocal computed
        for tick in real(self, moment):
            computed += 1
            yield tick

    monkeypatch.setattr(EveryTicks, "after", counting)
    found = due_ticks(ticks_of(schedule(**given)), at("2025-11-30T09:00"), at("2026-11-30T09:00"), 6)
    assert len(found.run) == 6
    assert found.run[-1] == at("2026-11-30T09:00")
    assert found.missed == found.run[0] - (found.run[1] - found.run[0])
    assert computed == 0


def test_rare_ticks_are_found_over_years() -> None:
    """A yearly schedule looks back as far as it must and no further than what was completed."""
    ticks = ticks_of(schedule(cron="0 0 1 1 *"))
    assert due_ticks(ticks, at("2020-06-01T00:00"), at("2023-06-01T00:00"), 2) == DueTicks(
        at("2021-01-01T00:00"), (at("2022-01-01T00:00"), at("2023-01-01T00:00"))
    )
