"""Kind `code`: a team's own evaluator. A program reads the invocation as JSON (contract section 3) on its standard input and prints a verdict.

What it prints is one JSON object: `verdict` (pass, fail, not_applicable, unjudgeable) or `score` (0 to 1, passes from the threshold), or both;
besides `explanation`, `reason` (for unjudgeable) and `criteria`, a list of {id, score, explanation, applicable}. Nothing is guessed: any
other output is a failed evaluation. Running it is `monitor.judging.programs`; nothing here does I/O.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, PlainSerializer, field_validator, model_validator

from monitor.model.verdict import Criterion, ErrorType, Judgement, Outcome
from monitor.rubrics.kinds import answers
from monitor.rubrics.kinds.kind import ReplyFault
from monitor.rubrics.kinds.needs import Need
from monitor.rubrics.kinds.spec import RubricSpec, Share
from monitor.settings.units import Duration, Size, size_text

_MOST_CRITERIA = 200


def _words(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


Seconds = Annotated[Duration, PlainSerializer(lambda seconds: f"{seconds:.12g}s")]
Bytes = Annotated[Size, PlainSerializer(size_text)]


class CodeSpec(RubricSpec):
    """A rubric document of this kind. `command` is a program with its arguments, `function` a Python function as `module:name`; both are
    looked for from the folder of the rubric file. `timeout` is wall-clock and processor time, `memory` the address space. The
    program gets PATH, HOME, LANG and TZ of our environment and what `environment` names.

    `folder` and `content` (a hash of the program's files) are filled in when the file is read; `content` is part of the version.
    """

    kind: Literal["code"] = "code"
    command: Annotated[tuple[str, ...], BeforeValidator(_words, json_schema_input_type=str | list[str])] = ()
    function: str | None = None
    threshold: Share = 0.5
    timeout: Seconds = Field(10.0, gt=0, le=600)
    memory: Bytes = Field(1024**3, ge=32 * 1024**2)
    max_output: Bytes = Field(256 * 1024, ge=64, le=64 * 1024**2)
    environment: tuple[str, ...] = ()
    folder: str = ""
    content: str = ""

    @field_validator("function")
    @classmethod
    def _module_and_name(cls, value: str | None) -> str | None:
        module, _, name = (value or "").partition(":")
        if value is not None and not (name.isidentifier() and all(part.isidentifier() for part in module.split("."))):
            raise ValueError("should be `module:function`, as in `house_rules:judge`")
        return value

    @model_validator(mode="after")
    def _one_of(self) -> CodeSpec:
        if bool(self.command) == (self.function is not None):
            raise ValueError("give `command` or `function`, one of them")
        if self.command and not self.command[0]:
            raise ValueError("`command` begins with an empty text: name the program")
        return self


class Code:
    """Says what a program's output means."""

    name = "code"
    spec = CodeSpec

    def needs(self, spec: CodeSpec) -> tuple[Need, ...]:
        """What `requires` names."""
        return tuple(Need(field) for field in spec.requires)

    def threshold(self, spec: CodeSpec) -> float:
        """The score from which it passes."""
        return spec.threshold

    def score_range(self, spec: CodeSpec) -> tuple[float, float]:
        """A share."""
        return 0.0, 1.0

    def read_output(self, spec: CodeSpec, output: str) -> Judgement | ReplyFault:
        """What the program printed, as a judgement."""
        try:
            said = json.loads(output)
        except (ValueError, RecursionError):
            return _fault("printed no JSON object")
        if not isinstance(said, Mapping):
            return _fault("printed no JSON object")
        criteria = _criteria(said.get("criteria"))
        score = _score(said.get("score"), "score") if said.get("score") is not None else None
        outcome = _outcome(said.get("verdict"), score, spec.threshold)
        for found in (criteria, score, outcome):
            if isinstance(found, ReplyFault):
                return found
        assert not isinstance(criteria, ReplyFault) and not isinstance(score, ReplyFault)
        assert not isinstance(outcome, ReplyFault)
        return _judgement(said, outcome, score, criteria, spec)


def _judgement(
    said: Mapping[str, Any], outcome: Outcome, score: float | None, criteria: tuple[Criterion, ...], spec: CodeSpec
) -> Judgement:
    scored = outcome in (Outcome.PASS, Outcome.FAIL)
    unjudgeable = outcome is Outcome.UNJUDGEABLE
    return Judgement(
        outcome,
        score=(float(outcome is Outcome.PASS) if score is None else score) if scored else None,
        threshold=spec.threshold,
        explanation=answers.explanation(said),
        unjudgeable_reason=_reason(said.get("reason")) if unjudgeable else None,
        criteria=criteria,
    )


def _reason(value: Any) -> str:
    """Only closed reasons are labels: no_answer, truncated, redacted, missing:<field>."""
    known = isinstance(value, str) and (value in ("no_answer", "truncated", "redacted") or value.startswith("missing:"))
    return str(value)[:64] if known else "missing:data"


def _fault(what: str) -> ReplyFault:
    return ReplyFault(ErrorType.EVALUATOR_FAILED, f"the evaluator {what}")


def _outcome(verdict: Any, score: float | ReplyFault | None, threshold: float) -> Outcome | ReplyFault:
    if verdict is None and isinstance(score, float):
        return Outcome.PASS if score >= threshold else Outcome.FAIL
    if isinstance(verdict, str) and verdict in {*Outcome}:
        return Outcome(verdict)
    if verdict is None:
        return score if isinstance(score, ReplyFault) else _fault("gave neither `verdict` nor `score`")
    return _fault(f"gave a `verdict` that is none of {', '.join(Outcome)}")


def _score(value: Any, where: str) -> float | ReplyFault:
    plain = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not plain or not 0 <= value <= 1:  # NaN is not
        return _fault(f"gave a `{where}` that is no number from 0 to 1")
    return float(value)


def _criteria(items: Any) -> tuple[Criterion, ...] | ReplyFault:
    if items is None:
        return ()
    if not isinstance(items, list) or len(items) > _MOST_CRITERIA:
        return _fault(f"gave `criteria` that are no list of at most {_MOST_CRITERIA}")
    found = []
    for item in items:
        if not isinstance(item, Mapping) or not isinstance(item.get("id"), str):
            return _fault("gave a criterion without `id`")
        score = _score(item["score"], "criteria.score") if item.get("score") is not None else None
        if isinstance(score, ReplyFault):
            return score
        applicable = item.get("applicable", score is not None) is True
        found.append(Criterion(item["id"][:64], score, applicable, None, answers.explanation(item)))
    return tuple(found)
