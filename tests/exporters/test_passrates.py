"""Pass rates out of the store: when it is read, and what is put together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import pytest

from monitor.clock import ManualClock
from monitor.model.totals import WindowFigures
from monitor.model.verdict import Outcome
from monitor.passrates import PassRates
from monitor.settings.tree import Settings
from monitor.store.protocol import Store
from tests.exporters.figures import FigureStore, Seen, watched


@pytest.fixture
def store() -> FigureStore:
    found = FigureStore(ManualClock())
    found.judge("m", Seen("a", found.clock.now() - 1))
    return found


def _rates(store: FigureStore, *monitors: object) -> PassRates:
    return PassRates(cast(Store, store), store.clock, lambda: monitors)  # type: ignore[arg-type, return-value]


def test_one_read_serves_all_for_a_second(store: FigureStore) -> None:
    """Whoever asks within a second gets the same reading; later ones a new one."""
    passrates = _rates(store, watched("tone"))
    for _ in range(5):
        assert len(passrates.rates()) == 3
    assert store.reads == 1
    store.clock.advance(1.0)
    passrates.rates("m")
    assert store.reads == 2


def test_slow_reads_are_repeated_less_often(store: FigureStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reading that takes three seconds is good for thirty."""
    read = store.window_figures

    def slow(monitor: str, since: Sequence[float], until: float) -> WindowFigures:
        store.clock.advance(3.0)
        return read(monitor, since, until)

    monkeypatch.setattr(store, "window_figures", slow)
    passrates = _rates(store, watched("tone"))
    passrates.rates()
    store.clock.advance(29.0)
    passrates.rates()
    assert store.reads == 1
    store.clock.advance(1.0)
    passrates.rates()
    assert store.reads == 2


def test_bounds_are_of_what_the_monitor_asks_for(store: FigureStore) -> None:
    """`bounds: window` tells what the window's own invocations did, which is known where all were judged; the default tells of the agent."""
    store.judge("m", Seen("a", store.clock.now() - 1, Outcome.FAIL))
    agent, window = (_rates(store, watched("tone", of_window=of)).rates()[0].estimate for of in (False, True))
    assert (window.lower, window.upper) == (agent.rate, agent.rate) == (0.5, 0.5)
    assert agent.lower is not None and agent.upper is not None and agent.upper - agent.lower > 0.5
    settings = {"monitors": {"m": {"rubrics": ["run_succeeded"], "bounds": "window"}}}
    assert Settings.model_validate(settings).monitors["m"].bounds == "window"


def test_a_reload_shows_at_once(store: FigureStore) -> None:
    """When the watched monitors change, what was read for the old ones is not shown for the new ones."""
    monitors = [watched("tone")]
    passrates = PassRates(cast(Store, store), store.clock, lambda: monitors)
    assert {rate.window for rate in passrates.rates()} == {"1h", "1d", "7d"}
    monitors[:] = [watched("tone", windows=(1800.0,)), watched("facts", name="other")]
    assert {(rate.group.monitor, rate.window) for rate in passrates.rates()} == {("m", "30m")}
    assert passrates.rates("other") == []


def test_groups_are_told_apart(store: FigureStore) -> None:
    """Agents, versions, environments and rubric versions have pass rates of their own; rubrics that are not watched have none."""
    now = store.clock.now() - 1
    for seen in (
        Seen("a", now, Outcome.FAIL, agent_version="2"),
        Seen("a", now, Outcome.FAIL, environment="staging"),
        Seen("a", now, Outcome.FAIL, rubric_version="bbbbbbbbbbbb"),
        Seen("b", now, Outcome.FAIL),
        Seen("a", now, Outcome.FAIL, rubric="gone"),
    ):
        store.judge("m", seen)
    rates = _rates(store, watched("tone", windows=(60.0,))).rates()
    assert sorted(rate.estimate.rate or 0.0 for rate in rates) == [0.0, 0.0, 0.0, 0.0, 1.0]
    assert len({rate.group for rate in rates}) == 5
