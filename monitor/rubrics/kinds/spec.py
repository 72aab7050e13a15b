"""What rubric documents of all kinds have in common."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo, field_validator

from monitor.rubrics.kinds.needs import REQUIRABLE
from monitor.rubrics.kinds.paths import check_template
from monitor.settings.section import Section


def _printable(text: str) -> str:
    if not 1 <= len(text) <= 64 or not text.isprintable() or text != text.strip():
        raise ValueError("a name has 1 to 64 printable characters, with no blank at its ends")
    return text


def _no_flag(value: Any) -> Any:
    """YAML's `yes` is a truth value, and pydantic would take it for the number 1."""
    if isinstance(value, (bool, str)):
        raise ValueError("should be a number")
    return value


def _whole_when_whole(value: float) -> float:
    """5.0 and 5 are one weight: the version of a rubric must not tell them apart."""
    return int(value) if value == int(value) else value


def _statement(text: str) -> str:
    if not text.strip():
        raise ValueError("is empty: say in a sentence what is judged")
    return text


def _requirable(field: str) -> str:
    if field not in REQUIRABLE:
        raise ValueError(f"{field!r} cannot be required; these can: {', '.join(sorted(REQUIRABLE))}")
    return field


NEWEST_PROMPT = 1
"""The newest revision of the shipped prompts (`monitor/judging/prompts`)."""

Name = Annotated[str, AfterValidator(_printable)]
"""A rubric's name or a criterion's id."""

Number = Annotated[float, BeforeValidator(_no_flag), Field(allow_inf_nan=False)]
"""A finite number; truth values and texts are refused."""

Weight = Annotated[float, BeforeValidator(_no_flag), Field(gt=0, le=1000), AfterValidator(_whole_when_whole)]
"""A relative weight."""

Statement = Annotated[str, AfterValidator(_statement)]
"""A text that a judge reads; not empty."""

Share = Annotated[float, BeforeValidator(_no_flag), Field(ge=0, le=1)]
"""A score between 0 and 1."""

Requirable = Annotated[str, AfterValidator(_requirable), Field(json_schema_extra={"enum": sorted(REQUIRABLE)})]
"""A field of the invocation that a rubric may insist on."""


Hideable = Literal[
    "system_instructions", "tool_definitions", "history", "user_input", "tool_calls", "tool_results", "final_response"
]
"""A part of the record that a rubric may leave out: what a judge is not to see, or need not pay for."""


def _template(text: str) -> str:
    check_template(text)
    return text


Template = Annotated[str, AfterValidator(_template)]
"""A text with `{{…}}` paths into the invocation."""


class RubricSpec(Section):
    """Keys of every rubric. `description` and `owner` are shown, not part of the version."""

    name: Name
    kind: str
    description: str | None = None
    owner: str | None = None
    override: bool = False
    requires: tuple[Requirable, ...] = ()


class JudgedSpec(RubricSpec):
    """Keys of rubrics that a model judges.

    `about` is what is judged: the final answer, the use of tools, or the whole way there. `hide` leaves parts of the record out of
    what the judge sees; `context` adds sections to it, texts with `{{…}}` paths into the invocation. A run that is known to have none of a
    field in `only_with` is not applicable, and no judge is asked. `num_samples` replies vote; `quorum` of them must be readable
    (default: more than half). `prompt` is the revision of the shipped prompt.
    """

    about: Literal["final_response", "tool_use", "trajectory"] = "final_response"
    instructions: Statement | None = None
    hide: tuple[Hideable, ...] = ()
    only_with: tuple[Requirable, ...] = ()
    context: dict[Name, Template] = Field(default_factory=dict)
    num_samples: int = Field(1, ge=1, le=25)
    quorum: int | None = Field(None, ge=1)
    prompt: int = Field(1, ge=1)

    @field_validator("prompt")
    @classmethod
    def _is_shipped(cls, value: int) -> int:
        if value > NEWEST_PROMPT:
            raise ValueError(f"there is no revision {value} of the prompt; the newest is {NEWEST_PROMPT}")
        return value

    @field_validator("quorum")
    @classmethod
    def _can_be_reached(cls, value: int | None, info: ValidationInfo) -> int | None:
        samples = info.data.get("num_samples", 1)
        if value is not None and value > samples:
            raise ValueError(f"{value} of {samples} samples cannot be reached; lower it, or raise num_samples")
        return value

    @property
    def enough(self) -> int:
        """How many readable replies make a judgement."""
        return self.quorum or self.num_samples // 2 + 1
