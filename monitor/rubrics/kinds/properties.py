"""Kind `properties`: yes/no statements, judged with evidence. Score = share of yes among the applicable ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import field_validator

from monitor.model.verdict import Criterion, Judgement, Outcome
from monitor.rubrics.kinds import answers, votes
from monitor.rubrics.kinds.asking import check_ids, judged_needs, reply_object
from monitor.rubrics.kinds.kind import Answer, ReplyFault, Sample
from monitor.rubrics.kinds.needs import Need
from monitor.rubrics.kinds.spec import JudgedSpec, Name, Share, Statement
from monitor.settings.section import Section

KEY = "properties"


class Property(Section):
    """One statement about the invocation that is true, false, or does not apply."""

    id: Name
    text: Statement
    always_applicable: bool = False


class PropertiesSpec(JudgedSpec):
    """A rubric document of this kind. All applicable properties must hold unless `threshold` says less."""

    kind: Literal["properties"] = "properties"
    threshold: Share = 1.0
    properties: tuple[Property, ...]

    @field_validator("properties")
    @classmethod
    def _unique(cls, value: tuple[Property, ...]) -> tuple[Property, ...]:
        check_ids([item.id for item in value])
        return value


class Properties:
    """Asks for a verdict on each statement and counts the share that holds."""

    name = "properties"
    spec = PropertiesSpec

    def needs(self, spec: PropertiesSpec) -> tuple[Need, ...]:
        """What `requires` names, and what the rubric is about."""
        return judged_needs(spec)

    def threshold(self, spec: PropertiesSpec) -> float:
        """The share from which it passes."""
        return spec.threshold

    def score_range(self, spec: PropertiesSpec) -> tuple[float, float]:
        """A share."""
        return 0.0, 1.0

    def criteria(self, spec: PropertiesSpec) -> Mapping[str, str]:
        """The properties by id."""
        return {item.id: item.text for item in spec.properties}

    def reply_schema(self, spec: PropertiesSpec) -> dict[str, Any]:
        """One object for each property, by id."""
        return reply_object(KEY, {item.id: self._verdict(item) for item in spec.properties})

    @staticmethod
    def _verdict(item: Property) -> dict[str, Any]:
        words = ["yes", "no"] if item.always_applicable else ["yes", "no", votes.NOT_APPLICABLE]
        return {"verdict": {"type": "string", "enum": words}}

    def variables(self, spec: PropertiesSpec) -> Mapping[str, Any]:
        """The statements."""
        return {"properties": [item.model_dump() for item in spec.properties]}

    def labelled(self, items: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Any]:
        """The parts, by id."""
        return {KEY: items}

    def read(self, spec: PropertiesSpec, reply: Mapping[str, Any]) -> Sample | ReplyFault:
        """A verdict for every statement."""
        items = answers.by_id(reply, KEY, [item.id for item in spec.properties])
        if isinstance(items, ReplyFault):
            return items
        sample: dict[str, Answer] = {}
        for item in spec.properties:
            answer = self._answer(item, items[item.id])
            if isinstance(answer, ReplyFault):
                return answer
            sample[item.id] = answer
        return sample

    @staticmethod
    def _answer(item: Property, reply: Mapping[str, Any]) -> Answer | ReplyFault:
        said: bool | ReplyFault | None = None
        if item.always_applicable or not answers.is_not_applicable(reply.get("verdict")):
            said = answers.yes_or_no(reply.get("verdict"), item.id)
        if isinstance(said, ReplyFault):
            return said
        return Answer(item.id, said, answers.explanation(reply), answers.evidence(reply))

    def settled(self, spec: PropertiesSpec, samples: Sequence[Sample], wanted: int) -> bool:
        """Whether every statement's vote is decided."""
        return votes.settled(samples, wanted)

    def combine(self, spec: PropertiesSpec, samples: Sequence[Sample]) -> Judgement:
        """The share of statements that hold among those that apply."""
        criteria, held, applicable = [], 0, 0
        for item in spec.properties:
            counted = votes.statement([sample[item.id] for sample in samples])
            said = counted.answer.value
            applicable += said is not None
            held += bool(said)
            criteria.append(
                Criterion(
                    item.id,
                    None if said is None else float(bool(said)),
                    said is not None,
                    None,
                    counted.answer.explanation,
                    counted.answer.evidence,
                    counted.votes,
                )
            )
        if not applicable:
            return Judgement(
                Outcome.NOT_APPLICABLE,
                threshold=spec.threshold,
                explanation="No property applies to this invocation.",
                criteria=tuple(criteria),
            )
        score = held / applicable
        return Judgement(
            Outcome.PASS if score >= spec.threshold else Outcome.FAIL,
            score=score,
            threshold=spec.threshold,
            explanation=_explanation(criteria, held, applicable),
            criteria=tuple(criteria),
        )


def _explanation(criteria: Sequence[Criterion], held: int, applicable: int) -> str:
    if len(criteria) == 1:
        return criteria[0].explanation
    broken = [f"{item.id}: {item.explanation}".rstrip(": ") for item in criteria if item.applicable and not item.score]
    summary = f"{held} of {applicable} applicable properties hold."
    return f"{summary} Not so: {'; '.join(broken)}" if broken else summary
