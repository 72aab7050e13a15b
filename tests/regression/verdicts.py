"""Logged verdicts for tests of detection, made from a seed."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from monitor.model.evidence import LoggedVerdict
from monitor.model.watched import RegressionRule, WatchedMonitor, WatchedRubric
from monitor.regression.series import Series, Terms

T0 = 1_790_000_000.0
VERSION = "aaaaaaaaaaaa"
TERMS = Terms(("objective",), promised=1000.0, version_limit=100.0, clear_after=50)


def rubric(objective: float | None = 0.95, version: str = VERSION, **more: Any) -> WatchedRubric:
    """The rubric `booking` with an objective."""
    return WatchedRubric("booking", version, "weighted", "default", "model", objective, **more)


def monitor(*rubrics: WatchedRubric, name: str = "m", **rule: Any) -> WatchedMonitor:
    """A monitor of those rubrics with a rule of regression."""
    return WatchedMonitor(name, rubrics or (rubric(),), regression=RegressionRule(**rule))


def row(seq: int, passed: bool, **changes: Any) -> LoggedVerdict:
    """One verdict a minute, of the bot in version 1."""
    plain: dict[str, Any] = {
        "seq": seq,
        "monitor": "m",
        "rubric": "booking",
        "rubric_version": VERSION,
        "agent": "bot",
        "agent_version": "1",
        "environment": "production",
        "passed": passed,
        "inclusion_probability": 1.0,
        "heaviest": 1.0,
        "turn": 1,
        "invocation_id": f"i{seq}",
        "trace_id": f"{seq:032x}",
        "ended_at": T0 + 60.0 * seq,
        "judged_at": T0 + 60.0 * seq + 30.0,
    }
    return LoggedVerdict(**(plain | changes))


def stream(seed: int, *parts: tuple[float, int], start: int = 1, **changes: Any) -> Iterator[LoggedVerdict]:
    """Verdicts that pass with a rate for so many of them, part after part."""
    chance, seq = random.Random(seed), start
    for rate, count in parts:
        for _ in range(count):
            yield row(seq, chance.random() < rate, **changes)
            seq += 1


def alarms(
    rows: Iterable[LoggedVerdict], terms: Terms = TERMS, of: WatchedRubric | None = None, series: Series | None = None
) -> list[tuple[int, dict[str, Any]]]:
    """(seq, alarm as it was then) of everything that was opened or closed."""
    series = series or Series(VERSION)
    return [(one.seq, dict(alarm)) for one in rows for alarm in series.add(one, of or rubric(), terms)]


def states(found: Sequence[tuple[int, dict[str, Any]]]) -> list[str]:
    """What became of alarms, in order."""
    return [alarm["state"] for _, alarm in found]
