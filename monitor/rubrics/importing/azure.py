"""azure-ai-evaluation: result rows of both generations of keys as verdicts, for comparison. Pure.

Unlike there, nothing passes or fails by default: a score that is no number on the evaluator's scale, a label that contradicts its score, an
`unknown`, and a defect label that is no truth value are errors.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from monitor.model.verdict import ErrorType, Outcome
from monitor.rubrics.importing.imported import NotImportable, either

_PREFIX = re.compile(r"^outputs\.(?:[\w-]+\.)?")
_FIELDS = ("score", "passed", "result", "reason", "status", "threshold", "properties", "label")
_SCALES = {
    "intent_resolution": (1, 5), "groundedness": (1, 5), "tool_call_accuracy": (1, 5), "relevance": (1, 5), "coherence": (1, 5),
    "fluency": (1, 5), "response_completeness": (1, 5), "retrieval": (1, 5), "similarity": (1, 5), "customer_satisfaction": (1, 5),
    "task_adherence": (0, 1), "task_completion": (0, 1), "tool_selection": (0, 1), "tool_input_accuracy": (0, 1),
    "tool_call_success": (0, 1), "tool_output_utilization": (0, 1),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class AzureResult:
    """What one evaluator says of one row. `outcome` is None for an error, whose type and place are then given."""

    evaluator: str
    outcome: Outcome | None
    score: float | None = None
    threshold: float | None = None
    reason: str = ""
    error: ErrorType | None = None
    message: str = ""


def rows_of(data: Any) -> list[Mapping[str, Any]]:
    """The rows of a results file, a list of rows, or one row. Raises NotImportable."""
    rows = data.get("rows", [data]) if isinstance(data, Mapping) else data
    if not isinstance(rows, list) or not all(isinstance(row, Mapping) for row in rows):
        raise NotImportable("expected result rows of azure-ai-evaluation: an object with `rows`, a list, or JSON Lines")
    return rows


def results(row: Mapping[str, Any]) -> list[AzureResult]:
    """What every evaluator says of a row; empty for a row without results."""
    flat = {_PREFIX.sub("", key): value for key, value in row.items()}
    return [read_result(name, dict(_fields(name, flat))) for name in sorted(_evaluators(flat))]


def _evaluators(flat: Mapping[str, Any]) -> Iterator[str]:
    """Names K that have a `K_result`, `K_status` or `K_label`."""
    names = {
        key.removesuffix(f"_{end}") for end in ("result", "status", "label") for key in flat if key.endswith(f"_{end}")
    }
    yield from (name for name in names if name and not name.startswith("gpt_"))


def _fields(name: str, flat: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for field in _FIELDS:
        if f"{name}_{field}" in flat:
            yield field, flat[f"{name}_{field}"]
    score = either(flat, f"{name}_score", name, f"gpt_{name}")
    if score is not None:
        yield "score", score


def read_result(evaluator: str, fields: Mapping[str, Any]) -> AzureResult:
    """A result from its fields score, passed, result (or label), reason, status, threshold."""
    label = either(fields, "result", "label")
    if fields.get("status") == "skipped" or label == "not_applicable":
        return AzureResult(evaluator, Outcome.NOT_APPLICABLE, reason=_text(fields.get("reason")))
    if fields.get("status") == "error":
        return AzureResult(evaluator, None, error=ErrorType.EVALUATOR_FAILED, message="the evaluator reported an error")
    if isinstance(label, bool) or (label is None and "score" not in fields and "label" in fields):
        return defect(evaluator, label)
    score = _number(fields.get("score"))
    if label not in ("pass", "fail"):
        return _unparseable(evaluator, "has no label pass or fail")
    low, high = _SCALES.get(evaluator, (-math.inf, math.inf))
    if score is None:
        return _unparseable(evaluator, "has no score that is a number")
    if not low <= score <= high:
        message = f"the score is no number from {low:g} to {high:g}"
        return AzureResult(evaluator, None, error=ErrorType.OUT_OF_RANGE, message=message)
    threshold = _number(fields.get("threshold"))
    if fields.get("passed") not in (None, label == "pass") or _contradicts(score, threshold, high, label):
        return _unparseable(evaluator, "has a label that contradicts its score")
    return AzureResult(evaluator, Outcome(label), score, threshold, _text(fields.get("reason")))


def _contradicts(score: float, threshold: float | None, high: float, label: str) -> bool:
    """On 0 and 1 a reported threshold of 3 is not the one that was used."""
    if threshold is None or high == math.inf:
        return False
    return (score >= (threshold if threshold <= high else high)) != (label == "pass")


def defect(evaluator: str, label: Any) -> AzureResult:
    """A label that says whether there is a defect: true fails, false passes, anything else is an error (there it passes)."""
    if not isinstance(label, bool):
        return _unparseable(evaluator, "has a defect label that is neither true nor false")
    return AzureResult(evaluator, Outcome.FAIL if label else Outcome.PASS, 0.0 if label else 1.0)


def _unparseable(evaluator: str, what: str) -> AzureResult:
    return AzureResult(evaluator, None, error=ErrorType.UNPARSEABLE, message=f"the result {what}")


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        return None
    return float(value)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
