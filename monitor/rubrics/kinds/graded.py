"""Kind `graded`: one grade on a scale with a meaning for its levels; passes when the grade is at the threshold or above."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ValidationInfo, field_serializer, field_validator

from monitor.model.verdict import Criterion, Judgement, Outcome
from monitor.rubrics.kinds import answers, votes
from monitor.rubrics.kinds.asking import judged_needs, verdict_object
from monitor.rubrics.kinds.kind import Answer, ReplyFault, Sample
from monitor.rubrics.kinds.needs import Need
from monitor.rubrics.kinds.spec import JudgedSpec, Number, Statement

CRITERION = "grade"
_MOST_LISTED_GRADES = 21


def _level(value: Any) -> Any:
    """A level is a whole number; JSON writes it as a text."""
    if isinstance(value, bool) or (isinstance(value, str) and not value.lstrip("-").isdecimal()):
        raise ValueError("a level is a whole number")
    return value


Level = Annotated[int, BeforeValidator(_level)]


class GradedSpec(JudgedSpec):
    """A rubric document of this kind. The scale goes from the lowest to the highest level; levels between them may have no text.

    `guide` takes instructions and levels from a shipped rubric (done when the file is read).
    """

    kind: Literal["graded"] = "graded"
    levels: dict[Level, Statement]
    threshold: Number
    not_applicable: bool = False

    @field_validator("levels")
    @classmethod
    def _in_order(cls, value: dict[int, str]) -> dict[int, str]:
        if len(value) < 2:
            raise ValueError("has no two levels: name at least the lowest and the highest")
        return dict(sorted(value.items()))

    @field_serializer("levels")
    def _level_texts(self, value: dict[int, str]) -> dict[str, str]:
        return {str(level): text for level, text in value.items()}

    @field_validator("threshold")
    @classmethod
    def _on_the_scale(cls, value: float, info: ValidationInfo) -> float:
        levels = info.data.get("levels")
        if levels and not min(levels) <= value <= max(levels):
            raise ValueError(f"{value:g} is not on the scale from {min(levels)} to {max(levels)}")
        return value


class Graded:
    """Asks for one grade."""

    name = "graded"
    spec = GradedSpec

    def needs(self, spec: GradedSpec) -> tuple[Need, ...]:
        """What `requires` names, and what the rubric is about."""
        return judged_needs(spec)

    def threshold(self, spec: GradedSpec) -> float:
        """The grade from which it passes."""
        return spec.threshold

    def score_range(self, spec: GradedSpec) -> tuple[float, float]:
        """From the lowest to the highest level."""
        return float(min(spec.levels)), float(max(spec.levels))

    def criteria(self, spec: GradedSpec) -> Mapping[str, str]:
        """The one grade."""
        return {CRITERION: spec.name}

    def reply_schema(self, spec: GradedSpec) -> dict[str, Any]:
        """Evidence, reasoning, and the grade."""
        low, high = min(spec.levels), max(spec.levels)
        grade: dict[str, Any] = {"type": "integer", "enum": list(range(low, high + 1))}
        if high - low >= _MOST_LISTED_GRADES:
            grade = {"type": "integer"}
        if spec.not_applicable:
            grade = {"anyOf": [grade, {"type": "string", "enum": [votes.NOT_APPLICABLE]}]}
        return verdict_object({"score": grade})

    def variables(self, spec: GradedSpec) -> Mapping[str, Any]:
        """The name, which says what is graded, and the levels."""
        return {"name": spec.name, "levels": spec.levels, "not_applicable": spec.not_applicable}

    def labelled(self, items: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Any]:
        """The one part."""
        return items.get(CRITERION, {})

    def read(self, spec: GradedSpec, reply: Mapping[str, Any]) -> Sample | ReplyFault:
        """The grade: any finite number on the scale."""
        said: int | float | ReplyFault | None = None
        if not (spec.not_applicable and answers.is_not_applicable(reply.get("score"))):
            low, high = self.score_range(spec)
            said = answers.number(reply.get("score"), low, high, "score", whole=False)
        if isinstance(said, ReplyFault):
            return said
        return {CRITERION: Answer(CRITERION, said, answers.explanation(reply), answers.evidence(reply))}

    def settled(self, spec: GradedSpec, samples: Sequence[Sample], wanted: int) -> bool:
        """Whether the median is fixed."""
        return votes.settled(samples, wanted)

    def combine(self, spec: GradedSpec, samples: Sequence[Sample]) -> Judgement:
        """The grade that the samples come to."""
        counted = votes.grade([sample[CRITERION] for sample in samples])
        said = counted.answer
        criterion = Criterion(
            CRITERION, said.value, said.value is not None, None, said.explanation, said.evidence, counted.votes
        )
        if said.value is None:
            outcome = Outcome.NOT_APPLICABLE
        else:
            outcome = Outcome.PASS if said.value >= spec.threshold else Outcome.FAIL
        return Judgement(
            outcome,
            score=None if said.value is None else float(said.value),
            score_range=self.score_range(spec),
            threshold=spec.threshold,
            explanation=said.explanation,
            criteria=(criterion,),
        )
