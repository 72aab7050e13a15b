"""Detection over the store: reads the log of first verdicts on, folds it into the series, keeps what came of it.

The cursor, the series and the alarms are kept in one transaction, and only if the cursor is still where it was read from: a process that dies between
two steps reads the same verdicts again, and two processes cannot both count one.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from monitor.clock import Clock
from monitor.model.evidence import LoggedVerdict, RegressionState, SeriesKey
from monitor.model.watched import WatchedMonitor, WatchedRubric
from monitor.regression.dimension import decisive_dimension
from monitor.regression.rule import VERSIONS_PER_FALSE_ALARM, Traffic, kinds_of_test, promised_verdicts
from monitor.regression.series import Series, Terms
from monitor.store.protocol import Store

LOG = logging.getLogger(__name__)

BATCH = 500
_LOGGED = ("id", "monitor", "rubric", "agent", "environment", "agent_version", "instrument_trouble")
LOOK_BACK_SECONDS = 7 * 86400.0
"""How far before a drop its criteria are compared with."""


@dataclass(frozen=True, slots=True)
class Watching:
    """One series as gauges show it: the alarm that stands (JSON) or None, and log evidence with the log that it takes."""

    key: SeriesKey
    open: Mapping[str, Any] | None
    log_evidence: float | None
    log_threshold: float | None
    last_at: float


class Detection:
    """Regression detection of all watched monitors. Blocks on the store; may be called from any thread.

    `moved` gives the rubric versions whose judge answers golden cases worse than it did: alarms of those are marked as trouble of the instrument.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        watched: Callable[[], Sequence[WatchedMonitor]],
        moved: Callable[[], Collection[str]] = frozenset,
    ) -> None:
        self._store, self._clock, self._watched, self._moved = store, clock, watched, moved
        self._lock = threading.Lock()
        self._loaded = False
        self._cursor = 0
        self._traffic: dict[str, Traffic] = {}
        self._series: dict[SeriesKey, Series] = {}

    def step(self) -> bool:
        """Read the log on; whether there may be more. Raises what the store raises; nothing is lost then."""
        with self._lock:
            self._load()
            rows = self._store.verdict_log(self._cursor, BATCH)
            if not rows:
                return False
            try:
                self._fold(rows)
            except BaseException:
                self._loaded = False  # what is in memory is half of a step: begin again from what is kept
                raise
            return len(rows) == BATCH

    def _load(self) -> None:
        if self._loaded:
            return
        kept = self._store.regression_state()
        self._cursor = kept.cursor
        self._traffic = {name: Traffic.from_json(one) for name, one in kept.monitors.items()}
        self._series = {key: Series.from_json(one) for key, one in kept.series.items()}
        self._loaded = True

    def _fold(self, rows: Sequence[LoggedVerdict]) -> None:
        places = {(m.name, r.rubric): (m, r) for m in self._watched() for r in m.rubrics}
        touched: dict[SeriesKey, Series] = {}
        alarms: dict[str, dict[str, Any]] = {}
        for row in rows:
            monitor, rubric = places.get((row.monitor, row.rubric), (None, None))
            if monitor is None or rubric is None or not kinds_of_test(monitor, rubric):
                continue
            traffic = self._traffic[row.monitor] = self._traffic.get(row.monitor, Traffic()).counted(row.judged_at)
            series = self._series.setdefault(row.series, Series(row.rubric_version))
            terms = _terms(monitor, rubric, traffic.per_second(row.judged_at))
            for alarm in series.add(row, rubric, terms):
                alarms[alarm["id"]] = alarm
            touched[row.series] = series
        for alarm in alarms.values():
            self._complete(alarm)
        self._keep(rows[-1].seq, touched, alarms)

    def _keep(self, cursor: int, touched: Mapping[SeriesKey, Series], alarms: Mapping[str, Mapping[str, Any]]) -> None:
        state = RegressionState(
            cursor,
            {name: traffic.as_json() for name, traffic in self._traffic.items()},
            {key: series.as_json() for key, series in touched.items()},
        )
        if not self._store.save_regression_state(self._cursor, state, alarms):
            self._loaded = False  # another process has read on: go on from where it is
            return
        self._cursor = cursor
        for alarm in alarms.values():
            LOG.warning(
                "regression %s",
                alarm["state"],
                extra={key: alarm[key] for key in _LOGGED if key in alarm},
            )

    def _complete(self, alarm: dict[str, Any]) -> None:
        """Name the decisive criterion of an alarm that has just been opened."""
        alarm["instrument_trouble"] = alarm["rubric_version"] in self._moved()
        if alarm["state"] != "open" or alarm["dimension"] is not None:
            return
        key = SeriesKey(alarm["monitor"], alarm["rubric"], alarm["agent"], alarm["environment"] or "")
        rows = self._store.criterion_scores(
            key, alarm["rubric_version"], alarm["since"] - LOOK_BACK_SECONDS, self._clock.now()
        )
        found = decisive_dimension(rows, alarm["since"])
        if found is not None:
            alarm["dimension"] = {"id": found.id, "before": found.before, "since": found.since}

    # -- what others ask
    def alarms(self) -> Sequence[Mapping[str, Any]]:
        """All alarms, newest first; of those that stand, whether the instrument is in doubt now."""
        in_doubt = self._moved()
        return [
            {**alarm, "instrument_trouble": alarm["rubric_version"] in in_doubt} if alarm["state"] == "open" else alarm
            for alarm in self._store.regressions()
        ]

    def watching(self) -> Sequence[Watching]:
        """Every series of a watched monitor and rubric in its version in force, with its evidence."""
        tests = {(m.name, r.rubric): kinds_of_test(m, r) for m in self._watched() for r in m.rubrics}
        versions = {(m.name, r.rubric): r.version for m in self._watched() for r in m.rubrics}
        with self._lock:
            self._load()
            found = []
            for key, series in self._series.items():
                if not tests.get((key.monitor, key.rubric)):
                    continue
                current = series.rubric_version == versions[key.monitor, key.rubric]
                evidence, threshold = (series.margin() if current else None) or (None, None)
                found.append(Watching(key, series.open if current else None, evidence, threshold, series.last_at))
            return found

    def acknowledge(self, alarm_id: str) -> Mapping[str, Any] | None:
        """End an alarm that stands: the series collects evidence anew. The alarm as it is now, or None where none of that id stands."""
        with self._lock:
            self._load()
            for key, series in self._series.items():
                if series.open is not None and series.open["id"] == alarm_id:
                    closed = series.close("acknowledged", self._clock.now())
                    self._keep(self._cursor, {key: series}, {alarm_id: closed})
                    return closed
            return None


def _terms(monitor: WatchedMonitor, rubric: WatchedRubric, per_second: float) -> Terms:
    rule = monitor.regression
    kinds = kinds_of_test(monitor, rubric)
    rubrics = sum(1 for one in monitor.rubrics if kinds_of_test(monitor, one))
    return Terms(
        kinds,
        promised_verdicts(monitor, per_second),
        VERSIONS_PER_FALSE_ALARM * max(1, rubrics),
        rule.clear_after,
        rule.baseline,
        rule.tolerance,
    )
