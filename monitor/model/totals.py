"""Sums that pass rates are made of. They add up: groups can be merged and windows joined without going back to single verdicts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class Totals:
    """Counts of evaluations by outcome and sums of their weights; a weight is 1 / inclusion probability.

    `unscored` are verdicts `unjudgeable` and failed evaluations: no part of the pass rate, but of its worst and best case.
    `not_applicable` is counted and has no weight: it leaves the denominator. `squared_weight` is the sum of squared weights
    over passed and failed (for Kish's effective sample size), `passed_squared` that over the passed.

    The clusters are conversations, an invocation without one being its own: how many have passed or failed, the weight of the heaviest, and with
    W the weight of a cluster's passed and failed and P that of its passed the sums of W^2, W P and P^2 (for cluster-robust errors).
    A conversation that lies in two summands counts as two; a store's windows do not split any.
    """

    passed: int = 0
    failed: int = 0
    not_applicable: int = 0
    unscored: int = 0
    passed_weight: float = 0.0
    failed_weight: float = 0.0
    unscored_weight: float = 0.0
    squared_weight: float = 0.0
    clusters: int = 0
    heaviest: float = 0.0
    cluster_squared: float = 0.0
    cluster_cross: float = 0.0
    cluster_passed_squared: float = 0.0
    passed_squared: float = 0.0

    def __add__(self, other: Totals) -> Totals:
        return Totals(
            self.passed + other.passed,
            self.failed + other.failed,
            self.not_applicable + other.not_applicable,
            self.unscored + other.unscored,
            self.passed_weight + other.passed_weight,
            self.failed_weight + other.failed_weight,
            self.unscored_weight + other.unscored_weight,
            self.squared_weight + other.squared_weight,
            self.clusters + other.clusters,
            max(self.heaviest, other.heaviest),
            self.cluster_squared + other.cluster_squared,
            self.cluster_cross + other.cluster_cross,
            self.cluster_passed_squared + other.cluster_passed_squared,
            self.passed_squared + other.passed_squared,
        )


class GroupTotals(NamedTuple):
    """The totals of one group of evaluations in one window; `window` is the index of the window's start in the request.

    `agent` is the label (agent name, else service, else `unknown`); an unknown version or environment is the empty text.
    """

    window: int
    rubric: str
    rubric_version: str
    agent: str
    agent_version: str
    environment: str
    totals: Totals


@dataclass(frozen=True, slots=True)
class GroupEligible:
    """How many invocations of a group in a window were eligible for a monitor: considered by it, and neither `filtered` nor `incomplete`.

    Each counts 1 / `kept_below`, so that invocations of traces dropped at intake by sampling are in it.
    """

    window: int
    agent: str
    agent_version: str
    environment: str
    count: float


@dataclass(frozen=True, slots=True)
class WindowFigures:
    """What pass rates and coverage of one monitor are computed from; groups without evaluations are left out."""

    totals: tuple[GroupTotals, ...]
    eligible: tuple[GroupEligible, ...]
