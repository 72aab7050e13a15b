"""Kind `weighted`: dimensions scored 1 to 5 with weights; one score between 0 and 1 (Foundry's rubric evaluator).

Score `of_max` = S / (5 W), `min_max` = (S - W) / (4 W), with S the sum of weight times score and W the sum of weights over the applicable
dimensions; computed exactly and divided once, so that a score that lies on the threshold reaches it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, Literal

from pydantic import field_validator

from monitor.model.verdict import Criterion, Judgement, Outcome
from monitor.rubrics.kinds import answers, votes
from monitor.rubrics.kinds.asking import check_ids, judged_needs, reply_object
from monitor.rubrics.kinds.kind import Answer, ReplyFault, Sample
from monitor.rubrics.kinds.needs import Need
from monitor.rubrics.kinds.spec import JudgedSpec, Name, Share, Statement, Weight
from monitor.settings.section import Section

KEY = "dimensions"
LOWEST, HIGHEST = 1, 5


class Dimension(Section):
    """One aspect with its weight; `always_applicable` leaves the judge no way out."""

    id: Name
    weight: Weight = 1
    description: Statement
    always_applicable: bool = False


class WeightedSpec(JudgedSpec):
    """A rubric document of this kind. `veto`: any applicable dimension scored 1 fails, whatever the score."""

    kind: Literal["weighted"] = "weighted"
    threshold: Share = 0.5
    normalisation: Literal["of_max", "min_max"] = "of_max"
    veto: bool = False
    dimensions: tuple[Dimension, ...]

    @field_validator("dimensions")
    @classmethod
    def _unique(cls, value: tuple[Dimension, ...]) -> tuple[Dimension, ...]:
        check_ids([item.id for item in value])
        return value


class Weighted:
    """Asks for a score on each dimension and weighs them."""

    name = "weighted"
    spec = WeightedSpec

    def needs(self, spec: WeightedSpec) -> tuple[Need, ...]:
        """What `requires` names, and what the rubric is about."""
        return judged_needs(spec)

    def threshold(self, spec: WeightedSpec) -> float:
        """The score from which it passes."""
        return spec.threshold

    def score_range(self, spec: WeightedSpec) -> tuple[float, float]:
        """A share of the best possible score."""
        return 0.0, 1.0

    def criteria(self, spec: WeightedSpec) -> Mapping[str, str]:
        """The dimensions by id."""
        return {item.id: item.description for item in spec.dimensions}

    def reply_schema(self, spec: WeightedSpec) -> dict[str, Any]:
        """One object for each dimension, by id."""
        return reply_object(KEY, {item.id: self._score(item) for item in spec.dimensions})

    @staticmethod
    def _score(item: Dimension) -> dict[str, Any]:
        grade = {"type": "integer", "enum": list(range(LOWEST, HIGHEST + 1))}
        if item.always_applicable:
            return {"score": grade}
        return {"score": {"anyOf": [grade, {"type": "string", "enum": [votes.NOT_APPLICABLE]}]}}

    def variables(self, spec: WeightedSpec) -> Mapping[str, Any]:
        """The dimensions. Weights are not shown: a judge that knows them scores the sum."""
        return {"dimensions": [item.model_dump(exclude={"weight"}) for item in spec.dimensions]}

    def labelled(self, items: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Any]:
        """The parts, by id."""
        return {KEY: items}

    def read(self, spec: WeightedSpec, reply: Mapping[str, Any]) -> Sample | ReplyFault:
        """A score for every dimension."""
        items = answers.by_id(reply, KEY, [item.id for item in spec.dimensions])
        if isinstance(items, ReplyFault):
            return items
        sample: dict[str, Answer] = {}
        for item in spec.dimensions:
            answer = self._answer(item, items[item.id])
            if isinstance(answer, ReplyFault):
                return answer
            sample[item.id] = answer
        return sample

    @staticmethod
    def _answer(item: Dimension, reply: Mapping[str, Any]) -> Answer | ReplyFault:
        said: int | float | ReplyFault | None = None
        if item.always_applicable or not answers.is_not_applicable(reply.get("score")):
            said = answers.number(reply.get("score"), LOWEST, HIGHEST, item.id, whole=True)
        if isinstance(said, ReplyFault):
            return said
        return Answer(item.id, said, answers.explanation(reply), answers.evidence(reply))

    def settled(self, spec: WeightedSpec, samples: Sequence[Sample], wanted: int) -> bool:
        """Whether every dimension's median is fixed."""
        return votes.settled(samples, wanted)

    def combine(self, spec: WeightedSpec, samples: Sequence[Sample]) -> Judgement:
        """The weighted score of the applicable dimensions, with the raw mean in the details."""
        counted = {item.id: votes.grade([sample[item.id] for sample in samples]) for item in spec.dimensions}
        criteria = tuple(
            Criterion(
                item.id,
                counted[item.id].answer.value,
                counted[item.id].answer.value is not None,
                item.weight,
                counted[item.id].answer.explanation,
                counted[item.id].answer.evidence,
                counted[item.id].votes,
            )
            for item in spec.dimensions
        )
        return judgement(spec, criteria)


def judgement(spec: WeightedSpec, criteria: Sequence[Criterion]) -> Judgement:
    """The judgement from scored dimensions."""
    scored = [(Fraction(str(item.weight)), Fraction(str(item.score)), item) for item in criteria if item.applicable]
    if not scored:
        return Judgement(
            Outcome.NOT_APPLICABLE,
            threshold=spec.threshold,
            explanation="No dimension applies to this invocation.",
            criteria=tuple(criteria),
        )
    weights = sum((weight for weight, _, _ in scored), Fraction())
    total = sum((weight * score for weight, score, _ in scored), Fraction())
    share = total / (HIGHEST * weights)
    if spec.normalisation == "min_max":
        share = (total - LOWEST * weights) / ((HIGHEST - LOWEST) * weights)
    vetoed = [item for _, score, item in scored if score == LOWEST] if spec.veto else []
    passed = float(share) >= spec.threshold and not vetoed
    return Judgement(
        Outcome.PASS if passed else Outcome.FAIL,
        score=float(share),
        threshold=spec.threshold,
        explanation=_explanation(passed, vetoed, scored),
        criteria=tuple(criteria),
        details={
            "raw_mean": float(total / weights),
            "normalisation": spec.normalisation,
            **({"veto": [item.id for item in vetoed]} if vetoed else {}),
        },
    )


def _explanation(
    passed: bool, vetoed: Sequence[Criterion], scored: Sequence[tuple[Fraction, Fraction, Criterion]]
) -> str:
    """Names the dimensions that decided: those with most weight on the side of the verdict."""
    if vetoed:
        return "Veto: " + "; ".join(f"{item.id} [1]: {item.explanation}".rstrip(": ") for item in vetoed)
    middle = Fraction(LOWEST + HIGHEST, 2)
    pull = [(weight * (score - middle if passed else middle - score), item) for weight, score, item in scored]
    decisive = sorted((entry for entry in pull if entry[0] > 0), key=lambda entry: -entry[0])[:3]
    named = "; ".join(f"{item.id} [{item.score:g}]: {item.explanation}".rstrip(": ") for _, item in decisive)
    if not named:
        return "No single dimension decided: " + ", ".join(f"{item.id} [{item.score:g}]" for _, _, item in scored)
    return f"{'Carried by' if passed else 'Held down by'} {named}"
