"""How many draws a budget has room for."""

from __future__ import annotations

import pytest

from monitor.judging.affording import Purse, affordable, hours_left, pace

NOON = 12 * 3600.0


def test_the_first_half_is_spent_freely() -> None:
    """With more than half left a run may draw all of the rest of the first half at once."""
    assert affordable([Purse(1000, 1000, 10)], NOON, 0.0) == 50
    assert affordable([Purse(1000, 800, 10)], NOON, 0.0) == 30


def test_the_second_half_is_paced() -> None:
    """Below half a run draws what the pace has saved up: what is left, spread over the hours left."""
    purse = Purse(1000, 480, 10)
    assert pace([purse], NOON) == pytest.approx(4.0)
    assert affordable([purse], NOON, 0.9) == 0
    assert affordable([purse], NOON, 4.2) == 4


def test_the_scarcest_purse_decides() -> None:
    """Several limits, or one that is shared with other monitors: the least of them counts."""
    assert affordable([Purse(1000, 1000, 10), Purse(5, 5, 1)], NOON, 0.0) == 2
    assert affordable([Purse(1000, 1000, 10, sharers=5)], NOON, 0.0) == 10
    assert pace([Purse(1000, 240, 10), Purse(100, 12, 1)], NOON) == pytest.approx(1.0)


def test_nothing_left() -> None:
    """Less than the price of one draw is nothing; without a limit there is no bound."""
    assert affordable([Purse(1000, 9, 10)], NOON, 5.0) == 0
    assert affordable([Purse(1000, -50, 10)], NOON, 5.0) == 0
    assert affordable([], NOON, 0.0) is None
    assert pace([], NOON) == 0


def test_hours_left() -> None:
    """Days are UTC days."""
    assert hours_left(NOON) == 12
    assert hours_left(0.0) == 24
    assert hours_left(24 * 3600.0) == 24
