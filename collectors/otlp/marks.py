"""What intake must know of a span or log record before anyone reads its content: an end marker, telemetry of our own or of an
evaluator, and whether a log record belongs to an agent.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from collectors.otlp import schema

END_MARKER = "rubricd.invocation.end"
INTERNAL = "rubricd.internal"
EVALUATION_RESULT = b"gen_ai.evaluation.result"

OPENINFERENCE_KIND = "openinference.span.kind"
LANGFUSE_TYPE = "langfuse.observation.type"
OPERATION = "gen_ai.operation.name"
_EVALUATORS = (b"EVALUATOR", b"evaluator")
_EVALUATIONS = (b"judge", b"evaluate")
"""How evaluators name what their spans do (LiveKit evals and others)."""

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
_END_MARKER_KEY, _INTERNAL_KEY, _EVENT_NAME_KEY = END_MARKER.encode(), INTERNAL.encode(), b"event.name"


class LogMarks(NamedTuple):
    """What a log record says."""

    end_marker: bool
    own_telemetry: bool
    genai: bool


def own_resource(resource: Any) -> bool:
    """Whether a resource is that of rubricd itself."""
    return any(
        (pair.key == b"service.name" and pair.value.string_value == b"rubricd")
        or (pair.key == _INTERNAL_KEY and _is_true(pair.value))
        for pair in resource.attributes
    )


def ends_invocation(attributes: Any) -> bool:
    """Whether the attributes of a span's head have an end marker."""
    return END_MARKER in attributes and _is_true(attributes[END_MARKER])


def own_span(attributes: Any) -> bool:
    """Whether the attributes of a span's head are those of a span of ours, or of an evaluator."""
    return bool(  # written out, the usual first, because every span goes through here
        (OPERATION in attributes and attributes[OPERATION].string_value in _EVALUATIONS)
        or (INTERNAL in attributes and _is_true(attributes[INTERNAL]))
        or (OPENINFERENCE_KIND in attributes and attributes[OPENINFERENCE_KIND].string_value in _EVALUATORS)
        or (LANGFUSE_TYPE in attributes and attributes[LANGFUSE_TYPE].string_value in _EVALUATORS)
    )


def genai_scope(scope: Any) -> bool:
    """Whether all log records of a scope carry messages of an agent."""
    return bool(scope.name.startswith(_GENAI_SCOPES))


def of_log_record(record: Any, in_genai_scope: bool) -> LogMarks:
    """The marks of a parsed log record."""
    event, end_marker, own, genai = record.event_name, False, False, in_genai_scope
    for pair in record.attributes:
        key = pair.key
        if key == _EVENT_NAME_KEY:
            event = event or pair.value.string_value
        genai = genai or key.startswith(_GENAI_ATTRIBUTES)
        end_marker = end_marker or (key == _END_MARKER_KEY and _is_true(pair.value))
        own = own or (pair.key == _INTERNAL_KEY and _is_true(pair.value))
    genai = genai or event.startswith(_GENAI_EVENTS) or end_marker or _agentcore_body(record)
    return LogMarks(end_marker, own or event == EVALUATION_RESULT, genai)


def _is_true(value: Any) -> bool:
    """Whether a value is true; some SDKs can only send texts."""
    return bool(value.bool_value or value.string_value.lower() == b"true")


def _agentcore_body(record: Any) -> bool:
    """Whether the body is a map with `input` or `output` messages, as Bedrock AgentCore's log records have it."""
    inside = record.body.kvlist_value
    if b"messages" not in inside:
        return False
    try:
        return any(pair.key in _AGENTCORE_BODY for pair in schema.KeyValueList.FromString(inside).values)
    except schema.DecodeError:
        return False
