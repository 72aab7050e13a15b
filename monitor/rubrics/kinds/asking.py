"""What judged kinds share: the shape of a reply, and the needs that follow from what a rubric is about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from monitor.rubrics.kinds.needs import Need
from monitor.rubrics.kinds.spec import JudgedSpec

_ABOUT: Mapping[str, tuple[Need, ...]] = {
    "final_response": (Need("final_response"),),
    "tool_use": (Need("tool_calls", empty_is_known=True),),
    "trajectory": (Need("user_input"), Need("tool_calls", empty_is_known=True)),
}


def judged_needs(spec: JudgedSpec) -> tuple[Need, ...]:
    """What `requires` names, and what the rubric is about."""
    return (*named_needs(spec), *_ABOUT[spec.about])


def named_needs(spec: JudgedSpec) -> tuple[Need, ...]:
    """What `requires` names, and what `only_with` names: that may be empty, but it must be known."""
    known = (Need(field, empty_is_known=True) for field in spec.only_with)
    return (*(Need(field) for field in spec.requires), *known)


MAX_CRITERIA = 50
"""One reply answers all of them; judges lose count in longer lists."""


def check_ids(ids: Sequence[str]) -> None:
    """Raises ValueError for no ids, too many, or one given twice."""
    if not 1 <= len(ids) <= MAX_CRITERIA:
        raise ValueError(f"has {len(ids)} entries: give 1 to {MAX_CRITERIA}")
    twice = next((id_ for index, id_ in enumerate(ids) if id_ in ids[:index]), None)
    if twice is not None:
        raise ValueError(f"the id {twice!r} is given twice")


def verdict_object(verdict: Mapping[str, Any]) -> dict[str, Any]:
    """Evidence, then reasoning, then the verdict: constrained decoding writes keys in this order (and so does the alphabet)."""
    return _object(
        {"evidence": {"type": "array", "items": {"type": "string"}}, "reasoning": {"type": "string"}, **verdict}
    )


def reply_object(key: str, verdicts: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """A reply with one verdict object for each id: keyed by id, so that a schema can insist on every id exactly once."""
    return _object({key: _object({id_: verdict_object(verdict) for id_, verdict in verdicts.items()})})


def _object(properties: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }
