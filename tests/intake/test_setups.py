"""What agents are set up with in traces of their own reaches their runs, whenever it comes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from monitor.intake import setups
from monitor.store.sqlite import SqliteStore
from tests.intake.desk import Desk
from tests.intake.traffic import Sent, agent, trace_id, traces


def setup(number: int, rule: str, at: float, service_agent: str = "desk") -> Sent:
    """A span that sets an agent up, in a trace `s<number>`."""
    attributes = {
        "gen_ai.operation.name": "create_agent",
        "gen_ai.agent.name": service_agent,
        "gen_ai.system_instructions": json.dumps([{"type": "text", "content": rule}]),
    }
    return Sent(f"s{number}", f"s{number}.root", start=at, end=at + 0.1, attributes=attributes)


def instructions(desk: Desk, trace: str) -> tuple[int, str | None]:
    """Revision and system instructions of the one invocation of a trace."""
    found = desk.settled_into.trace(trace_id(trace).hex())
    assert found is not None
    [one] = found.invocations
    return one.invocation.revision, one.invocation.system_instructions


@pytest.fixture
def real(open_desk: Callable[..., Desk], tmp_path: Path) -> Desk:
    """A desk over the real store."""
    made = open_desk()
    made.settled_into = SqliteStore(tmp_path)
    made.restart()
    return made


@pytest.mark.parametrize("restart", [False, True])
def test_a_run_has_the_newest_set_up_before_it(real: Desk, restart: bool) -> None:
    """Also after a restart, when it is read from the store; another agent's and a later one do not count; no trace counts twice."""
    real.send(traces(setup(1, "Old.", -20.0), setup(2, "New.", -10.0), setup(3, "Other.", -5.0, "clerk")))
    real.send(traces(setup(4, "Later.", 100.0)))
    real.wait(31.0)
    if restart:
        real.restart()
    real.send(traces(agent("t")))
    done = real.wait(31.0)
    assert (done.traces, done.spans, done.invocations, done.duplicates, done.late) == (1, 1, 1, 0, 0)
    assert instructions(real, "t") == (1, "New.")


def test_in_one_step_the_order_does_not_matter(real: Desk) -> None:
    """Run and set-up settle together, the run first: one revision."""
    real.send(traces(agent("t")))
    real.send(traces(setup(1, "Be brief.", -10.0)))
    real.wait(31.0)
    assert instructions(real, "t") == (1, "Be brief.")


def test_a_set_up_that_comes_late_revises_its_runs(real: Desk) -> None:
    """A run that was stored without it, and what comes late for that run keeps it."""
    real.send(traces(agent("t")))
    real.wait(31.0)
    assert instructions(real, "t") == (1, None)
    real.send(traces(setup(1, "Be brief.", -10.0)))
    done = real.wait(31.0)
    assert (done.traces, done.invocations, done.revised) == (1, 0, 1)
    assert instructions(real, "t") == (2, "Be brief.")
    real.send(traces(agent("t", answer="Until seven, I think, or eight.", end=4.5)))
    real.wait(31.0)
    assert instructions(real, "t") == (3, "Be brief.")


@pytest.mark.parametrize("heads_first", [False, True])
def test_a_set_up_that_cannot_be_read_stops_no_run(
    real: Desk, monkeypatch: pytest.MonkeyPatch, heads_first: bool
) -> None:
    """A fault of ours in reading a stored set-up again: runs of the agent settle without it."""

    def broken(*_: object) -> None:
        raise IndexError

    real.send(traces(setup(1, "Be brief.", -10.0)))
    real.wait(31.0)
    real.configure(heads_first=heads_first)
    real.restart()
    monkeypatch.setattr(setups, "ties", broken)
    real.send(traces(agent("t"), agent("u")))
    assert real.wait(31.0).fault is None
    assert (instructions(real, "t"), instructions(real, "u")) == ((1, None), (1, None))
    assert real.index.open_items == 0
