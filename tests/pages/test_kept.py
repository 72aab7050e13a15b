"""Figures that take long: never waited for long, renewed beside."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from monitor.clock import ManualClock
from monitor.server.pages.kept import DUTY, FRESH_SECONDS, KeptFigures


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def kept(clock: ManualClock) -> Iterator[KeptFigures]:
    found = KeptFigures(clock, patience_seconds=5.0)
    yield found
    found.close()


def test_quick_values_are_made_when_asked_for(kept: KeptFigures, clock: ManualClock) -> None:
    """A quick value is there at once, is kept while it is fresh, and is made anew afterwards."""
    made = iter(range(10))
    first = kept.get("a", lambda: next(made))
    assert first is not None and (first.value, first.at) == (0, clock.now())
    clock.advance(FRESH_SECONDS - 1)
    assert kept.get("a", lambda: next(made)) is first
    clock.advance(2)
    again = kept.get("a", lambda: next(made))
    assert again is not None and again.value == 1


def test_slow_values_are_shown_as_they_were(clock: ManualClock) -> None:
    """While the first value is made there is none; while the next is made the older is shown, and it is made once, whoever asks."""
    kept, going_on, calls = KeptFigures(clock, patience_seconds=0.0), threading.Event(), []

    def slow() -> int:
        calls.append(1)
        going_on.wait(10)
        return len(calls)

    assert kept.get("a", slow) is None
    assert kept.get("a", slow) is None
    going_on.set()
    patient = kept._entry("a").making
    assert patient is not None
    patient.result(10)
    found = kept.get("a", slow)
    assert found is not None and (found.value, len(calls)) == (1, 1)
    going_on.clear()
    clock.advance(FRESH_SECONDS + 1)
    assert kept.get("a", slow) is found
    going_on.set()
    kept.close()


def test_what_took_long_is_good_for_long(kept: KeptFigures, clock: ManualClock) -> None:
    """A value that took t seconds is not made again within ten times that."""
    calls = []

    def slow() -> int:
        clock.advance(2.0)
        calls.append(1)
        return len(calls)

    kept.get("a", slow)
    clock.advance(2.0 * DUTY - 1)
    kept.get("a", slow)
    assert len(calls) == 1
    clock.advance(2)
    kept.get("a", slow)
    assert len(calls) == 2


def test_faults(kept: KeptFigures, clock: ManualClock) -> None:
    """A fault is told where there is nothing to show; later the older value is shown and the next try may succeed."""

    def broken() -> int:
        raise OSError("disk")

    with pytest.raises(OSError, match="disk"):
        kept.get("a", broken)
    assert kept.get("a", lambda: 1).value == 1  # type: ignore[union-attr]
    clock.advance(FRESH_SECONDS + 1)
    assert kept.get("a", broken).value == 1  # type: ignore[union-attr]
    assert kept.get("a", lambda: 2).value == 2  # type: ignore[union-attr]
