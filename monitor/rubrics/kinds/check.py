"""Kind `check`: expectations that need no judge. All that apply must hold; the score is the share that does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, field_validator, model_validator

from monitor.model.invocation import Invocation
from monitor.model.verdict import Criterion, Judgement, Outcome
from monitor.rubrics.kinds.expectations import EXPECTATIONS, Finding, findings
from monitor.rubrics.kinds.needs import Need, unmet
from monitor.rubrics.kinds.regex_search import compiled
from monitor.rubrics.kinds.schema_check import check_schema
from monitor.rubrics.kinds.spec import Number, RubricSpec
from monitor.settings.section import Section
from monitor.settings.units import Duration


def _several(value: Any) -> Any:
    return [value] if isinstance(value, (str, dict)) else value


def _filled(values: tuple[str, ...]) -> tuple[str, ...]:
    if not values or not all(values):
        raise ValueError("is empty: give one text or a list of texts")
    return values


def _patterns(values: tuple[str, ...]) -> tuple[str, ...]:
    for value in values:
        compiled(value)
    return values


def _schema(value: dict[str, Any]) -> dict[str, Any]:
    check_schema(value)
    return value


Texts = Annotated[
    tuple[str, ...], BeforeValidator(_several, json_schema_input_type=str | list[str]), AfterValidator(_filled)
]
Patterns = Annotated[Texts, AfterValidator(_patterns)]
Schema = Annotated[dict[str, Any], AfterValidator(_schema)]
Seconds = Annotated[Duration, PlainSerializer(lambda seconds: f"{seconds:.12g}s")]
Count = Annotated[int, Field(ge=0, strict=True)]
Wanted = Literal[True]


class Call(Section):
    """An expected tool call; left-out arguments are not compared."""

    tool: str
    arguments: dict[str, Any] | None = None


class Order(Section):
    """Expected tool calls; `calls` takes names as well."""

    mode: Literal["exact", "in_order", "any_order"] = "in_order"
    calls: tuple[Call, ...]

    @field_validator("calls", mode="before", json_schema_input_type=list[str | Call])
    @classmethod
    def _names(cls, value: Any) -> Any:
        return (
            [{"tool": item} if isinstance(item, str) else item for item in value] if isinstance(value, list) else value
        )


class Arguments(Section):
    """A JSON Schema that the arguments of every call of a tool follow."""

    tool: str
    json_schema: Schema = Field(alias="schema")


ArgumentRules = Annotated[
    tuple[Arguments, ...], BeforeValidator(_several, json_schema_input_type=Arguments | list[Arguments])
]


class Cost(Section):
    """A bound in USD, with the prices of the agent's own model."""

    usd: Annotated[Number, Field(gt=0)]
    input_per_million: Annotated[Number, Field(ge=0)]
    output_per_million: Annotated[Number, Field(ge=0)]


class Expect(Section):
    """What must be so. Texts are compared without regard to case; patterns are searched in the final answer."""

    tool_called: Texts | None = None
    tool_not_called: Texts | None = None
    tool_order: Order | None = None
    tool_arguments: ArgumentRules | None = None
    no_tool_errors: Wanted | None = None
    known_tools: Wanted | None = None
    max_repeated_tool_calls: Annotated[Count, Field(ge=1)] | None = None
    final_response_present: Wanted | None = None
    final_response_schema: Schema | None = None
    required_text: Texts | None = None
    forbidden_text: Texts | None = None
    required_regex: Patterns | None = None
    forbidden_regex: Patterns | None = None
    no_error: Wanted | None = None
    max_latency: Seconds | None = None
    max_tokens: Count | None = None
    max_cost: Cost | None = None
    max_tool_calls: Count | None = None
    max_model_calls: Count | None = None

    @model_validator(mode="after")
    def _something(self) -> Expect:
        if not any(True for _ in self.given()):
            raise ValueError(f"expects nothing; one or more of {', '.join(EXPECTATIONS)}")
        return self

    def given(self) -> Iterator[tuple[str, Any]]:
        """The expectations that are set."""
        for key in EXPECTATIONS:
            setting = getattr(self, key)
            if setting is not None:
                yield key, setting


class CheckSpec(RubricSpec):
    """A rubric document of this kind."""

    kind: Literal["check"] = "check"
    expect: Expect


class Check:
    """Judges by looking; no model is asked."""

    name = "check"
    spec = CheckSpec

    def needs(self, spec: CheckSpec) -> tuple[Need, ...]:
        """What `requires` names; what an expectation needs it says itself."""
        return tuple(Need(field) for field in spec.requires)

    def threshold(self, spec: CheckSpec) -> float:
        """All must hold."""
        return 1.0

    def score_range(self, spec: CheckSpec) -> tuple[float, float]:
        """A share."""
        return 0.0, 1.0

    def judge(self, spec: CheckSpec, invocation: Invocation) -> Judgement:
        """Pass when all expectations that apply hold. One that fails decides; else one that cannot be told makes it unjudgeable."""
        lacking = unmet(invocation, self.needs(spec))
        if lacking is not None:
            return Judgement(Outcome.UNJUDGEABLE, threshold=1.0, unjudgeable_reason=lacking)
        found = dict(findings(spec.expect.given(), invocation))
        criteria = tuple(_criterion(key, finding) for key, finding in found.items())
        details: Mapping[str, Any] = {key: dict(finding.details) for key, finding in found.items() if finding.details}
        failed = [finding for finding in found.values() if finding.held is False]
        unknown = next((finding.lacking for finding in found.values() if finding.lacking), None)
        applicable = [finding for finding in found.values() if finding.held is not None]
        if unknown is not None and not failed:
            return Judgement(
                Outcome.UNJUDGEABLE, threshold=1.0, unjudgeable_reason=unknown, criteria=criteria, details=details
            )
        if not applicable:
            text = " ".join(finding.explanation for finding in found.values())
            return Judgement(
                Outcome.NOT_APPLICABLE, threshold=1.0, explanation=text, criteria=criteria, details=details
            )
        return Judgement(
            Outcome.FAIL if failed else Outcome.PASS,
            score=(len(applicable) - len(failed)) / len(applicable),
            threshold=1.0,
            explanation=" ".join(finding.explanation for finding in failed or applicable),
            criteria=criteria,
            details=details,
        )


def _criterion(key: str, finding: Finding) -> Criterion:
    return Criterion(
        key, None if finding.held is None else float(finding.held), finding.held is not None, None, finding.explanation
    )
