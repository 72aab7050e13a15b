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
from monitor.rubrics.kinds.asking import check_ids
from monitor.rubrics.kinds.kind import ReplyFault, Sample
from monitor.rubrics.kinds.listed import ListedKind, ListedSpec, criterion
from monitor.rubrics.kinds.spec import Name, Statement, Weight
from monitor.settings.section import Section

LOWEST, HIGHEST = 1, 5


class Dimension(Section):
    """One aspect with its weight; `always_applicable` leaves the judge no way out."""

    id: Name
    weight: Weight = 1
    description: Statement
    always_applicable: bool = False


class WeightedSpec(ListedSpec):
    """A rubric document of this kind. `veto`: any applicable dimension scored 1 fails, whatever the score."""

    kind: Literal["weighted"] = "weighted"
    normalisation: Literal["of_max", "min_max"] = "of_max"
    veto: bool = False
    dimensions: tuple[Dimension, ...]

    @field_validator("dimensions")
    @classmethod
    def _unique(cls, value: tuple[Dimension, ...]) -> tuple[Dimension, ...]:
        check_ids([item.id for item in value])
        return value


class Weighted(ListedKind[WeightedSpec, Dimension]):
    """Asks for a score on each dimension and weighs them."""

    name = "weighted"
    spec = WeightedSpec
    key = "dimensions"
    field = "score"

    def items(self, spec: WeightedSpec) -> Sequence[Dimension]:
        """The dimensions."""
        return spec.dimensions

    def text(self, item: Dimension) -> str:
        """What the dimension looks at."""
        return item.description

    def answer_schema(self, item: Dimension) -> dict[str, Any]:
        """A whole number from 1 to 5."""
        grade = {"type": "integer", "enum": list(range(LOWEST, HIGHEST + 1))}
        if item.always_applicable:
            return grade
        return {"anyOf": [grade, {"type": "string", "enum": [votes.NOT_APPLICABLE]}]}

    def variables(self, spec: WeightedSpec) -> Mapping[str, Any]:
        """The dimensions. Weights are not shown: a judge that knows them scores the sum."""
        return {"dimensions": [item.model_dump(exclude={"weight"}) for item in spec.dimensions]}

    def said(self, item: Dimension, value: Any) -> int | float | ReplyFault:
        """The score."""
        return answers.number(value, LOWEST, HIGHEST, item.id, whole=True)

    def combine(self, spec: WeightedSpec, samples: Sequence[Sample]) -> Judgement:
        """The weighted score of the applicable dimensions, with the raw mean in the details."""
        criteria = [
            criterion(item.id, votes.grade([sample[item.id] for sample in samples]), item.weight)
            for item in spec.dimensions
        ]
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
