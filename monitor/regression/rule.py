"""What one series is tested against, and how much evidence an alarm takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from monitor.model.watched import RegressionRule, WatchedMonitor, WatchedRubric

DAY = 86400.0
LEAST_INVOCATIONS = 100.0
"""A promise of fewer judged invocations between false alarms would be none."""

FIRST_HOUR = 3600.0
KEPT_DAYS = 8
VERSIONS_PER_FALSE_ALARM = 100.0
"""Comparisons of one version with another until one of them is wrong: each version is compared once, so there is no time to count by."""


@dataclass(frozen=True, slots=True)
class Traffic:
    """How many verdicts of a monitor came in, by day: what a promise in days is counted in. Days are whole ones since 1970-01-01Z (UTC)."""

    since: float | None = None
    days: Mapping[int, int] = field(default_factory=dict)

    def counted(self, at: float) -> Traffic:
        """With one more verdict at a time (seconds)."""
        day = int(at // DAY)
        days = {d: n for d, n in self.days.items() if d > day - KEPT_DAYS}
        days[day] = days.get(day, 0) + 1
        return Traffic(at if self.since is None else min(self.since, at), days)

    def per_second(self, now: float) -> float:
        """Verdicts a second, of the last week of days; before there is a week, since the first."""
        if self.since is None:
            return 0.0
        begin = max(self.since, (min(self.days, default=int(now // DAY))) * DAY)
        return sum(self.days.values()) / max(FIRST_HOUR, now - begin)

    def as_json(self) -> dict[str, Any]:
        """Everything, as JSON."""
        return {"since": self.since, "days": {str(day): count for day, count in self.days.items()}}

    @classmethod
    def from_json(cls, kept: Mapping[str, Any]) -> Traffic:
        """What `as_json` gave."""
        return cls(kept["since"], {int(day): count for day, count in kept["days"].items()})


def kinds_of_test(monitor: WatchedMonitor, rubric: WatchedRubric) -> tuple[str, ...]:
    """What a rubric's series are tested against; nothing for a shadow, nor against an objective that it has not."""
    if rubric.shadow:
        return ()
    return tuple(kind for kind in monitor.regression.against if kind != "objective" or rubric.objective is not None)


def promised_verdicts(monitor: WatchedMonitor, per_second: float) -> float:
    """How many verdicts of one test may pass until its mean false alarm, so that all tests of the monitor together keep the promise.

    A test that alarms once in A of its verdicts costs 1 / A false alarms a verdict, wherever the verdicts fall; series share out the verdicts of a test,
    so their number does not matter, and k tests of each judged invocation need A = k times the promise. A promise in days becomes verdicts
    by the traffic of the last week, which already counts the k.
    """
    rule: RegressionRule = monitor.regression
    tests = [len(kinds_of_test(monitor, rubric)) for rubric in monitor.rubrics]
    kinds, rubrics = max(tests, default=1) or 1, sum(1 for count in tests if count) or 1
    if rule.every_invocations is not None:
        return max(LEAST_INVOCATIONS, rule.every_invocations) * kinds * rubrics
    return max(LEAST_INVOCATIONS, rule.every_seconds * per_second) * kinds
