"""What a span says of itself, as facts with their origin, whatever dialect says it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from monitor.model.invocation import Capture


class SpanClass(StrEnum):
    """What kind of work a span stands for."""

    AGENT = "agent"
    WORKFLOW = "workflow"
    SESSION = "session"
    CHAIN = "chain"
    MODEL = "model"
    TOOL = "tool"
    HANDOFF = "handoff"
    STEP = "step"
    SETUP = "setup"
    EVALUATION = "evaluation"
    DUPLICATE = "duplicate"
    OTHER = "other"


CANDIDATES = frozenset({SpanClass.AGENT, SpanClass.WORKFLOW})
"""Classes that can be an invocation or a sub-agent."""


class Field(StrEnum):
    """A fact about a span. Values: text unless said otherwise."""

    CLASS = "class"  # SpanClass
    OPERATION = "operation"
    AGENT_NAME = "agent_name"
    AGENT_VERSION = "agent_version"
    WORKFLOW_NAME = "workflow_name"
    ENVIRONMENT = "environment"
    CONVERSATION = "conversation_id"
    RUN = "run_id"
    MODEL = "model"
    RESPONSE_MODEL = "response_model"
    RESPONSE_ID = "response_id"
    SYSTEM = "system_instructions"
    INPUT = "input"  # tuple[Message, ...]: what the span was given
    OUTPUT = "output"  # tuple[Message, ...]: what it produced, for an agent perhaps the whole run
    ANSWER = "answer"  # the final answer where it is recorded apart from messages
    DEFINITIONS = "tool_definitions"  # tuple[ToolDefinition, ...]
    OUTPUT_TOOLS = "output_tools"  # tuple[str, ...]: tools that only carry the structured answer
    TOOL_NAME = "tool_name"
    CALL_ID = "call_id"
    ARGUMENTS = "arguments"  # any JSON value
    RESULT = "result"  # any JSON value
    TOOL_FAILED = "tool_failed"  # bool
    TOOL_DENIED = "tool_denied"  # bool
    TOOL_PENDING = "tool_pending"  # bool: the run ended while the call waits for approval or is made elsewhere
    CALLS_HIDDEN = "calls_hidden"  # bool: tools may have been called inside a model call that does not tell
    ENTRIES = (
        "entries"  # tuple[tuple[Message, ...], ...]: the recorded entries of the input, of dialects that count them
    )
    BASE = "base"  # tuple[str, int]: span whose input this one's goes on from, and how many of its last entries are dropped
    TOOL_SCHEMA = "tool_schema"  # ToolDefinition of the tool that ran
    ERROR = "error"
    INTERRUPTED = "interrupted"  # bool: the user broke in
    ASKS = "asks"  # bool: the model stopped in order to call tools
    PREVIOUS_RESPONSE = "previous_response_id"
    NATIVE = "native"  # bool: the provider's own record of a call
    INPUT_TOKENS = "input_tokens"  # int
    OUTPUT_TOKENS = "output_tokens"  # int


@dataclass(slots=True, eq=False)
class Found:
    """A value and where it was found. `capture` says why it is not whole; the value is then None or a part of it.

    `weak` marks a stand-in (a span's name for an agent's) that gives way to any other source. `pinned` keeps other dialects' readings of
    the same span from taking its place, where the emitter is known to write them wrongly. Never changed once made; not frozen, because
    there are several of them per span.
    """

    value: Any
    source: str
    convention: str = ""
    capture: Capture | None = None
    weak: bool = False
    pinned: bool = False


Facts = dict[Field, Found]

_RANK = {None: 0, Capture.TRUNCATED: 2, Capture.REFERENCED: 3, Capture.REDACTED: 4, Capture.NOT_CAPTURED: 5}


def rank(found: Found) -> int:
    """How usable a value is: 0 whole, more the less it is."""
    return found.weak if found.capture is None else _RANK[found.capture] * 2 + found.weak


def better(current: Found | None, other: Found | None) -> Found | None:
    """The more usable of two; the first on a tie."""
    if current is None or other is None:
        return other if current is None else current
    return other if rank(other) < rank(current) else current


def merge(into: dict[Field, Found], facts: Facts) -> None:
    """Take over each fact that is missing in `into` or more usable than what is there."""
    for field, found in facts.items():
        current = into.get(field)
        if current is None or (not current.pinned and rank(found) < rank(current)):
            into[field] = found


def value(facts: Facts, field: Field) -> Any:
    """The fact's value, None where there is none."""
    found = facts.get(field)
    return None if found is None else found.value
