"""One series: a fold over its first verdicts. Pure; the same verdicts in the same order give the same alarms, after any restart."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from monitor.estimation.detector import Detector, Turns
from monitor.estimation.intervals import normal_quantile, wilson_with
from monitor.model.evidence import LoggedVerdict
from monitor.model.watched import WatchedRubric
from monitor.regression.versions import VersionTest

MOST_FAILING = 20
SHOWN_FAILING = 5
BASELINE_CONFIDENCE = 0.95
_OPEN_BOUNDS = 1e-3
"""Targets keep away from 0 and 1, where no drop can be told."""

OBJECTIVE, BASELINE, VERSION = "objective", "baseline", "version"


@dataclass(frozen=True, slots=True)
class Terms:
    """What a series is tested by at this moment: the kinds of test, the verdicts promised between false alarms, and the rule's numbers."""

    kinds: tuple[str, ...]
    promised: float
    version_limit: float
    clear_after: int = 50
    baseline: int = 500
    tolerance: float = 0.02


@dataclass(slots=True)
class Reference:
    """The frozen beginning of a series: sums of weights until there are enough judged, then never changed."""

    judged: int = 0
    weight: float = 0.0
    passed: float = 0.0
    squared: float = 0.0

    def add(self, row: LoggedVerdict) -> None:
        """Take one more of the first verdicts."""
        weight = 1.0 / row.inclusion_probability
        self.judged += 1
        self.weight += weight
        self.passed += weight * row.passed
        self.squared += weight * weight

    def target(self, tolerance: float) -> float:
        """The rate not to fall below: the one-sided lower bound of the reference's rate, less the tolerance."""
        size = self.weight**2 / self.squared
        lower, _ = wilson_with(self.passed / self.weight, size, normal_quantile(BASELINE_CONFIDENCE))
        return lower - tolerance


@dataclass(slots=True)
class Series:
    """The state of one series. `open` is the alarm that stands, as JSON; `since_alarm` the [passed, weight] of what was judged since."""

    rubric_version: str
    judged: int = 0
    last_at: float = 0.0
    detectors: dict[str, Detector] = field(default_factory=dict)
    reference: Reference = field(default_factory=Reference)
    versions: VersionTest = field(default_factory=VersionTest)
    turns: Turns = field(default_factory=Turns)
    failing: list[dict[str, Any]] = field(default_factory=list)
    open: dict[str, Any] | None = None
    since_alarm: list[list[float]] = field(default_factory=list)
    promised: float = 0.0
    version_limit: float = 0.0

    def add(self, row: LoggedVerdict, rubric: WatchedRubric, terms: Terms) -> list[dict[str, Any]]:
        """Take a verdict; the alarms that it opened or closed, as JSON."""
        changed = []
        if row.rubric_version != self.rubric_version:
            if row.rubric_version != rubric.version:
                return []  # a straggler of an older version says nothing of the series in force
            if self.open is not None:
                changed.append(self.close("superseded", row.judged_at))
            self._begin_anew(row.rubric_version)
        self.judged += 1
        self.last_at = max(self.last_at, row.judged_at)
        self.promised, self.version_limit = terms.promised, terms.version_limit
        self._collect(row, rubric, terms)
        if not row.passed:
            self._remember(row)
        if self.open is not None:
            return changed + self._towards_clearing(row, terms)
        return changed + self._towards_alarm(row, terms)

    def _begin_anew(self, rubric_version: str) -> None:
        fresh = Series(rubric_version)
        for one in fields(self):
            setattr(self, one.name, getattr(fresh, one.name))

    # -- evidence
    def _collect(self, row: LoggedVerdict, rubric: WatchedRubric, terms: Terms) -> None:
        share = self.turns.share(row.turn)  # known before this verdict: the usual size is that of what came before
        self.turns = self.turns.seen(row.turn)
        if VERSION in terms.kinds:
            self.versions.add(row)
        for kind, target in self._targets(row, rubric, terms):
            detector = self.detectors.get(kind)
            if detector is None or detector.target != target:
                detector = Detector(target)
            self.detectors[kind] = detector.add(row.passed, row.ended_at, row.weight, share) if share > 0 else detector
        for kind in [kind for kind in self.detectors if kind not in terms.kinds]:
            del self.detectors[kind]

    def _targets(self, row: LoggedVerdict, rubric: WatchedRubric, terms: Terms) -> list[tuple[str, float]]:
        found = []
        if OBJECTIVE in terms.kinds and rubric.objective is not None:
            found.append((OBJECTIVE, _inside(rubric.objective)))
        if BASELINE in terms.kinds:
            if self.reference.judged >= terms.baseline:
                found.append((BASELINE, _inside(self.reference.target(terms.tolerance))))
            else:
                self.reference.add(row)
        return found

    def _remember(self, row: LoggedVerdict) -> None:
        self.failing.append(
            {
                "invocation_id": row.invocation_id,
                "trace_id": row.trace_id,
                "ended_at": row.ended_at,
                "agent_version": row.agent_version or None,
            }
        )
        del self.failing[:-MOST_FAILING]

    # -- alarms
    def margin(self) -> tuple[float, float] | None:
        """Log evidence and the log it takes for an alarm, of the test that is nearest to one; None without evidence."""
        found = [
            (detector.log_evidence, math.log(self.promised))
            for detector in self.detectors.values()
            if detector.log_evidence is not None and self.promised > 0
        ]
        if self.versions.test.pairs and self.version_limit > 0:
            found.append((self.versions.test.log_evidence, math.log(self.version_limit)))
        return max(found, key=lambda pair: pair[0] - pair[1], default=None)

    def _towards_alarm(self, row: LoggedVerdict, terms: Terms) -> list[dict[str, Any]]:
        for kind, detector in self.detectors.items():
            if detector.evidence >= terms.promised:
                return [self._alarm(kind, row, detector.target, detector.since, detector.log_evidence or 0.0)]
        versions = self.versions
        if VERSION in terms.kinds and not versions.done and versions.test.log_evidence >= math.log(terms.version_limit):
            versions.done = True
            rate, _ = versions.rates
            return [self._alarm(VERSION, row, _inside(rate or 0.5), None, versions.test.log_evidence)]
        return []

    def _alarm(
        self, kind: str, row: LoggedVerdict, target: float, since: float | None, log_evidence: float
    ) -> dict[str, Any]:
        if kind == VERSION:
            failing = [one for one in self.failing if one["agent_version"] == self.versions.current]
            since = failing[0]["ended_at"] if failing else row.ended_at
        else:
            failing = [one for one in self.failing if one["ended_at"] >= (since or 0.0)] or self.failing[-1:]
        named = f"{'/'.join(row.series)}/{row.rubric_version}/{kind}/{row.seq}"
        self.open = {
            "id": hashlib.sha256(named.encode(errors="replace")).hexdigest()[:16],
            **row.series._asdict(),
            "environment": row.environment or None,
            "rubric_version": row.rubric_version,
            "agent_version": _commonest(failing) or row.agent_version or None,
            "against": kind,
            "compared_with": self.versions.before if kind == VERSION else None,
            "target": target,
            "since": since,
            "opened_at": row.judged_at,
            "closed_at": None,
            "state": "open",
            "log_evidence": log_evidence,
            "promised": self.version_limit if kind == VERSION else self.promised,
            "dimension": None,
            "instrument_trouble": False,
            "failing": failing[-SHOWN_FAILING:][::-1],
        }
        self.since_alarm = []
        return self.open

    def _towards_clearing(self, row: LoggedVerdict, terms: Terms) -> list[dict[str, Any]]:
        assert self.open is not None
        self.since_alarm.append([float(row.passed), 1.0 / row.inclusion_probability])
        del self.since_alarm[: -terms.clear_after]
        if len(self.since_alarm) < terms.clear_after:
            return []
        weight = math.fsum(weight for _, weight in self.since_alarm)
        rate = math.fsum(passed * weight for passed, weight in self.since_alarm) / weight
        return [self.close("cleared", row.judged_at)] if rate >= self.open["target"] - 1e-12 else []

    def close(self, state: str, at: float) -> dict[str, Any]:
        """End the alarm that stands and begin to collect evidence anew; the alarm as it is now."""
        assert self.open is not None
        closed = {**self.open, "state": state, "closed_at": at}
        self.open, self.since_alarm = None, []
        self.detectors = {kind: detector.restarted() for kind, detector in self.detectors.items()}
        return closed

    # -- keeping
    def as_json(self) -> dict[str, Any]:
        """Everything, as JSON."""
        reference = self.reference
        return {
            "rubric_version": self.rubric_version,
            "judged": self.judged,
            "last_at": self.last_at,
            "detectors": {kind: detector.as_json() for kind, detector in self.detectors.items()},
            "reference": [reference.judged, reference.weight, reference.passed, reference.squared],
            "versions": self.versions.as_json(),
            "turns": [self.turns.count, self.turns.squares],
            "failing": self.failing,
            "open": self.open,
            "since_alarm": self.since_alarm,
            "promised": self.promised,
            "version_limit": self.version_limit,
        }

    @classmethod
    def from_json(cls, kept: Mapping[str, Any]) -> Series:
        """What `as_json` gave."""
        return cls(
            rubric_version=kept["rubric_version"],
            judged=kept["judged"],
            last_at=kept["last_at"],
            detectors={kind: Detector.from_json(one) for kind, one in kept["detectors"].items()},
            reference=Reference(*kept["reference"]),
            versions=VersionTest.from_json(kept["versions"]),
            turns=Turns(*kept["turns"]),
            failing=list(kept["failing"]),
            open=kept["open"],
            since_alarm=list(kept["since_alarm"]),
            promised=kept["promised"],
            version_limit=kept["version_limit"],
        )


def _inside(target: float) -> float:
    return min(1.0 - _OPEN_BOUNDS, max(_OPEN_BOUNDS, target))


def _commonest(failing: list[dict[str, Any]]) -> str | None:
    """The version of most of them; of as many, the newest."""
    counts: dict[str, int] = {}
    for one in failing:
        if one["agent_version"]:
            counts[one["agent_version"]] = counts.pop(one["agent_version"], 0) + 1
    return max(reversed(counts), key=lambda version: counts[version], default=None)
