"""OpenInference: `openinference.span.kind`, flattened `llm.*` messages, `input.value` and `output.value`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from collectors.span import Attributes
from monitor.assembly.conventions.convention import Convention
from monitor.assembly.conventions.flattening import flattened, layout, nested
from monitor.assembly.conventions.reader import Reader
from monitor.assembly.definitions import definition_of, definitions_of, schema_of, united
from monitor.assembly.facts import Facts, Field, SpanClass
from monitor.assembly.messages import lacking, messages_of, text_in
from monitor.assembly.opaque import opaque_messages
from monitor.assembly.record import Record
from monitor.assembly.regular import plain_message
from monitor.assembly.results import result_value
from monitor.assembly.told import Places
from monitor.assembly.values import decode, withheld
from monitor.model.invocation import Capture, Message, ToolDefinition

KINDS = {
    "LLM": SpanClass.MODEL,
    "AGENT": SpanClass.AGENT,
    "CHAIN": SpanClass.CHAIN,
    "TOOL": SpanClass.TOOL,
    "EVALUATOR": SpanClass.EVALUATION,
    "GUARDRAIL": SpanClass.EVALUATION,
    "RETRIEVER": SpanClass.STEP,
    "RERANKER": SpanClass.STEP,
    "EMBEDDING": SpanClass.STEP,
    "PROMPT": SpanClass.STEP,
    "DECISION": SpanClass.STEP,
    "UNKNOWN": SpanClass.STEP,
}


_PLAIN = {("message", "role"), ("message", "content")}
"""What a message of nothing but text has."""


class OpenInference(Convention):
    """Spans with `openinference.span.kind`, or the flattened messages where the kind was evicted."""

    name = "openinference"
    words = frozenset({"openinference", "llm"})

    def recognises(self, record: Record) -> bool:
        """A span kind, or `llm.` attributes of the dialect."""
        if "openinference" in record.shape.prefixes:
            return True
        return "llm" in record.shape.prefixes and any(
            key.startswith(("llm.input_messages.", "llm.output_messages.", "llm.token_count."))
            for key in record.attributes
        )

    def read(self, record: Record) -> Facts:
        """Facts by the kind of span."""
        reader = Reader(record, self.name)
        kind = _classify(reader)
        _identity(reader)
        if kind is SpanClass.MODEL:
            _model_call(reader)
        elif kind is SpanClass.TOOL or kind is SpanClass.HANDOFF:
            _tool(reader)
        else:
            _opaque(reader, Field.INPUT, "user", "input.value")
            _opaque(reader, Field.OUTPUT, "assistant", "output.value")
        return reader.facts


def _classify(reader: Reader) -> SpanClass:
    attributes = reader.record.attributes
    kind = str(
        attributes.get("openinference.span.kind") or ("LLM" if "llm" in reader.record.shape.prefixes else "UNKNOWN")
    ).upper()
    known = KINDS.get(kind, SpanClass.STEP)
    if known is SpanClass.TOOL and reader.record.span.name.startswith("handoff to "):
        known = SpanClass.HANDOFF
    reader.classify(known, "openinference.span.kind")
    return known


def _identity(reader: Reader) -> None:
    attributes = reader.record.attributes
    kind = reader.facts[Field.CLASS].value
    reader.text(Field.AGENT_NAME, "agent.name")
    metadata = decode(attributes.get("metadata"))
    if isinstance(metadata, Mapping):
        name = metadata.get("lc_agent_name")
        if isinstance(name, str) and name.strip():
            reader.put(Field.AGENT_NAME, name, "metadata lc_agent_name")
    if kind is SpanClass.AGENT:
        reader.text(Field.AGENT_NAME, "graph.node.name", "graph.node.id")
        reader.put(Field.AGENT_NAME, reader.record.span.name, "span name", weak=True)
    elif kind is SpanClass.CHAIN:
        reader.put(Field.WORKFLOW_NAME, reader.record.span.name, "span name", weak=True)


def _model_call(reader: Reader) -> None:
    attributes = reader.record.attributes
    _parameters(reader)
    reader.text(Field.MODEL, "llm.request.model_name")
    reader.text(Field.RESPONSE_MODEL, "llm.response.model_name", "llm.model_name")
    reader.finish("llm.finish_reason")
    reader.count(Field.INPUT_TOKENS, "llm.token_count.prompt")
    reader.count(Field.OUTPUT_TOKENS, "llm.token_count.completion")
    _flat_or_raw(reader, Field.INPUT, "user", "llm.input_messages", "input.value")
    _flat_or_raw(reader, Field.OUTPUT, "assistant", "llm.output_messages", "output.value")
    if not reader.record.shape.heads.isdisjoint(("llm.prompts.", "llm.choices.")):
        _completions(reader)
    raw = decode(attributes.get("output.value"))
    identifier = raw.get("id", raw.get("response_id")) if isinstance(raw, Mapping) else None
    if isinstance(identifier, str) and identifier.strip():
        reader.put(Field.RESPONSE_ID, identifier, "output.value")
    tools = flattened(reader.record, "llm.tools")
    found = [definition_of(decode(_inner(item, "tool").get("json_schema", _inner(item, "tool")))) for item in tools]
    definitions = united(one for one in found if one is not None)
    if definitions:
        reader.put(Field.DEFINITIONS, definitions, "llm.tools")


def _completions(reader: Reader) -> None:
    """What completion models, which know no messages, were given and said."""
    for field, role, prefix, key in (
        (Field.INPUT, "user", "llm.prompts", "prompt"),
        (Field.OUTPUT, "assistant", "llm.choices", "completion"),
    ):
        texts = [_inner(item, key).get("text") for item in flattened(reader.record, prefix)]
        found = [text for text in texts if isinstance(text, str)]
        if found:
            reader.messages(field, role, found[:1] if role == "assistant" else found, prefix)


def _inner(item: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    inner = item.get(key)
    return inner if isinstance(inner, Mapping) else item


def _parameters(reader: Reader) -> None:
    parameters = decode(reader.record.attributes.get("llm.invocation_parameters"))
    if not isinstance(parameters, Mapping):
        return
    tools = parameters.get("tools") or parameters.get("functions")
    if isinstance(tools, list):
        found = definitions_of(tools)
        if found:
            reader.put(Field.DEFINITIONS, found, "llm.invocation_parameters", weak=True)
    model = parameters.get("model") or parameters.get("model_name")
    if isinstance(model, str) and model.strip():
        reader.put(Field.MODEL, model, "llm.invocation_parameters")
    reader.instructions(parameters.get("instructions"), "llm.invocation_parameters")
    identifier = parameters.get("id")
    if isinstance(identifier, str) and identifier.strip():
        reader.put(Field.RESPONSE_ID, identifier, "llm.invocation_parameters")
    previous = parameters.get("previous_response_id")
    if isinstance(previous, str) and previous.strip():
        reader.put(Field.PREVIOUS_RESPONSE, previous, "llm.invocation_parameters")


def _flat_or_raw(reader: Reader, field: Field, role: str, prefix: str, raw_key: str) -> None:
    """Flattened messages; the raw value where it holds more of them or what they lack."""
    attributes = reader.record.attributes
    flat = flat_messages(reader.record, prefix)
    raw, reason = _raw(attributes, raw_key, role)
    if flat and not _poorer(flat, raw) and not (field is Field.OUTPUT and _stale(flat, raw)):
        reader.put(field, flat, prefix, capture=lacking(flat))
    if raw or reason is not None:
        reader.put(field, raw, raw_key, capture=reason)
    if flat:
        reader.put(field, flat, prefix, capture=lacking(flat))


def _stale(flat: tuple[Message, ...], raw: tuple[Message, ...]) -> bool:
    """Whether the flattened output still has an earlier call's tool calls beside this call's text (attributes overwritten)."""
    return text_in(raw) is not None and _tool_parts(raw) == 0 and text_in(flat) is not None and _tool_parts(flat) > 0


def _raw(attributes: Attributes, key: str, role: str) -> tuple[tuple[Message, ...], Capture | None]:
    value = attributes.get(key)
    if value is None:
        return (), None
    reason = withheld(value)
    if reason is not None:
        return (), reason
    decoded = decode(value)
    if isinstance(decoded, list | Mapping):
        found = messages_of(decoded, role)
        return found, lacking(found) if found else None
    return opaque_messages(value, role)


def _poorer(flat: tuple[Message, ...], raw: tuple[Message, ...]) -> bool:
    """Whether the flattened list lost something: a message without any content that the raw list has, or calls and answers."""
    if not raw or lacking(raw) is not None:
        return False
    hollow = sum(1 for message in flat if lacking((message,)) is not None)
    raw_hollow = sum(1 for message in raw if lacking((message,)) is not None)
    return hollow > raw_hollow or (len(raw) > len(flat)) or _tool_parts(raw) > _tool_parts(flat)


def _tool_parts(messages: tuple[Message, ...]) -> int:
    kinds = ("tool_call", "tool_call_response")
    return sum(part.get("type") in kinds for message in messages for part in message.parts)


def flat_messages(record: Record, prefix: str) -> tuple[Message, ...]:
    """The messages behind `prefix.N.message.*`. A history that grows from call to call is read once."""
    found: list[Message] = []
    for places in layout(record.shape, prefix):
        found += record.told.following(found[-1] if found else None, places, record.attributes, _flat_message)
    return tuple(found)


def _flat_message(attributes: Attributes, places: Places) -> tuple[Message, ...]:
    if len(places) == 2 and {path for path, _ in places} == _PLAIN:
        role, content = sorted([(path, attributes[key]) for path, key in places], reverse=True)
        made = plain_message(role[1], content[1])
        if made is not None:
            return (made,)
    whole = nested(attributes, places)
    return messages_of([_item(_inner(whole, "message"), whole)], "user") if isinstance(whole, Mapping) else ()


def flat_calls(record: Record, prefix: str) -> list[dict[str, Any]]:
    """The tool calls behind `prefix.N.tool_call.*`."""
    return [_call(entry) for entry in flattened(record, prefix)]


def _item(message: Mapping[str, Any], whole: Mapping[str, Any]) -> dict[str, Any]:
    """One flattened message in OpenAI's shape."""
    answers = whole.get("function")
    if isinstance(answers, list):
        # AutoGen: `llm.input_messages.N.function.M` is the JSON of one tool answer.
        return {"role": "tool", "parts": [_answer(decode(answer)) for answer in answers]}
    calls = [_call(entry) for entry in message.get("tool_calls") or () if isinstance(entry, Mapping)]
    contents = [_content(entry) for entry in message.get("contents") or () if isinstance(entry, Mapping)]
    content: Any = message.get("content")
    texts = [entry for entry in contents if entry.get("type") != "tool_call"]
    if content in (None, "") and texts:
        content = texts
    if message.get("function_call_name") and not calls:
        calls = [_named_call(message.get("function_call_name"), message.get("function_call_arguments_json"))]
    if not calls:
        calls = [entry for entry in contents if entry.get("type") == "tool_call"]
    item = {"role": message.get("role") or "user", "content": content, "tool_calls": calls}
    for key in ("tool_call_id", "name"):
        if key in message:
            item[key] = message[key]
    return item


def _answer(value: Any) -> dict[str, Any]:
    fields = value if isinstance(value, Mapping) else {"content": value}
    return {
        "type": "tool_result",
        "id": fields.get("call_id"),
        "content": fields.get("content"),
        "is_error": fields.get("is_error"),
    }


def _call(entry: Mapping[str, Any]) -> dict[str, Any]:
    call = _inner(entry, "tool_call")
    function = call.get("function")
    function = function if isinstance(function, Mapping) else {}
    return _named_call(function.get("name"), function.get("arguments"), call.get("id"))


def _named_call(name: Any, arguments: Any, call_id: Any = None) -> dict[str, Any]:
    return {"type": "tool_call", "id": call_id, "name": name, "arguments": arguments}


def _content(entry: Mapping[str, Any]) -> dict[str, Any]:
    if isinstance(entry.get("tool_call"), Mapping):
        return _call(entry)
    content = _inner(entry, "message_content")
    kind = str(content.get("type") or "text")
    if kind in ("text", "reasoning"):
        return {"type": kind, "text": content.get("text")}
    return {"type": kind, **{key: value for key, value in content.items() if isinstance(value, str | int)}}


def _tool(reader: Reader) -> None:
    attributes = reader.record.attributes
    reader.text(Field.TOOL_NAME, "tool.name")
    reader.put(Field.TOOL_NAME, reader.record.span.name, "span name", weak=True)
    reader.text(Field.CALL_ID, "tool.id", "tool_call.id")
    _tool_input(reader)
    output = attributes.get("output.value")
    if output is not None:
        _tool_output(reader, output)
    schema = schema_of({"parameters": attributes.get("tool.parameters")})
    name = reader.record.text("tool.name")
    if name and isinstance(schema, Mapping) and _is_schema(schema):
        reader.put(
            Field.TOOL_SCHEMA, ToolDefinition(name, reader.record.text("tool.description"), schema), "tool.parameters"
        )


def _tool_input(reader: Reader) -> None:
    """Arguments are the input; `tool.parameters` holds a schema in some producers, the arguments in others."""
    attributes = reader.record.attributes
    value = attributes.get("input.value")
    if value is not None:
        reader.arguments(_bound(value), "input.value")
    parameters = decode(attributes.get("tool.parameters"))
    if isinstance(parameters, Mapping) and parameters and not _is_schema(parameters):
        reader.arguments(attributes.get("tool.parameters"), "tool.parameters")


def _bound(value: Any) -> Any:
    """Smolagents' `{"args": [], "kwargs": {…}}` as its keyword arguments; other values as they are."""
    decoded = decode(value)
    if isinstance(decoded, Mapping) and {"args", "kwargs"} <= set(decoded) and not decoded["args"]:
        return decoded["kwargs"]
    return value


def _is_schema(parameters: Mapping[str, Any]) -> bool:
    return isinstance(parameters.get("properties"), Mapping) or parameters.get("type") == "object"


def _tool_output(reader: Reader, output: Any) -> None:
    reason = withheld(output)
    if reason is not None:
        reader.put(Field.RESULT, None, "output.value", capture=reason)
        return
    decoded = decode(output)
    inner = result_value(decoded)
    if inner is not decoded:
        reader.result(inner, "output.value")
    elif isinstance(decoded, str):
        reader.result(decoded, "output.value")
    else:
        reader.result(output, "output.value")
    for holder in _holders(decoded):
        call_id = holder.get("tool_call_id")
        if isinstance(call_id, str) and call_id.strip():
            reader.put(Field.CALL_ID, call_id, "output.value", weak=True)
        if holder.get("status") == "error":
            reader.put(Field.TOOL_FAILED, True, "output.value")


def _holders(value: Any) -> list[Mapping[str, Any]]:
    """The objects in which a serialised tool message keeps its call id."""
    found: list[Mapping[str, Any]] = []
    for _ in range(4):
        if not isinstance(value, Mapping):
            break
        found.append(value)
        value = next((value[key] for key in ("output", "data", "kwargs") if isinstance(value.get(key), Mapping)), None)
    return found


def _opaque(reader: Reader, field: Field, role: str, key: str) -> None:
    value = reader.record.attributes.get(key)
    if value is None:
        return
    found, reason = opaque_messages(value, role)
    if found or reason is not None:
        reader.put(field, found, key, capture=reason)
