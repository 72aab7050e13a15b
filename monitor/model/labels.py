"""What people and repeated judgements say of verdicts (contract section 1, `labels`)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Label(StrEnum):
    """What a person says of an invocation by a rubric."""

    PASS = "pass"  # noqa: S105
    FAIL = "fail"
    NOT_APPLICABLE = "not_applicable"
    UNSURE = "unsure"


class Against(StrEnum):
    """What a judge's verdicts are compared with (label `against` of `judge_agreement_ratio`)."""

    GOLDEN = "golden"
    SELF = "self"
    HUMAN = "human"


@dataclass(frozen=True, slots=True)
class LabelDraw:
    """An invocation drawn for people to label. `verdict` is the judge's at the time; `probability` that with which it was drawn out of the judged,
    `inclusion_probability` that with which it had come to be judged. `created_at` is seconds since 1970-01-01Z.
    """

    draw_id: str
    invocation_id: str
    monitor: str
    rubric: str
    rubric_version: str
    verdict: str
    probability: float
    inclusion_probability: float
    created_at: float


@dataclass(frozen=True, slots=True)
class HumanLabel:
    """A person's label. Without a `draw_id` it was not drawn: it counts for agreement, never for a corrected pass rate."""

    invocation_id: str
    rubric: str
    label: Label
    labeler: str
    draw_id: str | None = None
    comment: str = ""


@dataclass(frozen=True, slots=True)
class Labelled:
    """A label beside the verdict that it is about: the drawn one's at its draw, else the newest verdict of that invocation and rubric.

    `probability` is that of the draw times the inclusion probability, None where nothing was drawn. `comment` is content and erased with it.
    """

    invocation_id: str
    monitor: str
    rubric: str
    rubric_version: str
    verdict: str
    label: Label
    labeler: str
    probability: float | None
    comment: str = ""


@dataclass(frozen=True, slots=True)
class JudgeCheck:
    """One verdict asked for again. `key` is the invocation or the golden case, `expected` the first verdict or the golden label.

    `round` is the time of the golden set's schedule (seconds since 1970-01-01Z), 0 for a self-check.
    """

    against: Against
    rubric: str
    rubric_version: str
    judge: str
    key: str
    expected: str
    verdict: str
    round: float
    checked_at: float

    @property
    def agrees(self) -> bool:
        """Whether the judge said what was expected."""
        return self.expected == self.verdict
