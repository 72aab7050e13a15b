"""Labels over the store: draws for people, what they said, what that says of judges. Blocks; may be called from any thread."""

from __future__ import annotations

import hashlib
import math
import threading
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from monitor.clock import Clock
from monitor.estimation.judge_error import Calibration, Corrected
from monitor.estimation.passrate import Estimate
from monitor.estimation.weighting import effective_sample_size
from monitor.labels.draw import draw_for_labels
from monitor.labels.instrument import AgreementKey, agreement_ratios, human_agreement, moved
from monitor.labels.report import LabelReport, calibration, corrected_rate, report, settled_labels
from monitor.model.invocation import Invocation
from monitor.model.labels import Against, HumanLabel, JudgeCheck, LabelDraw, Labelled
from monitor.model.run import Judged
from monitor.model.watched import WatchedMonitor, WatchedRubric
from monitor.store.protocol import Store

WEEK = 7 * 86400.0
LOOK_BACK_SECONDS = 180 * 86400.0
CHECKS_SECONDS = 30 * 86400.0
"""Self-checks and rounds of golden sets older than this say nothing of today's judge; a golden set's first round is older still, and kept in mind."""

MAX_AGE_SECONDS = 10.0
VersionKey = tuple[str, str, str]
"""Monitor, rubric, rubric version."""


class UnknownSeries(ValueError):
    """A monitor or rubric that is not configured; the message names those that are."""


@dataclass(frozen=True, slots=True)
class _Known:
    """One reading of labels and checks."""

    labels: Sequence[Labelled]
    checks: Sequence[JudgeCheck]
    calibrations: Mapping[VersionKey, Calibration]


class Labels:
    """People's labels and repeated judgements, and what is made of them."""

    def __init__(self, store: Store, clock: Clock, watched: Callable[[], Sequence[WatchedMonitor]]) -> None:
        self._store, self._clock, self._watched = store, clock, watched
        self._lock = threading.Lock()
        self._known: _Known | None = None
        self._good_until = 0.0

    # -- for people
    def draw(self, monitor: str, rubric: str, size: int, since: float) -> Sequence[tuple[LabelDraw, Invocation | None]]:
        """Draw up to `size` judged invocations that ended since a time (seconds), for a rubric in its version in force; kept before it is returned.

        Raises UnknownSeries.
        """
        found, now = self._find(monitor, rubric), self._clock.now()
        judged = self._store.judged(monitor, since, now)
        name = f"{datetime.fromtimestamp(now, UTC):%Y%m%d}-{_short(f'{monitor}/{rubric}/{now}/{size}')}"
        draws = draw_for_labels(judged, monitor, rubric, found.version, size, name, now)
        self._store.save_label_draws(draws)
        return [(draw, self._store.invocation(draw.invocation_id)) for draw in draws]

    def take(self, labels: Sequence[HumanLabel]) -> Sequence[int]:
        """Keep labels; the places of those that are about nothing that is known."""
        refused = self._store.save_labels(labels, self._clock.now())
        with self._lock:
            self._good_until = 0.0
        return refused

    def reports(self, monitor: str | None = None, rubric: str | None = None) -> Sequence[LabelReport]:
        """What labels say of each watched rubric that has any."""
        if monitor is not None:
            self._named(monitor)
        now, groups = self._clock.now(), settled_labels(self._read().labels)
        found = []
        for one in self._watched():
            wanted = [r for r in one.rubrics if (one.name, r.rubric) in groups and rubric in (None, r.rubric)]
            if not wanted or monitor not in (None, one.name):
                continue
            judged = self._store.judged(one.name, now - WEEK, now)
            found += [report((one.name, r.rubric), groups[one.name, r.rubric], _observed(judged, r)) for r in wanted]
        return found

    def disagreements(self, monitor: str, rubric: str) -> Sequence[Labelled]:
        """Labels that the judge's verdict differs from; with comments, which are content."""
        labels = self._read().labels
        return [
            one
            for one in labels
            if (one.monitor, one.rubric) == (monitor, rubric)
            and one.label in ("pass", "fail")
            and one.label != one.verdict
        ]

    # -- for figures
    def calibrations(self) -> Mapping[VersionKey, Calibration]:
        """How each rubric version's judge answered what was drawn and labelled."""
        return self._read().calibrations

    def correct(self, group: tuple[str, ...], estimate: Estimate) -> Corrected | None:
        """The pass rate of a group (monitor, rubric, rubric version, …) corrected for its judge's errors; None where that is refused, or nothing was
        judged.
        """
        monitor, rubric, version = group[:3]
        found = self.calibrations().get((monitor, rubric, version))
        if found is None or estimate.rate is None:
            return None
        return corrected_rate(estimate.rate, estimate.effective_samples, found)

    def agreement(self) -> Mapping[AgreementKey, float]:
        """The share of equal answers of each judge in force, against golden cases, itself, and people."""
        known, inforce = self._read(), {r.version: r for m in self._watched() for r in m.rubrics if r.judge}
        recent = self._clock.now() - CHECKS_SECONDS
        checks = [one for one in known.checks if one.rubric_version in inforce and one.checked_at >= recent]
        found = dict(agreement_ratios(checks))
        people: dict[tuple[str, str], list[Labelled]] = defaultdict(list)
        for one in known.labels:
            rubric = inforce.get(one.rubric_version)
            if rubric is not None and rubric.judge is not None:
                people[one.rubric, rubric.judge].append(one)
        for (name, judge), labels in people.items():
            share = human_agreement([row for rows in settled_labels(labels).values() for row in rows])
            if share is not None:
                found[AgreementKey(name, judge, Against.HUMAN)] = share
        return found

    def moved(self) -> frozenset[str]:
        """Rubric versions whose judge answers golden cases worse than it first did."""
        return moved(self._read().checks)

    def _read(self) -> _Known:
        with self._lock:
            if self._known is None or self._clock.monotonic() >= self._good_until:
                since = self._clock.now() - LOOK_BACK_SECONDS
                labels = self._store.labelled(since)
                self._known = _Known(labels, self._store.judge_checks(since), _calibrations(labels))
                self._good_until = self._clock.monotonic() + MAX_AGE_SECONDS
            return self._known

    def _find(self, monitor: str, rubric: str) -> WatchedRubric:
        rubrics = {one.rubric: one for one in self._named(monitor).rubrics}
        if rubric not in rubrics:
            raise UnknownSeries(
                f"monitor {monitor} judges by no rubric {rubric!r}; its rubrics are {', '.join(sorted(rubrics))}"
            )
        return rubrics[rubric]

    def _named(self, monitor: str) -> WatchedMonitor:
        monitors = {one.name: one for one in self._watched()}
        if monitor not in monitors:
            raise UnknownSeries(f"no monitor is called {monitor!r}; the monitors are {', '.join(sorted(monitors))}")
        return monitors[monitor]


def _calibrations(labels: Sequence[Labelled]) -> Mapping[VersionKey, Calibration]:
    versions: dict[VersionKey, Calibration] = {}
    for (monitor, rubric), judgements in settled_labels(labels).items():
        for version in {one.rubric_version for one in judgements}:
            versions[monitor, rubric, version] = calibration(judgements, version)
    return versions


def _observed(judged: Sequence[Judged], rubric: WatchedRubric) -> tuple[float, float] | None:
    """The judge's pass rate of a rubric in force and its effective samples, None where nothing passed or failed."""
    rows = [
        (row.outcome == "pass", 1.0 / row.inclusion_probability)
        for row in judged
        if row.rubric == rubric.rubric and row.rubric_version == rubric.version and row.outcome in ("pass", "fail")
    ]
    if not rows:
        return None
    total = math.fsum(weight for _, weight in rows)
    size = effective_sample_size(total, math.fsum(weight * weight for _, weight in rows))
    return math.fsum(weight for passed, weight in rows if passed) / total, size


def _short(text: str) -> str:
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()[:8]
