"""The version of a rubric: a hash of all that a verdict depends on, and the definition from which it can be judged again.

A new version starts a new series, so it must change when the meaning does and only then: description, owner, comments and the order of
documents, keys and criteria are not in it, and a default that is written out is the same as one that is left out.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from pydantic import ValidationError

from monitor.rubrics.kinds.catalogue import KINDS
from monitor.rubrics.kinds.code import CodeSpec
from monitor.rubrics.kinds.spec import JudgedSpec
from monitor.rubrics.rubric import Rubric, rubric_from
from monitor.settings.privacy import USUAL, Redaction
from monitor.settings.tree import JudgeSettings

MAPPING_REVISION = 1
"""How an invocation is laid before a judge. Goes up when the same invocation would be shown otherwise."""

_SHOWN_ONLY = frozenset({"description", "owner", "override", "folder"})
_CRITERIA = ("dimensions", "properties")


class UnusableDefinition(ValueError):
    """A stored definition that this program cannot read: a newer one wrote it, or it is damaged."""


@dataclass(frozen=True, slots=True)
class JudgeParameters:
    """What of a judge is part of a version: the model and how it is asked. `deployment` is Azure's name for the model."""

    model: str
    temperature: float | None = None
    max_tokens: int | None = None
    deployment: str | None = None


def judge_parameters(judge: JudgeSettings) -> JudgeParameters:
    """The parameters of a configured judge."""
    deployment = judge.azure.deployment if judge.azure else None
    return JudgeParameters(judge.model, judge.temperature, judge.max_tokens, deployment)


def definition(
    rubric: Rubric, judge: JudgeSettings | None, redaction: Redaction = USUAL, *, conversations: bool = False
) -> dict[str, Any]:
    """The rubric in full, as JSON, to be stored under its version; `judge` is None for a deterministic rubric. By which whole conversations are
    judged is another version: it sees and means something else. So is one whose judge is not shown what others are: what is redacted
    is part of the version, but for the usual policy, as other defaults are left out.
    """
    meaning = rubric.spec.model_dump(mode="json", by_alias=True, exclude_defaults=True, exclude=set(_SHOWN_ONLY))
    asked = judge is not None and isinstance(rubric.spec, JudgedSpec)
    return {
        "meaning": {**meaning, "kind": rubric.kind},
        "judge": _set(asdict(judge_parameters(judge))) if judge is not None and asked else None,
        "prompt": rubric.spec.prompt if isinstance(rubric.spec, JudgedSpec) else None,
        "mapping": MAPPING_REVISION if rubric.judged else None,
        **({"level": "conversation"} if conversations else {}),
        **({"redact": redaction.as_json()} if asked and redaction != USUAL else {}),
        "description": rubric.description,
        "owner": rubric.owner,
        **({"folder": rubric.spec.folder} if isinstance(rubric.spec, CodeSpec) else {}),
    }


def _set(values: Mapping[str, Any]) -> dict[str, Any]:
    """A parameter that is not set is left out, so that a parameter added later changes no version."""
    return {key: value for key, value in values.items() if value is not None}


def rubric_version(
    rubric: Rubric, judge: JudgeSettings | None, redaction: Redaction = USUAL, *, conversations: bool = False
) -> str:
    """12 hex digits: the start of the SHA-256 of the definition's meaning as canonical JSON (sorted keys, no blanks, UTF-8)."""
    hashed = {
        key: value
        for key, value in definition(rubric, judge, redaction, conversations=conversations).items()
        if key not in _SHOWN_ONLY
    }
    hashed["meaning"] = _without_order(hashed["meaning"])
    text = json.dumps(hashed, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _without_order(meaning: Mapping[str, Any]) -> dict[str, Any]:
    ordered = dict(meaning)
    for key in _CRITERIA:
        if key in ordered:
            ordered[key] = sorted(ordered[key], key=lambda item: str(item["id"]))
    if "requires" in ordered:
        ordered["requires"] = sorted(ordered["requires"])
    return ordered


def from_definition(stored: Mapping[str, Any]) -> Rubric:
    """The rubric of a stored definition. Raises UnusableDefinition."""
    try:
        meaning = stored["meaning"]
        shown = {key: stored[key] for key in ("description", "owner", "folder") if key in stored}
        return rubric_from(KINDS[meaning["kind"]].spec.model_validate({**meaning, **shown}))
    except (KeyError, TypeError, ValidationError) as error:
        raise UnusableDefinition(
            f"not the definition of a rubric that this version knows: {type(error).__name__}"
        ) from error


def parameters_from(stored: Mapping[str, Any]) -> JudgeParameters | None:
    """The judge's parameters of a stored definition; None for a deterministic rubric. Raises UnusableDefinition."""
    judge = stored.get("judge")
    try:
        return None if judge is None else JudgeParameters(**judge)
    except TypeError as error:
        raise UnusableDefinition("the judge of the stored definition has parameters that are not known here") from error


def redaction_from(stored: Mapping[str, Any]) -> Redaction:
    """What a stored definition says is to be replaced before its judge. Raises UnusableDefinition."""
    redact = stored.get("redact")
    try:
        return USUAL if redact is None else Redaction.from_json(redact)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UnusableDefinition("the redaction of the stored definition is not known here") from error
