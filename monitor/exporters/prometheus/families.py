"""Metric families as values, and each store-derived metric documented once. Names and labels are those of contract.md section 6."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal, NamedTuple

from monitor.telemetry import PREFIX

Kind = Literal["counter", "gauge", "histogram", "info"]


class Exemplar(NamedTuple):
    """A trace to look at: its id (32 hex digits) and when it was judged (seconds since 1970-01-01Z)."""

    trace_id: str
    time: float


class Line(NamedTuple):
    """One line of the page that each label set has: suffix of the metric's name, and the label that tells it from its siblings."""

    suffix: str
    label: tuple[str, str] | None = None


@dataclass(slots=True)
class Row:
    """One label set: its label values, a value for each line, and the exemplar of one of the lines.

    `text` and `marked` are its lines as written without and with the exemplar, None until they were: whoever makes families again and again hands out
    the same row while nothing of it has changed, and it is written once.
    """

    key: tuple[str, ...]
    values: tuple[float, ...]
    exemplar: Exemplar | None = None
    exemplar_line: int = 0
    text: str | None = field(default=None, compare=False, repr=False)
    marked: str | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Definition:
    """A metric: kind and help text."""

    kind: Kind
    text: str


@dataclass(frozen=True, slots=True)
class Family:
    """A metric with its label sets; `name` is without prefix and without `_total`. No key stands in `rows` twice."""

    name: str
    names: tuple[str, ...]
    rows: Sequence[Row]
    lines: tuple[Line, ...] = (Line(""),)

    @property
    def definition(self) -> Definition:
        """Kind and help text."""
        return DEFINITIONS[self.name]

    @property
    def full_name(self) -> str:
        """The name with prefix."""
        return f"{PREFIX}_{self.name}"


PASS_RATE_LABELS = ("monitor", "rubric", "rubric_version", "agent", "agent_version", "environment", "window")

PASS_RATE_METRICS = (
    "pass_rate_ratio",
    "pass_rate_lower_ratio",
    "pass_rate_upper_ratio",
    "pass_rate_corrected_ratio",
    "pass_rate_worst_ratio",
    "pass_rate_best_ratio",
    "coverage_ratio",
    "effective_samples",
    "estimate_reliable",
)

DEFINITIONS: Mapping[str, Definition] = MappingProxyType(
    {
        "invocations": Definition("counter", "Invocations that settled, by what made them settle."),
        "selected": Definition("counter", "Invocations that a monitor drew to be judged."),
        "not_selected": Definition("counter", "Invocations that a monitor considered and did not draw, by reason."),
        "verdicts": Definition("counter", "First verdicts, by verdict. Re-judgements count in verdicts_revised."),
        "verdicts_revised": Definition("counter", "Verdicts replaced by a later judgement of the same invocation."),
        "unjudgeable": Definition("counter", "Invocations whose telemetry lacks what a rubric needs, by reason."),
        "evaluation_errors": Definition("counter", "Evaluations that failed for good, by reason; no verdicts."),
        "runs": Definition("counter", "Runs of a monitor's schedule, by outcome."),
        "score": Definition("histogram", "Scores of verdicts, rescaled to 0 to 1."),
        "dimension_score": Definition("histogram", "Scores of a rubric's single dimensions."),
        "pass_rate_ratio": Definition("gauge", "Estimated pass rate of the invocations that ended in the window."),
        "pass_rate_lower_ratio": Definition("gauge", "Lower bound of the pass rate, 95 % two-sided."),
        "pass_rate_upper_ratio": Definition("gauge", "Upper bound of the pass rate, 95 % two-sided."),
        "pass_rate_corrected_ratio": Definition(
            "gauge", "Pass rate corrected for the judge's errors, by people's labels."
        ),
        "pass_rate_worst_ratio": Definition("gauge", "Pass rate if all unscored invocations had failed."),
        "pass_rate_best_ratio": Definition("gauge", "Pass rate if all unscored invocations had passed."),
        "coverage_ratio": Definition("gauge", "Judged share of the eligible invocations of the window."),
        "effective_samples": Definition("gauge", "Judged invocations, as many equal draws as tell as much."),
        "estimate_reliable": Definition("gauge", "0 while the unscored exceed what the monitor puts up with."),
        "regression": Definition("gauge", "1 from a regression's alarm until it is cleared or acknowledged."),
        "regression_log_evidence": Definition(
            "gauge", "Log evidence of a regression; an alarm takes the log threshold."
        ),
        "regression_log_threshold": Definition("gauge", "The log evidence that an alarm takes."),
        "regression_started_timestamp_seconds": Definition(
            "gauge", "When the regression that stands has most likely begun."
        ),
        "judge_agreement_ratio": Definition(
            "gauge", "Share of verdicts that agree with golden cases, the judge itself, or people."
        ),
        "objective_ratio": Definition("gauge", "The pass rate that a rubric is meant to reach."),
        "evaluations_pending": Definition("gauge", "Drawn evaluations without a result yet."),
        "oldest_pending_seconds": Definition("gauge", "Age of the oldest evaluation without a result, 0 for none."),
        "run_interval_seconds": Definition("gauge", "The longest time between two runs by a monitor's schedule."),
        "run_last_success_timestamp_seconds": Definition("gauge", "When a monitor's last run was done."),
        "series_folded": Definition("counter", "Label sets folded into `other` past the limits, by metric."),
        "export_leader": Definition("gauge", "1 while this process shows the figures of the store."),
        "rubric": Definition("info", "Rubrics in force, with their version and judge."),
        "monitor": Definition("info", "Monitors in force, with their labels."),
        "build": Definition("info", "The running rubricd."),
    }
)
