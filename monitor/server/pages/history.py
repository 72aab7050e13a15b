"""The pass rate over time: a row of equal steps, each estimated like a window of its own."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from monitor.estimation.passrate import Estimate, estimate
from monitor.model.totals import Totals, WindowFigures
from monitor.model.watched import WatchedMonitor

MOST_STEPS = 60
_NICE_STEPS = (10, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 7 * 86400)
"""Seconds."""


@dataclass(frozen=True, slots=True)
class Step:
    """The rate of what ended in [start, end), seconds since 1970-01-01Z; None where nothing was judged."""

    start: float
    end: float
    estimate: Estimate | None


@dataclass(frozen=True, slots=True)
class Change:
    """From this time on there is something new: another agent version (`agent`) or rubric version (`rubric`)."""

    at: float
    kind: str
    version: str


@dataclass(frozen=True, slots=True)
class Line:
    """The history of one rubric on one agent; versions and environments are added up."""

    rubric: str
    agent: str
    steps: tuple[Step, ...]
    changes: tuple[Change, ...]
    judged: int


def edges(length: float, now: float) -> list[float]:
    """Edges of steps of a nice length, on multiples since 1970-01-01Z; the last step is the one under way."""
    size = next((step for step in _NICE_STEPS if length / step <= MOST_STEPS), math.ceil(length / MOST_STEPS))
    last = math.floor(now / size)
    count = math.ceil(length / size)
    return [float((last - count + 1 + number) * size) for number in range(count + 1)]


Read = Callable[[float, float], WindowFigures]
"""The sums of what ended in [start, end), as the only window."""


def history(monitor: WatchedMonitor, at: Sequence[float], read: Read) -> list[Line]:
    """A line for each rubric and agent with anything judged, in the order of the monitor's rubrics."""
    rubrics = {rubric.rubric: place for place, rubric in enumerate(monitor.rubrics)}
    sums: dict[tuple[str, str], dict[int, Totals]] = defaultdict(dict)
    versions: dict[tuple[str, str], list[Change]] = defaultdict(list)
    seen: set[tuple[str, str, str, str]] = set()
    for number, (start, end) in enumerate(pairwise(at)):
        for row in read(start, end).totals:
            if row.rubric not in rubrics:
                continue
            key = (row.rubric, row.agent)
            sums[key][number] = sums[key].get(number, Totals()) + row.totals
            for kind, version in (("agent", row.agent_version), ("rubric", row.rubric_version)):
                if version and (*key, kind, version) not in seen:
                    seen.add((*key, kind, version))
                    versions[key].append(Change(start, kind, version))
    found = [_line(monitor, key, at, sums[key], versions[key]) for key in sums]
    return sorted((line for line in found if line.judged), key=lambda line: (rubrics[line.rubric], line.agent))


def _line(
    monitor: WatchedMonitor,
    key: tuple[str, str],
    at: Sequence[float],
    sums: Mapping[int, Totals],
    changes: Sequence[Change],
) -> Line:
    steps = tuple(
        Step(
            start,
            end,
            estimate(sums[n], monitor.max_unscored, exact=monitor.exact, of_window=monitor.of_window)
            if n in sums
            else None,
        )
        for n, (start, end) in enumerate(pairwise(at))
    )
    judged = sum(step.estimate.judged for step in steps if step.estimate is not None)
    first = {kind: min((c.at for c in changes if c.kind == kind), default=0.0) for kind in ("agent", "rubric")}
    return Line(*key, steps, tuple(c for c in changes if c.at > first[c.kind]), judged)
