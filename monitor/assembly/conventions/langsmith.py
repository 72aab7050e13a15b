"""LangSmith's OpenTelemetry export: whole run inputs and outputs as JSON in `gen_ai.prompt` and `gen_ai.completion`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from monitor.assembly.conventions.convention import Convention
from monitor.assembly.conventions.reader import Reader
from monitor.assembly.errors import exception_of
from monitor.assembly.facts import Facts, Field, SpanClass
from monitor.assembly.opaque import opaque_messages
from monitor.assembly.record import Record
from monitor.assembly.results import result_value
from monitor.assembly.values import decode, number_of, withheld
from monitor.model.invocation import Capture

KINDS = {
    "llm": SpanClass.MODEL,
    "tool": SpanClass.TOOL,
    "chain": SpanClass.CHAIN,
    "retriever": SpanClass.STEP,
    "embedding": SpanClass.STEP,
    "prompt": SpanClass.STEP,
    "parser": SpanClass.STEP,
}
_EMPTY = ("{}", "", None)


class LangSmith(Convention):
    """Spans with `langsmith.*` attributes."""

    name = "langsmith"
    words = frozenset({"langsmith"})

    def recognises(self, record: Record) -> bool:
        """The kind, or any other attribute of LangSmith."""
        return "langsmith" in record.shape.prefixes

    def read(self, record: Record) -> Facts:
        """Facts by the kind of run. The exporter sets status OK on failed runs too: their exception event tells."""
        reader = Reader(record, self.name)
        kind = KINDS.get((record.text("langsmith.span.kind") or "").lower())
        reader.classify(kind, "langsmith.span.kind")
        reader.text(Field.AGENT_NAME, "langsmith.metadata.lc_agent_name")
        reader.text(Field.MODEL, "langsmith.metadata.ls_model_name")
        _usage(reader)
        if kind is SpanClass.CHAIN:
            reader.put(Field.WORKFLOW_NAME, record.span.name, "span name", weak=True)
        failure = exception_of(record.span)
        if failure is not None:
            reader.put(Field.ERROR, failure, "exception event")
        if kind is SpanClass.TOOL:
            _tool(reader)
        else:
            _content(reader, failed=failure is not None)
        return reader.facts


def _usage(reader: Reader) -> None:
    usage = decode(reader.record.attributes.get("langsmith.metadata.usage_metadata"))
    if isinstance(usage, Mapping):
        for field, key in ((Field.INPUT_TOKENS, "input_tokens"), (Field.OUTPUT_TOKENS, "output_tokens")):
            number = number_of(usage.get(key))
            if number is not None:
                reader.put(field, number, f"langsmith.metadata.usage_metadata {key}")


def _content(reader: Reader, *, failed: bool) -> None:
    for field, role, key in ((Field.INPUT, "user", "gen_ai.prompt"), (Field.OUTPUT, "assistant", "gen_ai.completion")):
        content = reader.record.attributes.get(key)
        if content is None or (failed and field is Field.OUTPUT):
            continue
        found, reason = opaque_messages(content, role)
        reader.put(field, found, key, capture=reason)


def _tool(reader: Reader) -> None:
    attributes = reader.record.attributes
    reader.text(Field.TOOL_NAME, "gen_ai.tool.name", "langsmith.trace.name")
    given, answer = attributes.get("gen_ai.prompt"), attributes.get("gen_ai.completion")
    hidden = answer in _EMPTY
    if given is not None and not (hidden and given in _EMPTY):
        reader.arguments(_arguments(given), "gen_ai.prompt")
    elif given is not None:
        reader.put(Field.ARGUMENTS, None, "gen_ai.prompt", capture=Capture.NOT_CAPTURED)
    if answer is None:
        return
    reason = withheld(answer) or (Capture.NOT_CAPTURED if hidden else None)
    if reason is not None:
        reader.put(Field.RESULT, None, "gen_ai.completion", capture=reason)
        return
    decoded = decode(answer)
    inner = result_value(decoded)
    reader.result(answer if inner is decoded and not isinstance(decoded, str) else inner, "gen_ai.completion")
    _message_facts(reader, decoded)


def _arguments(value: Any) -> Any:
    """Arguments; a tool run outside a graph has them as text under `input`."""
    decoded = decode(value)
    if isinstance(decoded, Mapping) and set(decoded) == {"input"}:
        inner = decode(decoded["input"])
        return inner if isinstance(inner, Mapping) else value
    return value


def _message_facts(reader: Reader, decoded: Any) -> None:
    message = decoded.get("output") if isinstance(decoded, Mapping) else None
    fields = message.get("kwargs", message) if isinstance(message, Mapping) else None
    if isinstance(fields, Mapping):
        call_id = fields.get("tool_call_id")
        if isinstance(call_id, str) and call_id.strip():
            reader.put(Field.CALL_ID, call_id, "gen_ai.completion", weak=True)
        if fields.get("status") == "error":
            reader.put(Field.TOOL_FAILED, True, "gen_ai.completion")
