"""Somebody puts the wall clock forward or back while traces are open."""

from __future__ import annotations

import pytest

from tests.intake.desk import Desk
from tests.intake.traffic import agent, run, tool, traces

HOUR = 3600.0


@pytest.mark.parametrize("step", [HOUR, -HOUR, 400 * 24 * HOUR])
def test_silence_is_what_passes_and_not_what_the_clock_says(desk: Desk, step: float) -> None:
    """A clock that is moved ends no trace early and holds none up; when it settled is the wall time."""
    desk.send(traces(*run("whole")))
    desk.send(traces(tool("open")))
    desk.wait(10.0)
    desk.clock.step(step)
    assert desk.wait(19.0).traces == 0
    assert desk.wait(1.0).traces == 1
    assert desk.store.saved[0].settled_at == desk.clock.now()
    desk.send(traces(*run("after")))
    assert desk.wait(29.0).traces == 0
    assert desk.wait(1.0).traces == 1
    desk.send(traces(agent("open")))
    assert desk.wait(30.0).traces == 1
    assert desk.store.saved[-1].settled_by == "root_ended"
    assert desk.index.open_items == 0


def test_what_came_before_the_clock_was_put_back_settles_after_a_restart(desk: Desk) -> None:
    """Data that the journal dates an hour ahead wait no longer than others, and keep their early data and their place."""
    desk.send(traces(agent("t")))
    desk.clock.step(-HOUR)
    desk.restart()
    desk.send(traces(tool("t")))
    assert desk.wait(29.0).traces == 0
    assert desk.wait(1.0).traces == 1
    assert desk.store.saved[0].span_count == 2
    desk.wait(HOUR)
    assert [segment for segment in desk.journal.segments() if segment < desk.journal.active] == []
