"""The tallies: which figures the store counts, with which labels. Exporters read them, the store writes them.

Names are those of contract.md section 6 without the prefix `rubricd_`. A histogram is kept as one tally per bucket, `<name>_bucket`
with the label `le`, and one `<name>_sum`. A bucket's tally counts only what falls into that bucket and no lower one (not cumulative):
one verdict changes one bucket and one sum.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType


class TallyName(StrEnum):
    """The names of tallies (`Tally.metric`)."""

    INVOCATIONS = "invocations_total"
    SELECTED = "selected_total"
    NOT_SELECTED = "not_selected_total"
    VERDICTS = "verdicts_total"
    VERDICTS_REVISED = "verdicts_revised_total"
    UNJUDGEABLE = "unjudgeable_total"
    EVALUATION_ERRORS = "evaluation_errors_total"
    RUNS = "runs_total"
    RUN_LAST_SUCCESS = "run_last_success_timestamp_seconds"
    """Set, not added up: when the monitor's newest run was done."""
    SCORE_BUCKET = "score_bucket"
    SCORE_SUM = "score_sum"
    DIMENSION_SCORE_BUCKET = "dimension_score_bucket"
    DIMENSION_SCORE_SUM = "dimension_score_sum"
    FOLDED = "folded"
    """Written by the exporter: what a label set of `metric` had shown before it was folded into `other`; all labels and `metric`."""


LABELS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        TallyName.INVOCATIONS: ("agent", "agent_version", "environment", "settled_by"),
        TallyName.SELECTED: ("monitor",),
        TallyName.NOT_SELECTED: ("monitor", "reason"),
        TallyName.VERDICTS: (
            "monitor", "rubric", "rubric_version", "agent", "agent_version", "environment", "verdict",
        ),
        TallyName.VERDICTS_REVISED: ("monitor", "rubric", "from", "to"),
        TallyName.UNJUDGEABLE: ("monitor", "rubric", "agent", "reason"),
        TallyName.EVALUATION_ERRORS: ("monitor", "rubric", "reason"),
        TallyName.RUNS: ("monitor", "outcome"),
        TallyName.RUN_LAST_SUCCESS: ("monitor",),
        TallyName.SCORE_BUCKET: ("monitor", "rubric", "agent", "le"),
        TallyName.SCORE_SUM: ("monitor", "rubric", "agent"),
        TallyName.DIMENSION_SCORE_BUCKET: ("monitor", "rubric", "agent", "dimension", "le"),
        TallyName.DIMENSION_SCORE_SUM: ("monitor", "rubric", "agent", "dimension"),
    }
)  # fmt: skip
"""The labels of each tally. A value that is not known is the empty text; `agent` is never empty (`unknown`)."""

SCORE_BOUNDS = tuple(f"{tenth / 10:.1f}" for tenth in range(1, 11))
"""Upper bounds of `score`, a score rescaled by its score_range to 0..1: 0.1 to 1.0."""

DIMENSION_BOUNDS = ("1.0", "2.0", "3.0", "4.0", "5.0")
"""Upper bounds of `dimension_score`, a dimension's own score."""


def rescaled(score: float, score_range: tuple[float, float]) -> float:
    """A score on the scale 0..1: where it lies in its range, cut at both ends. An empty range gives 0."""
    low, high = score_range
    return min(1.0, max(0.0, (score - low) / (high - low))) if high > low else 0.0


def bucket(value: float, bounds: tuple[str, ...]) -> str:
    """The smallest upper bound that is not below the value (`le`), `+Inf` past the last one."""
    return next((bound for bound in bounds if value <= float(bound) + 1e-9), "+Inf")
