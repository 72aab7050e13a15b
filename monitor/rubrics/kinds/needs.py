"""What a rubric needs of an invocation, and the reason why one that lacks it is unjudgeable (contract section 4)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from monitor.model.invocation import Capture, Invocation
from monitor.model.verdict import Unjudgeable


@dataclass(frozen=True, slots=True)
class Need:
    """A field that must be there. With `empty_is_known` it may be empty, if the telemetry carries it: no tool call is a fact."""

    field: str
    empty_is_known: bool = False


def _text(value: str | None) -> bool:
    return bool(value and value.strip())


REQUIRABLE: Mapping[str, Callable[[Invocation], bool]] = {
    "user_input": lambda invocation: _text(invocation.user_input),
    "final_response": lambda invocation: _text(invocation.final_response),
    "system_instructions": lambda invocation: _text(invocation.system_instructions),
    "history": lambda invocation: bool(invocation.history),
    "tool_definitions": lambda invocation: bool(invocation.tool_definitions),
    "tool_calls": lambda invocation: bool(invocation.tool_calls),
    "tool_results": lambda invocation: any(call.result_known for call in invocation.tool_calls),
    "context": lambda invocation: any(call.result_known for call in invocation.tool_calls),
}
"""What `requires` may name, and whether an invocation has it. `context` is what tools have returned."""

_PARTS = {"tool_results": ("tool_calls", "result"), "context": ("tool_calls", "result")}
"""Requirable fields that are parts of another field, for the paths in `completeness.capture`."""

_TURN = re.compile(r"\Aturns\[\d+\]\.")
_REASONS = {Capture.REDACTED: Unjudgeable.REDACTED.value, Capture.TRUNCATED: Unjudgeable.TRUNCATED.value}


def unmet(invocation: Invocation, needs: Sequence[Need]) -> str | None:
    """The reason why the invocation cannot be judged by a rubric with these needs, or None when it can."""
    return next((reason for need in needs if (reason := _unmet(invocation, need))), None)


def _unmet(invocation: Invocation, need: Need) -> str | None:
    captures = list(captured(invocation, need.field))
    spoilt = next((_REASONS[capture] for capture in captures if capture in _REASONS), None)
    if spoilt is not None:
        return spoilt
    if REQUIRABLE[need.field](invocation):
        return None
    if need.empty_is_known and not captures and need.field not in invocation.completeness.missing:
        return None
    if need.field == "final_response" and not captures and not _content_is_off(invocation):
        return Unjudgeable.NO_ANSWER.value
    return f"missing:{need.field}"


def absent(invocation: Invocation, fields: Sequence[str]) -> str | None:
    """The first of the fields that the invocation is known to have nothing of, or None."""
    return next((field for field in fields if not REQUIRABLE[field](invocation) and _known(invocation, field)), None)


def _known(invocation: Invocation, field: str) -> bool:
    return _unmet(invocation, Need(field, empty_is_known=True)) is None


def captured(invocation: Invocation, field: str) -> Iterator[Capture]:
    """Why values of a field, or of its parts, are not wholly in the telemetry."""
    head, part = _PARTS.get(field, (field, ""))
    for path, capture in invocation.completeness.capture.items():
        if invocation.turns:  # of a conversation what any of its turns lacks counts
            path = _TURN.sub("", path)
        if path == head or (path.startswith((f"{head}[", f"{head}.")) and path.endswith(part)):
            yield capture


def _content_is_off(invocation: Invocation) -> bool:
    """Whether neither question nor answer is in the telemetry: content was not recorded, the agent may well have answered."""
    return not _text(invocation.user_input) and "final_response" in invocation.completeness.missing
