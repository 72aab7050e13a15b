"""Pass rates of the watched monitors: what the store has counted, estimated. Exporters, API and status read the same numbers here.

A window is `now - length` to now by the invocation's end. One read of the store serves everybody who asks within `max_age_seconds`; where
the read is slow it is repeated less often, so that scrapes never take more than a tenth of a core however much there is to add up.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from monitor.clock import Clock
from monitor.estimation.judge_error import Corrected
from monitor.estimation.passrate import Estimate, estimate
from monitor.model.totals import Totals, WindowFigures
from monitor.model.watched import WatchedMonitor
from monitor.settings.units import duration_text
from monitor.store.protocol import Store

DUTY = 10.0
"""A read that took t seconds is good for at least DUTY * t."""


class Group(NamedTuple):
    """What a pass rate is about; unknown versions and environments are the empty text."""

    monitor: str
    rubric: str
    rubric_version: str
    agent: str
    agent_version: str
    environment: str


@dataclass(frozen=True, slots=True)
class PassRate:
    """The pass rate of a group in a window (`1h`). `coverage` is the judged share of the eligible invocations, None where none is known; `corrected`
    the rate corrected for the judge's errors, None where that is refused.
    """

    group: Group
    window: str
    estimate: Estimate
    coverage: float | None
    corrected: Corrected | None = None


Correct = Callable[[Group, Estimate], Corrected | None]
"""Corrects the pass rate of a group for its judge's errors, as far as those are known."""


@dataclass(frozen=True, slots=True)
class MonitorFigures:
    """A monitor, what the store has counted for its windows, and how its rates are corrected."""

    monitor: WatchedMonitor
    figures: WindowFigures
    correct: Correct | None = None


Fold = Callable[[Group], Group]
"""Which group a group is shown in; groups shown as one are estimated as one."""


class PassRates:
    """The pass rates of all watched monitors. May be read from any thread; blocks while the store is read."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        watched: Callable[[], Sequence[WatchedMonitor]],
        max_age_seconds: float = 1.0,
        correct: Correct | None = None,
    ) -> None:
        self._store = store
        self._correct = correct
        self._clock = clock
        self._watched = watched
        self._max_age_seconds = max_age_seconds
        self._lock = threading.Lock()
        self._figures: tuple[MonitorFigures, ...] = ()
        self._read_for: tuple[WatchedMonitor, ...] | None = None
        self._good_until = 0.0

    def figures(self) -> Sequence[MonitorFigures]:
        """Each watched monitor with its sums, at most `max_age_seconds` old where reading is quick. Raises what the store raises."""
        with self._lock:
            watched = tuple(self._watched())
            started = self._clock.monotonic()
            if watched != self._read_for or started >= self._good_until:
                now = self._clock.now()
                self._figures = tuple(
                    MonitorFigures(monitor, self._read(monitor, now), self._correct) for monitor in watched
                )
                self._read_for = watched
                ended = self._clock.monotonic()
                self._good_until = ended + max(self._max_age_seconds, DUTY * (ended - started))
            return self._figures

    def rates(self, monitor: str | None = None) -> Sequence[PassRate]:
        """The pass rates of one monitor or of all."""
        wanted = (one for one in self.figures() if monitor in (None, one.monitor.name))
        return [rate for one in wanted for rate in pass_rates(one)]

    def _read(self, monitor: WatchedMonitor, now: float) -> WindowFigures:
        return self._store.window_figures(monitor.name, [now - length for length in monitor.windows], now)


@dataclass(frozen=True, slots=True)
class Known:
    """A pass rate with what it was made of; `rule` is how its monitor wants it estimated."""

    rule: tuple[float, bool, bool]
    totals: Totals
    rate: PassRate | None


Memory = dict[tuple[str, int, Group], Known]
"""Pass rates by monitor, window and group. Who asks again and again hands in the one of before, and gets the same objects for what has not changed."""


def pass_rates(
    counted: MonitorFigures, fold: Fold = lambda group: group, memory: Memory | None = None
) -> Sequence[PassRate]:
    """Estimates from counts: one for each window and shown group with anything judged, or tried to; rubrics no longer watched are left out."""
    monitor = counted.monitor
    sums = _sums(counted, fold)
    eligible = _eligible(counted, {(group.rubric, group.rubric_version) for _, group in sums}, fold)
    memory = {} if memory is None else memory
    found = []
    for (window, group), totals in sums.items():
        key = (monitor.name, window, group)
        known = memory.get(key)
        share = _coverage(totals, eligible.get((window, group), 0.0))
        rate = _rate(counted, window, group, totals, share, known)
        if known is None or known.rate is not rate or rate is None:
            memory[key] = Known(_rule(monitor), totals, rate)
        if rate is not None:
            found.append(rate)
    return found


def _sums(counted: MonitorFigures, fold: Fold) -> Mapping[tuple[int, Group], Totals]:
    """The totals of each window and shown group."""
    name, watched = counted.monitor.name, {rubric.rubric for rubric in counted.monitor.rubrics}
    sums: dict[tuple[int, Group], Totals] = {}
    for row in counted.figures.totals:
        if row.rubric in watched:
            group = Group(name, row.rubric, row.rubric_version, row.agent, row.agent_version, row.environment)
            key = (row.window, fold(group))
            before = sums.get(key)
            sums[key] = row.totals if before is None else before + row.totals
    return sums


def _rule(monitor: WatchedMonitor) -> tuple[float, bool, bool]:
    return monitor.max_unscored, monitor.exact, monitor.of_window


def _estimated(totals: Totals, monitor: WatchedMonitor) -> Estimate | None:
    return estimate(totals, monitor.max_unscored, exact=monitor.exact, of_window=monitor.of_window)


def _rate(
    counted: MonitorFigures, window: int, group: Group, totals: Totals, share: float | None, known: Known | None
) -> PassRate | None:
    """The pass rate of these totals; the known one where it is the same."""
    monitor = counted.monitor
    same = known is not None and known.rule == _rule(monitor) and known.totals == totals
    before = known.rate if same and known is not None else None
    if same and before is None:
        return None
    estimated = before.estimate if before else _estimated(totals, monitor)
    if estimated is None:
        return None
    corrected = counted.correct(group, estimated) if counted.correct else None
    if before is not None and before.coverage == share and before.corrected == corrected:
        return before
    return PassRate(group, duration_text(monitor.windows[window]), estimated, share, corrected)


def _eligible(counted: MonitorFigures, versions: set[tuple[str, str]], fold: Fold) -> Mapping[tuple[int, Group], float]:
    """Eligible invocations by shown group: they are the same for each rubric version, but may be folded differently."""
    found: dict[tuple[int, Group], float] = defaultdict(float)
    for row in counted.figures.eligible:
        for rubric, version in versions:
            group = Group(counted.monitor.name, rubric, version, row.agent, row.agent_version, row.environment)
            found[row.window, fold(group)] += row.count
    return found


def _coverage(totals: Totals, eligible: float) -> float | None:
    """Invocations with a verdict that says something of them, by those that were eligible."""
    judged = totals.passed + totals.failed + totals.not_applicable
    return min(1.0, judged / eligible) if eligible > 0 else None
