"""Allowances of runs and their split over strata."""

from __future__ import annotations

import itertools
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.sampling import Allowance, split_cap


@pytest.mark.parametrize(
    ("sizes", "cap", "expected"),
    [
        ({"a": 50, "b": 50}, 10, {"a": 5, "b": 5}),
        ({"a": 75, "b": 25}, 8, {"a": 6, "b": 2}),
        ({"a": 97, "b": 1, "c": 1, "d": 1}, 10, {"a": 7, "b": 1, "c": 1, "d": 1}),
        ({"a": 2, "b": 2, "c": 2}, 4, {"a": 2, "b": 1, "c": 1}),
        ({"a": 10, "b": 10, "c": 10}, 1, {"a": 1, "b": 1, "c": 1}),
        ({"a": 10, "b": 0}, 4, {"a": 4, "b": 0}),
        ({"a": 10}, 60, {"a": 60}),
        ({}, 4, {}),
    ],
)
def test_split_by_hand(sizes: dict[str, int], cap: int, expected: dict[str, int]) -> None:
    """Shares follow the sizes, each stratum has at least 1, and what small strata get comes out of the large ones."""
    assert split_cap(sizes, cap) == expected


@given(st.dictionaries(st.integers(), st.integers(1, 10_000), min_size=1, max_size=30), st.integers(1, 500))
def test_split_never_exceeds_the_cap_where_it_need_not(sizes: dict[int, int], cap: int) -> None:
    """The shares sum to the cap, or to 1 each where the cap is below that; a larger stratum never gets less."""
    shares = split_cap(sizes, cap)
    assert min(shares.values()) >= 1
    assert sum(shares.values()) == max(cap, len(sizes))
    ordered = sorted(sizes, key=lambda key: sizes[key])
    for smaller, larger in itertools.pairwise(ordered):
        assert shares[smaller] <= shares[larger] + (sizes[smaller] == sizes[larger])


@pytest.mark.parametrize("seconds", [1, 7, 10, 60, 90, 300, 3600, 86400])
def test_the_schedule_does_not_change_what_is_spent(seconds: int) -> None:
    """Under constant traffic every schedule draws 60 an hour, on schedules from a second to a day."""
    carry, drawn = 0.0, 0
    for _ in range(2 * 86400 // seconds):
        allowance = Allowance(60.0, seconds / 3600, carry)
        drawn += allowance.cap
        carry = allowance.left(allowance.cap)
    assert drawn == pytest.approx(2 * 24 * 60, abs=1)


def test_uneven_traffic_within_the_hour_costs_the_same_on_every_schedule() -> None:
    """Traffic that comes in one minute of each hour is drawn from as much by runs a minute apart as by hourly runs."""

    def spent(minutes: int) -> int:
        carry, drawn, waiting = 0.0, 0, 0
        for minute in range(0, 48 * 60, minutes):
            waiting += sum(500 for m in range(minute, minute + minutes) if m % 60 == 30)
            allowance = Allowance(60.0, minutes / 60, carry)
            taken, waiting = min(waiting, allowance.cap), 0
            drawn += taken
            carry = allowance.left(taken)
        return drawn

    assert spent(60) == 48 * 60
    assert spent(1) == pytest.approx(48 * 60, abs=30)


def test_a_quiet_week_does_not_release_a_burst() -> None:
    """However long nothing came, the next run draws one hour's worth and its own share, no more."""
    carry = 0.0
    for _ in range(7 * 24 * 60):
        carry = Allowance(60.0, 1 / 60, carry).left(0)
    assert Allowance(60.0, 1 / 60, carry).cap == 61


def test_no_hour_costs_more_than_twice_the_limit() -> None:
    """Under random traffic every window of an hour stays below 2 * max_per_hour, and a day below 25 hours' worth."""
    chance, carry, drawn = random.Random(3), 0.0, []
    for _ in range(3 * 1440):
        allowance = Allowance(60.0, 1 / 60, carry)
        drawn.append(min(allowance.cap, chance.choice([0, 0, 0, 200])))
        carry = allowance.left(drawn[-1])
    assert max(sum(drawn[start : start + 60]) for start in range(len(drawn) - 60)) <= 120
    assert max(sum(drawn[start : start + 1440]) for start in range(len(drawn) - 1440)) <= 25 * 60


def test_rounding_costs_no_draw() -> None:
    """49 an hour on a schedule of an hour / 49 is 1 a run, though 49 * (1 / 49) is below 1 in floating point."""
    assert 49 * (1 / 49) < 1
    assert Allowance(49, 1 / 49).cap == 1


def test_less_than_one_an_hour_saves_up() -> None:
    """max_per_hour: 0.1 draws one invocation in ten hours."""
    carry, drawn = 0.0, 0
    for _ in range(100 * 60):
        allowance = Allowance(0.1, 1 / 60, carry)
        drawn += allowance.cap
        carry = allowance.left(allowance.cap)
    assert drawn == pytest.approx(10, abs=1)


def test_a_debt_is_paid_before_the_next_draw() -> None:
    """Five strata that drew 1 each on a cap of 1 leave a debt of 4, and four runs with cap 0."""
    carry, caps = Allowance(60.0, 1 / 60).left(5), []
    for _ in range(6):
        allowance = Allowance(60.0, 1 / 60, carry)
        caps.append(allowance.cap)
        carry = allowance.left(allowance.cap)
    assert caps == [0, 0, 0, 0, 1, 1]


def test_a_clock_that_went_back_takes_nothing_away() -> None:
    """Negative hours count as none."""
    assert Allowance(60.0, -3.0, 2.5).cap == 2
