"""Rules as values, whatever file they are written to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class AlertName(StrEnum):
    """The alerts of contract.md section 6; each has a section of its name in docs/alerts.md."""

    QUALITY_REGRESSION = "RubricdQualityRegression"
    QUALITY_BUDGET_BURN = "RubricdQualityBudgetBurn"
    UNJUDGEABLE = "RubricdUnjudgeable"
    JUDGE_FAILING = "RubricdJudgeFailing"
    JUDGE_DRIFT = "RubricdJudgeDrift"
    RUN_STALLED = "RubricdRunStalled"
    BACKLOG_OLD = "RubricdBacklogOld"
    SPEND_NEAR_LIMIT = "RubricdSpendNearLimit"
    INTAKE_REJECTING = "RubricdIntakeRejecting"
    DOWN = "RubricdDown"


class Severity(StrEnum):
    """How soon somebody should look. A monitor's own `severity` label replaces it."""

    PAGE = "page"
    TICKET = "ticket"


@dataclass(frozen=True, slots=True)
class Alert:
    """An alerting rule. `pending` is how long the expression must hold, `keep_firing` how long the alert outlives it (seconds).

    `labels` are fixed ones, beside those of the expression's series. Annotations are templates of Prometheus.
    """

    name: AlertName
    expr: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    pending: float = 0.0
    keep_firing: float = 0.0


@dataclass(frozen=True, slots=True)
class Recording:
    """A recording rule: `record` is named level:metric:operations."""

    record: str
    expr: str


@dataclass(frozen=True, slots=True)
class RuleGroup:
    """Rules that are evaluated one after the other, at Prometheus' own evaluation interval."""

    name: str
    rules: tuple[Alert | Recording, ...]
