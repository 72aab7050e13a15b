"""What regression detection reads and keeps (contract section 5, `regressions`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple


class SeriesKey(NamedTuple):
    """One series that is watched for regressions; `agent` is the label, an unknown environment the empty text."""

    monitor: str
    rubric: str
    agent: str
    environment: str


@dataclass(frozen=True, slots=True)
class LoggedVerdict:
    """A first verdict, pass or fail, in the order in which verdicts were stored; re-judgements never come into the log.

    `seq` grows without end. `heaviest` is the largest weight (1 / inclusion probability) among what the same run drew of this agent and environment,
    known before any of it was judged. `turn` counts the logged verdicts of the same conversation, monitor and rubric version, from 1. Times are
    seconds since 1970-01-01Z.
    """

    seq: int
    monitor: str
    rubric: str
    rubric_version: str
    agent: str
    agent_version: str
    environment: str
    passed: bool
    inclusion_probability: float
    heaviest: float
    turn: int
    invocation_id: str
    trace_id: str
    ended_at: float
    judged_at: float

    @property
    def series(self) -> SeriesKey:
        """The series that it belongs to."""
        return SeriesKey(self.monitor, self.rubric, self.agent, self.environment)

    @property
    def weight(self) -> float:
        """Its weight as a share of the heaviest that could have been drawn with it, in (0, 1]."""
        return min(1.0, 1.0 / (self.inclusion_probability * self.heaviest))


@dataclass(frozen=True, slots=True)
class CriterionScores:
    """The scores of one verdict's applicable criteria, as (id, score, weight or None)."""

    ended_at: float
    scores: tuple[tuple[str, float, float | None], ...]


@dataclass(frozen=True, slots=True)
class RegressionState:
    """All that detection has kept: how far it has read the log, what it counted of monitors, and each series, as JSON values."""

    cursor: int
    monitors: Mapping[str, Any]
    series: Mapping[SeriesKey, Any]
