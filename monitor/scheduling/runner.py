"""One tick of one monitor: its settings, the draw, and the store's transaction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from monitor.clock import Clock
from monitor.model.run import Candidate, Level, RubricRef, Run, RunPlan, RunRequest
from monitor.sampling import PastVerdicts, draw, looks_at_tools, sampling_rule
from monitor.scheduling.ticks import Ticks, due_ticks, previous_tick, ticks_of
from monitor.settings.tree import MonitorSettings
from monitor.store.protocol import Store

_HOUR = 3600.0
_PAST_SECONDS = 7 * 86400.0


@dataclass(frozen=True, slots=True)
class ScheduledMonitor:
    """A monitor as it is run: its settings, the rubric versions that it draws for, and whether any of them needs a judge."""

    settings: MonitorSettings
    rubrics: tuple[RubricRef, ...]
    needs_judge: bool


class Budgeting(Protocol):
    """What budgets say of draws. Blocks on the store; called from worker threads, one call at a time for each monitor."""

    def allow(self, monitor: str, rubrics: Sequence[RubricRef], hours: float) -> int | None:
        """The most that a run may draw, `hours` after the previous one; None where no budget says."""
        ...

    def drawn(self, monitor: str, count: int) -> None:
        """A run has drawn so many."""
        ...


class Runner:
    """Runs ticks. Blocks on the store; call it from a worker thread, one call at a time for each monitor."""

    def __init__(self, store: Store, clock: Clock, budgets: Budgeting | None = None) -> None:
        self._store = store
        self._clock = clock
        self._budgets = budgets

    def run_tick(self, name: str, monitor: ScheduledMonitor, tick: float) -> Run | None:
        """Run a tick: consider, draw, leave pending evaluations. None when it was already run, here or by another process.

        The cap counts the hours since the previous tick that was completed, so a tick that failed leaves its share to the next.
        """
        rule = sampling_rule(monitor.settings, needs_judge=monitor.needs_judge)
        hours = self._hours(name, ticks_of(monitor.settings.schedule), tick)
        past = self._past(name, tick) if rule.neyman else {}
        if self._budgets is not None:
            rule = replace(rule, afford=self._budgets.allow(name, monitor.rubrics, hours))

        def decide(candidates: Sequence[Candidate], carry: float) -> RunPlan:
            return replace(draw(candidates, rule, carry, hours, past), decided_at=self._clock.now())

        run = self._store.execute_run(self._request(name, monitor, tick), decide)
        if run is not None and self._budgets is not None:
            self._budgets.drawn(name, run.drawn)
        return run

    def _past(self, name: str, tick: float) -> dict[str, PastVerdicts]:
        """What the strata of the week before the tick showed; read before anybody of this run is drawn."""
        counts = self._store.stratum_verdicts(name, tick - _PAST_SECONDS, tick)
        return {stratum: PastVerdicts(passed, failed) for stratum, (passed, failed) in counts.items()}

    def miss_tick(self, name: str, monitor: ScheduledMonitor, tick: float) -> Run | None:
        """Record the newest tick that is not caught up; it stands for all older ones."""
        return self._store.miss_run(self._request(name, monitor, tick))

    def fail_tick(self, name: str, monitor: ScheduledMonitor, tick: float, error: str) -> None:
        """Record that a tick failed; it stays due."""
        self._store.fail_run(self._request(name, monitor, tick), error)

    def due(self, name: str, monitor: ScheduledMonitor, since: float) -> tuple[float | None, tuple[float, ...]]:
        """The newest missed tick, or None, and the ticks to run now, oldest first.

        Ticks are due since the newest completed one. A monitor that was never run is due since its oldest waiting invocation settled, or
        since `since`, when it was set up: so one whose every tick fell into a restart still considers what it should have. After the clock was put
        back, when the newest completed tick lies ahead, it goes on from `since`.
        """
        now = self._clock.now()
        last = self._store.last_run(name, completed=True)
        if last is not None and last.tick <= now:
            after = last.tick
        else:
            waiting = self._store.oldest_waiting(name) if last is None else None
            after = since if waiting is None else min(since, waiting)
        found = due_ticks(ticks_of(monitor.settings.schedule), after, now, monitor.settings.schedule.catch_up)
        return found.missed, found.run

    def _request(self, name: str, monitor: ScheduledMonitor, tick: float) -> RunRequest:
        return RunRequest(
            name,
            tick,
            settled_before=tick,
            rubrics=monitor.rubrics,
            started_at=self._clock.now(),
            level=Level(monitor.settings.level),
            by_tools=looks_at_tools(monitor.settings),
        )

    def _hours(self, name: str, ticks: Ticks, tick: float) -> float:
        last = self._store.last_run(name, completed=True)
        previous = last.tick if last is not None and last.tick < tick else previous_tick(ticks, tick)
        return 0.0 if previous is None else (tick - previous) / _HOUR
