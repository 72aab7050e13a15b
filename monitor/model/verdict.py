"""Verdicts and evaluations (contract section 4)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Outcome(StrEnum):
    """The verdict of one rubric on one invocation. A failed evaluation has none."""

    PASS = "pass"  # noqa: S105
    FAIL = "fail"
    NOT_APPLICABLE = "not_applicable"
    UNJUDGEABLE = "unjudgeable"


class ErrorType(StrEnum):
    """Why an evaluation failed (label `reason` of `evaluation_errors_total`)."""

    TIMEOUT = "timeout"
    CONNECTION = "connection"
    RATE_LIMITED = "rate_limited"
    SERVER_ERROR = "server_error"
    UNAUTHORIZED = "unauthorized"
    UNKNOWN_MODEL = "unknown_model"
    REFUSED = "refused"
    CONTENT_FILTER = "content_filter"
    TRUNCATED = "truncated"
    EMPTY_REPLY = "empty_reply"
    UNPARSEABLE = "unparseable"
    OUT_OF_RANGE = "out_of_range"
    INCOMPLETE_ANSWER = "incomplete_answer"
    NO_QUORUM = "no_quorum"
    EVALUATOR_FAILED = "evaluator_failed"


class NotSelected(StrEnum):
    """Why an invocation was not judged (label `reason` of `not_selected_total`)."""

    FILTERED = "filtered"
    SAMPLED_OUT = "sampled_out"
    OVER_CAP = "over_cap"
    OVER_BUDGET = "over_budget"
    INCOMPLETE = "incomplete"
    MISSED = "missed"


class Unjudgeable(StrEnum):
    """Why nothing could be judged; a missing field is `missing:<field>`."""

    NO_ANSWER = "no_answer"
    TRUNCATED = "truncated"
    REDACTED = "redacted"


@dataclass(frozen=True, slots=True)
class Criterion:
    """One dimension, property or expectation of a verdict. `score` is None where it was not applicable."""

    id: str
    score: float | None
    applicable: bool = True
    weight: float | None = None
    explanation: str = ""
    evidence: tuple[str, ...] = ()
    votes: Mapping[str, int] | None = None
    """Votes by answer, {"yes": 3, "no": 2}; None when asked once."""


@dataclass(frozen=True, slots=True)
class EvaluationFailure:
    """A failed evaluation as a value. `temporary` failures are tried again; the message never carries content."""

    type: ErrorType
    message: str
    temporary: bool = False
    retry_after_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Usage:
    """What judge calls consumed; `cost_usd` is None where a price is unknown, never 0 for that."""

    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = None


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a rubric says of an invocation, before it is tied to a monitor: a verdict with its score, or a failure.

    `score` and `threshold` are on the rubric's own scale, `score_range` is that scale.
    """

    outcome: Outcome | None
    score: float | None = None
    score_range: tuple[float, float] = (0.0, 1.0)
    threshold: float | None = None
    explanation: str = ""
    unjudgeable_reason: str | None = None
    failure: EvaluationFailure | None = None
    criteria: tuple[Criterion, ...] = ()
    usage: Usage = field(default_factory=Usage)
    judge_model: str | None = None
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Verdict:
    """A judgement of one invocation by one rubric version of one monitor. Times are seconds since 1970-01-01Z."""

    invocation_id: str
    trace_id: str
    span_id: str
    conversation_id: str | None
    agent_name: str | None
    agent_version: str | None
    environment: str | None
    ended_at: float
    monitor: str
    rubric: str
    rubric_version: str
    judge: str | None
    judgement: Judgement
    inclusion_probability: float
    revision: int
    judged_at: float
    agent: str = "unknown"
    """The `agent` label; not part of the JSON."""
