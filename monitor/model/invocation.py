"""An invocation: one agent run that a user would see as one request and its answer (contract section 3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from enum import StrEnum
from typing import Any

from collectors.immutable import immutable


class SettledBy(StrEnum):
    """What made a trace settle."""

    ROOT_ENDED = "root_ended"
    END_MARKER = "end_marker"
    IDLE = "idle"
    MAX_AGE = "max_age"


class ToolStatus(StrEnum):
    """How a tool call ended, as far as the telemetry tells."""

    OK = "ok"
    ERROR = "error"
    PENDING = "pending"
    DENIED = "denied"
    UNKNOWN = "unknown"


class Capture(StrEnum):
    """Why a value that exists is not (wholly) in the telemetry."""

    NOT_CAPTURED = "not_captured"
    REDACTED = "redacted"
    TRUNCATED = "truncated"
    REFERENCED = "referenced"


Part = Mapping[str, Any]
"""A message part in the shape of the GenAI conventions: {"type": "text", "content": "…"} and so on."""


@immutable(frozen=True, slots=True)
class Message:
    """One message: role system, user, assistant or tool, and its parts in order."""

    role: str
    parts: tuple[Part, ...]


@immutable(frozen=True, slots=True)
class ToolDefinition:
    """A tool the model was offered; `parameters` is its JSON Schema, None where only the name is recorded."""

    name: str
    description: str | None = None
    parameters: Any = None


@immutable(frozen=True, slots=True)
class ToolCall:
    """A tool call, in the order asked for. Times are nanoseconds since 1970-01-01Z, None where no span tells them.

    `arguments` is the decoded JSON value when it decodes, else the string. `result` is what the model saw: a string when it was one,
    else the JSON value; `result_known` tells a null result from a missing one.
    """

    name: str
    id: str | None = None
    arguments: Any = None
    result: Any = None
    result_known: bool = False
    error: str | None = None
    status: ToolStatus = ToolStatus.UNKNOWN
    span_id: str | None = None
    agent_name: str | None = None
    started_at: int | None = None
    ended_at: int | None = None


@immutable(frozen=True, slots=True)
class Completeness:
    """How the invocation settled and what its telemetry did not carry.

    `missing` names fields of the invocation; `capture` maps a field path to the reason why its value is not whole.
    """

    settled_by: SettledBy
    missing: tuple[str, ...] = ()
    capture: Mapping[str, Capture] = field(default_factory=dict)
    late_spans: int = 0


@immutable(frozen=True, slots=True)
class Invocation:
    """One agent run. `started_at` and `ended_at` are nanoseconds since 1970-01-01Z; tokens are sums over the tree.

    `attributes` holds only the keys that the configuration asks for. `convention` is the dialect of the root span.
    """

    id: str
    trace_id: str
    span_id: str
    started_at: int
    ended_at: int
    completeness: Completeness
    convention: str
    collector: str = ""
    parent_id: str | None = None
    conversation_id: str | None = None
    agent_name: str | None = None
    agent_version: str | None = None
    environment: str | None = None
    service: str | None = None
    model: str | None = None
    revision: int = 1
    system_instructions: str | None = None
    user_input: str | None = None
    history: tuple[Message, ...] = ()
    tool_definitions: tuple[ToolDefinition, ...] = ()
    tool_calls: tuple[ToolCall, ...] = ()
    final_response: str | None = None
    error: str | None = None
    model_calls: int = 0
    input_tokens: int | None = None
    output_tokens: int | None = None
    attributes: Mapping[str, Any] = field(default_factory=dict)
    inclusion_probability: float = 1.0
    operation: str | None = None
    """`gen_ai.operation.name` of the root, for `select.operation`; not part of the JSON."""
    turns: tuple[Invocation, ...] = ()
    """The invocations of a conversation in order, where this is a conversation (`monitor.model.conversation`); empty for one run."""

    @property
    def label_agent(self) -> str:
        """The `agent` label: agent name, else service name, else `unknown` (contract section 6)."""
        return self.agent_name or self.service or "unknown"


@immutable(frozen=True, slots=True)
class Provenance:
    """Where a field came from, for `reconstruct --explain`."""

    field: str
    span_id: str
    source: str
    convention: str


@immutable(frozen=True, slots=True)
class Assembled:
    """An invocation with what only its maker knows: its member spans (hex ids) and the origin of each field."""

    invocation: Invocation
    span_ids: frozenset[str]
    provenance: Sequence[Provenance] = ()
