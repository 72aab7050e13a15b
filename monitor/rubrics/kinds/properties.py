"""Kind `properties`: yes/no statements, judged with evidence. Score = share of yes among the applicable ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import field_validator

from monitor.model.verdict import Criterion, Judgement, Outcome
from monitor.rubrics.kinds import answers, votes
from monitor.rubrics.kinds.asking import check_ids
from monitor.rubrics.kinds.kind import ReplyFault, Sample
from monitor.rubrics.kinds.listed import ListedKind, ListedSpec, criterion
from monitor.rubrics.kinds.spec import Name, Share, Statement
from monitor.settings.section import Section


class Property(Section):
    """One statement about the invocation that is true, false, or does not apply."""

    id: Name
    text: Statement
    always_applicable: bool = False


class PropertiesSpec(ListedSpec):
    """A rubric document of this kind. All applicable properties must hold unless `threshold` says less."""

    kind: Literal["properties"] = "properties"
    threshold: Share = 1.0
    properties: tuple[Property, ...]

    @field_validator("properties")
    @classmethod
    def _unique(cls, value: tuple[Property, ...]) -> tuple[Property, ...]:
        check_ids([item.id for item in value])
        return value


class Properties(ListedKind[PropertiesSpec, Property]):
    """Asks for a verdict on each statement and counts the share that holds."""

    name = "properties"
    spec = PropertiesSpec
    key = "properties"
    field = "verdict"

    def items(self, spec: PropertiesSpec) -> Sequence[Property]:
        """The statements."""
        return spec.properties

    def text(self, item: Property) -> str:
        """The statement."""
        return item.text

    def answer_schema(self, item: Property) -> dict[str, Any]:
        """Yes or no."""
        words = ["yes", "no"] if item.always_applicable else ["yes", "no", votes.NOT_APPLICABLE]
        return {"type": "string", "enum": words}

    def variables(self, spec: PropertiesSpec) -> Mapping[str, Any]:
        """The statements."""
        return {"properties": [item.model_dump() for item in spec.properties]}

    def said(self, item: Property, value: Any) -> bool | ReplyFault:
        """Whether the statement holds."""
        return answers.yes_or_no(value, item.id)

    def combine(self, spec: PropertiesSpec, samples: Sequence[Sample]) -> Judgement:
        """The share of statements that hold among those that apply."""
        criteria = tuple(
            criterion(item.id, votes.statement([sample[item.id] for sample in samples])) for item in spec.properties
        )
        applicable = sum(one.applicable for one in criteria)
        if not applicable:
            return Judgement(
                Outcome.NOT_APPLICABLE,
                threshold=spec.threshold,
                explanation="No property applies to this invocation.",
                criteria=criteria,
            )
        held = sum(bool(one.score) for one in criteria)
        score = held / applicable
        return Judgement(
            Outcome.PASS if score >= spec.threshold else Outcome.FAIL,
            score=score,
            threshold=spec.threshold,
            explanation=_explanation(criteria, held, applicable),
            criteria=criteria,
        )


def _explanation(criteria: Sequence[Criterion], held: int, applicable: int) -> str:
    if len(criteria) == 1:
        return criteria[0].explanation
    broken = [f"{item.id}: {item.explanation}".rstrip(": ") for item in criteria if item.applicable and not item.score]
    summary = f"{held} of {applicable} applicable properties hold."
    return f"{summary} Not so: {'; '.join(broken)}" if broken else summary
