"""OpenLLMetry (Traceloop): `traceloop.*` on agents and tools, flattened `gen_ai.prompt.N` and `llm.request.*` before 0.53."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from monitor.assembly.conventions.convention import Convention
from monitor.assembly.conventions.flattening import flattened
from monitor.assembly.conventions.reader import Reader
from monitor.assembly.definitions import definition_of, united
from monitor.assembly.facts import Facts, Field, SpanClass
from monitor.assembly.messages import lacking, messages_of
from monitor.assembly.opaque import opaque_messages
from monitor.assembly.record import Record
from monitor.assembly.results import result_value
from monitor.assembly.values import decode, withheld

KINDS = {
    "workflow": SpanClass.WORKFLOW,
    "agent": SpanClass.AGENT,
    "task": SpanClass.CHAIN,
    "tool": SpanClass.TOOL,
    "handoff": SpanClass.HANDOFF,
}
_REQUEST_TYPES = {"chat": SpanClass.MODEL, "completion": SpanClass.MODEL}
_FLAT = frozenset({"gen_ai.prompt.", "gen_ai.completion.", "llm.request."})


class OpenLlmetry(Convention):
    """Spans of Traceloop's instrumentations and decorators."""

    name = "openllmetry"
    words = frozenset({"traceloop", "gen_ai", "llm"})

    def recognises(self, record: Record) -> bool:
        """`traceloop.*` attributes, or flattened prompts."""
        if "traceloop" in record.shape.prefixes:
            return True
        return not record.shape.heads.isdisjoint(_FLAT)

    def read(self, record: Record) -> Facts:
        """Facts by the kind of span."""
        reader = Reader(record, self.name)
        kind = _classify(reader)
        _identity(reader, kind)
        if kind is SpanClass.TOOL:
            _tool(reader)
        elif kind is SpanClass.MODEL:
            _flat_prompts(reader)
        else:
            _entity(reader)
        return reader.facts


def _classify(reader: Reader) -> SpanClass | None:
    attributes = reader.record.attributes
    operation = attributes.get("gen_ai.operation.name")
    kind = KINDS.get(str(attributes.get("traceloop.span.kind", "")).lower())
    if operation == "execute_task":
        kind = SpanClass.CHAIN
    if kind is None:
        kind = _REQUEST_TYPES.get(str(attributes.get("llm.request.type", "")))
        if kind is None and any(key.startswith(("gen_ai.prompt.", "gen_ai.completion.")) for key in attributes):
            kind = SpanClass.MODEL
        if kind is None and operation in ("chat", "text_completion", "generate_content"):
            kind = SpanClass.MODEL
    reader.classify(kind, "traceloop.span.kind")
    return kind


def _identity(reader: Reader, kind: SpanClass | None) -> None:
    reader.text(Field.AGENT_NAME, "traceloop.association.properties.lc_agent_name")
    reader.text(Field.AGENT_VERSION, "traceloop.entity.version")
    if kind is SpanClass.AGENT:
        reader.text(Field.AGENT_NAME, "gen_ai.agent.name", "traceloop.entity.name")
        reader.put(Field.AGENT_NAME, reader.record.span.name.removesuffix(".agent"), "span name", weak=True)
    elif kind is SpanClass.WORKFLOW:
        reader.text(Field.WORKFLOW_NAME, "traceloop.entity.name", "traceloop.workflow.name")
    elif kind is SpanClass.CHAIN:
        reader.text(Field.WORKFLOW_NAME, "traceloop.entity.name", weak=True)


def _entity(reader: Reader) -> None:
    for field, role, keys in (
        (Field.INPUT, "user", ("traceloop.entity.input", "gen_ai.task.input")),
        (Field.OUTPUT, "assistant", ("traceloop.entity.output", "gen_ai.task.output")),
    ):
        for key in keys:
            content = reader.record.attributes.get(key)
            if content is not None:
                found, reason = opaque_messages(content, role)
                reader.put(field, found, key, capture=reason)


def _tool(reader: Reader) -> None:
    attributes = reader.record.attributes
    reader.text(Field.TOOL_NAME, "gen_ai.tool.name", "traceloop.entity.name")
    for key in ("gen_ai.tool.call.arguments", "traceloop.entity.input"):
        value = attributes.get(key)
        if value is not None:
            reader.arguments(_bare_arguments(value), key)
    for key in ("gen_ai.tool.call.result", "traceloop.entity.output"):
        value = attributes.get(key)
        if value is not None:
            _result(reader, value, key)


def _bare_arguments(value: Any) -> Any:
    """Arguments without LangChain's and the decorators' wrapping; a tool called without any gives {}."""
    decoded = decode(value)
    if not isinstance(decoded, Mapping):
        return value
    inputs = decoded.get("inputs")
    if isinstance(inputs, Mapping) and inputs and {"tags", "metadata", "kwargs", "input_str"} & set(decoded):
        return dict(inputs)
    if "input_str" in decoded:
        inner = decode(decoded["input_str"])
        return inner if inner != "" else {}
    if {"args", "kwargs"} <= set(decoded) and not decoded["args"]:
        return decoded["kwargs"]
    return value


def _result(reader: Reader, value: Any, key: str) -> None:
    reason = withheld(value)
    if reason is not None:
        reader.put(Field.RESULT, None, key, capture=reason)
        return
    decoded = decode(value)
    inner = result_value(decoded)
    if isinstance(decoded, str):
        inner = decoded
    elif inner is decoded:
        inner = value
    reader.result(inner, key)
    message = decoded.get("output") if isinstance(decoded, Mapping) else None
    fields = message.get("kwargs", message) if isinstance(message, Mapping) else {}
    if isinstance(fields, Mapping):
        call_id = fields.get("tool_call_id")
        if isinstance(call_id, str) and call_id.strip():
            reader.put(Field.CALL_ID, call_id, key, weak=True)
        if fields.get("status") == "error":
            reader.put(Field.TOOL_FAILED, True, key)


def _flat_prompts(reader: Reader) -> None:
    for field, role, prefix in (
        (Field.INPUT, "user", "gen_ai.prompt"),
        (Field.OUTPUT, "assistant", "gen_ai.completion"),
    ):
        items = [_item(item, role) for item in flattened(reader.record, prefix)]
        found = messages_of(items, role) if items else ()
        if found:
            reader.put(field, found, prefix, capture=lacking(found))
    reader.finish("gen_ai.completion.0.finish_reason")
    tools = [definition_of(item) for item in flattened(reader.record, "llm.request.functions")]
    definitions = united(one for one in tools if one is not None)
    if definitions:
        reader.put(Field.DEFINITIONS, definitions, "llm.request.functions")


def _item(item: Mapping[str, Any], role: str) -> dict[str, Any]:
    """One flattened message; a quoted empty text is no content, a JSON list of typed blocks is those blocks."""
    content = item.get("content")
    if isinstance(content, str) and content.strip() in ('""', "null"):
        content = ""
    elif isinstance(content, str) and item.get("role") != "tool" and content.lstrip()[:1] in ("[", '"'):
        inner = decode(content, 1)
        is_blocks = (
            isinstance(inner, list) and inner and all(isinstance(block, Mapping) and "type" in block for block in inner)
        )
        content = inner if is_blocks else content
    return {**item, "role": item.get("role") or role, "content": content}
