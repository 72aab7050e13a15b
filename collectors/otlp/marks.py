"""What intake must know of a span or log record before anyone reads its content: an end marker, telemetry of our own or of an
evaluator, and whether a log record belongs to an agent.

Spans are only looked into when the bytes of the request hold one of `_PATTERNS`. The patterns of key and value together take for granted
that a sender writes the fields of a message in their order, as every protobuf runtime does.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from collectors.otlp import schema

END_MARKER = b"rubricd.invocation.end"
INTERNAL = b"rubricd.internal"
EVALUATION_RESULT = b"gen_ai.evaluation.result"
EVENT_NAME = b"event.name"

_EVALUATOR_VALUES = {
    b"openinference.span.kind": (b"EVALUATOR",),
    b"langfuse.observation.type": (b"evaluator",),
    b"gen_ai.operation.name": (b"judge", b"evaluate"),
}
"""Attributes by which evaluators mark their spans (OpenInference; Langfuse SDK; LiveKit evals and others)."""

_GENAI_EVENTS = (b"gen_ai.", b"claude_code.", b"codex.", b"gemini_cli.")
_GENAI_SCOPES = (
    b"com.anthropic.claude_code",
    b"codex",
    b"gemini-cli",
    b"github.copilot",
    b"org.springframework.ai.chat.observation.",
)
"""Scopes whose log records carry messages without any GenAI attribute."""

_GENAI_ATTRIBUTES = (
    b"gen_ai.", b"gcp.vertex.agent.", b"traceloop.", b"llm.", b"openinference.", b"ai.", b"lk.", b"langsmith.", b"langfuse.",
    b"mlflow.", b"genkit:", b"mastra.", b"haystack.", b"dify.", b"spring.ai.", b"pydantic_ai.",
)  # fmt: skip
_AGENTCORE_BODY = {b"input", b"output"}


def _pair(key: bytes, value: bytes) -> bytes:
    """A KeyValue with a short string value as it lies in the request."""
    inner = b"\x0a" + bytes([len(value)]) + value
    return key + b"\x12" + bytes([len(inner)]) + inner


_PATTERNS = (b"rubricd.in", *(_pair(key, value) for key, values in _EVALUATOR_VALUES.items() for value in values))


class SpanMarks(NamedTuple):
    """What the attributes of a span say."""

    end_marker: bool = False
    own_telemetry: bool = False


class LogMarks(NamedTuple):
    """What a log record says."""

    end_marker: bool
    own_telemetry: bool
    genai: bool


def may_be_marked(data: bytes) -> bool:
    """Whether the bytes of a request or span can hold a mark; False is certain."""
    return any(pattern in data for pattern in _PATTERNS)


def own_resource(resource: Any) -> bool:
    """Whether a resource is that of rubricd itself."""
    return any(
        (pair.key == b"service.name" and pair.value.string_value == b"rubricd") or _is_true(pair, INTERNAL)
        for pair in resource.attributes
    )


def of_span(span: Any) -> SpanMarks:
    """The marks of a parsed span."""
    end_marker = own = False
    for pair in span.attributes:
        end_marker = end_marker or _is_true(pair, END_MARKER)
        own = own or _is_true(pair, INTERNAL) or pair.value.string_value in _EVALUATOR_VALUES.get(pair.key, ())
    return SpanMarks(end_marker, own)


def genai_scope(scope: Any) -> bool:
    """Whether all log records of a scope carry messages of an agent."""
    return bool(scope.name.startswith(_GENAI_SCOPES))


def of_log_record(record: Any, in_genai_scope: bool) -> LogMarks:
    """The marks of a parsed log record."""
    event, end_marker, own, genai = record.event_name, False, False, in_genai_scope
    for pair in record.attributes:
        key = pair.key
        if key == EVENT_NAME:
            event = event or pair.value.string_value
        genai = genai or key.startswith(_GENAI_ATTRIBUTES)
        end_marker = end_marker or _is_true(pair, END_MARKER)
        own = own or _is_true(pair, INTERNAL)
    genai = genai or event.startswith(_GENAI_EVENTS) or end_marker or _agentcore_body(record)
    return LogMarks(end_marker, own or event == EVALUATION_RESULT, genai)


def _is_true(pair: Any, key: bytes) -> bool:
    """Whether this is the attribute `key` and true; some SDKs can only send texts."""
    return pair.key == key and bool(pair.value.bool_value or pair.value.string_value.lower() == b"true")


def _agentcore_body(record: Any) -> bool:
    """Whether the body is a map with `input` or `output` messages, as Bedrock AgentCore's log records have it."""
    inside = record.body.kvlist_value
    if b"messages" not in inside:
        return False
    try:
        return any(pair.key in _AGENTCORE_BODY for pair in schema.KeyValueList.FromString(inside).values)
    except schema.DecodeError:
        return False
