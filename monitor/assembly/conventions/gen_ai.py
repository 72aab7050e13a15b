"""OpenTelemetry GenAI semantic conventions as attributes, on spans and on `…inference.operation.details` events and logs (1.27 on)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from collectors.span import Attributes
from monitor.assembly.conventions.convention import Convention
from monitor.assembly.conventions.reader import Reader, Texts, lookup, unquoted
from monitor.assembly.definitions import definition_of, definitions_of, schema_of
from monitor.assembly.facts import Facts, Field, SpanClass
from monitor.assembly.messages import messages_of
from monitor.assembly.record import Record, Shape, by_shape
from monitor.assembly.values import decode, number_of, withheld
from monitor.model.invocation import Capture, Message, ToolDefinition

OPERATIONS = {
    "invoke_agent": SpanClass.AGENT,
    "agent_call": SpanClass.AGENT,
    "invoke_swarm": SpanClass.WORKFLOW,
    "invoke_graph": SpanClass.WORKFLOW,
    "invoke_workflow": SpanClass.WORKFLOW,
    "workflow_run": SpanClass.WORKFLOW,
    "chat": SpanClass.MODEL,
    "text_completion": SpanClass.MODEL,
    "generate_content": SpanClass.MODEL,
    "completion": SpanClass.MODEL,
    "chat.completions": SpanClass.MODEL,
    "chat.streaming_completions": SpanClass.MODEL,
    "text.completions": SpanClass.MODEL,
    "text.streaming_completions": SpanClass.MODEL,
    "generate": SpanClass.MODEL,
    "llm_call": SpanClass.MODEL,
    "response": SpanClass.MODEL,
    "responses": SpanClass.MODEL,
    "execute_tool": SpanClass.TOOL,
    "tool_call": SpanClass.TOOL,
    "create_agent": SpanClass.SETUP,
    "handoff": SpanClass.HANDOFF,
    "agent_handoff": SpanClass.HANDOFF,
    "goto": SpanClass.HANDOFF,
    "guardrail": SpanClass.EVALUATION,
    "guardrail_check": SpanClass.EVALUATION,
    "judge": SpanClass.EVALUATION,
    "evaluate": SpanClass.EVALUATION,
    "chain": SpanClass.CHAIN,
}
_NAME_PREFIXES = {
    "invoke_agent": SpanClass.AGENT,
    "invoke_workflow": SpanClass.WORKFLOW,
    "execute_tool": SpanClass.TOOL,
    "create_agent": SpanClass.SETUP,
}
_DEFINITION_KEYS = ("gen_ai.tool.definitions", "gen_ai.request.tools", "gen_ai.agent.tools")
_CACHE_READ = tuple(
    f"gen_ai.usage.{ending}"
    for ending in ("cache_read.input_tokens", "cache_read_input_tokens", "details.cache_read_tokens")
)
_CACHE_WRITTEN = tuple(
    f"gen_ai.usage.{ending}"
    for ending in (
        "cache_write.input_tokens",
        "cache_creation.input_tokens",
        "cache_creation_input_tokens",
        "cache_write_input_tokens",
    )
)
_TEXTS = Texts(
    {
        Field.AGENT_NAME: ("gen_ai.agent.name",),
        Field.AGENT_VERSION: ("gen_ai.agent.version",),
        Field.WORKFLOW_NAME: ("gen_ai.workflow.name",),
        Field.RUN: ("gen_ai.agent.call.id", "gen_ai.thread.run.id"),
        Field.MODEL: ("gen_ai.request.model",),
        Field.RESPONSE_MODEL: ("gen_ai.response.model",),
        Field.RESPONSE_ID: ("gen_ai.response.id",),
        Field.PREVIOUS_RESPONSE: (
            "gen_ai.request.previous_response.id",
            "gen_ai.openai.request.previous_response_id",
        ),
    }
)
_INPUT_KEYS = ("gen_ai.input.messages", "gen_ai.workflow.input")
_REFERENCES = {
    "gen_ai.input.messages_ref": Field.INPUT,
    "gen_ai.output.messages_ref": Field.OUTPUT,
    "gen_ai.system_instructions_ref": Field.SYSTEM,
    "gen_ai.tool.definitions_ref": Field.DEFINITIONS,
}


_REFERENCED = frozenset(_REFERENCES)
_FINISH_KEYS = ("gen_ai.response.finish_reasons", "gen_ai.response.finish_reason", "anthropic.message.stop_reason")
_CONTENT_KEYS = frozenset(
    {*_INPUT_KEYS, *_DEFINITION_KEYS, *_REFERENCES, "gen_ai.output.messages", "gen_ai.system_instructions"}
)


class GenAi(Convention):
    """The attributes of the conventions of 1.27 and later, wherever they are: span, span event or log record."""

    name = "gen_ai"
    words = frozenset({"gen_ai"})

    def recognises(self, record: Record) -> bool:
        """Any `gen_ai.*` attribute or event."""
        return "gen_ai" in record.shape.words

    def read(self, record: Record) -> Facts:
        """Class, identity, usage, content and tool facts."""
        reader = Reader(record, self.name)
        present = _present(record.shape)
        classify(reader)
        reader.texts(_TEXTS)
        if present.finish:
            reader.finish(*_FINISH_KEYS)
        _name_from_span(reader)
        if present.usage:
            _usage(reader)
        if present.content:
            _content(reader, record.attributes, "")
        for attributes, where in _carriers(record) if record.events else ():
            _content(reader, attributes, where)
        if (found := reader.facts.get(Field.CLASS)) is not None and found.value is SpanClass.TOOL:
            _tool(reader)
        return reader.facts


class _Present(NamedTuple):
    """Which kinds of facts a span's keys can tell."""

    finish: bool
    usage: bool
    content: bool
    agent: bool


@by_shape
def _present(shape: Shape) -> _Present:
    return _Present(
        finish=not shape.keys.isdisjoint(_FINISH_KEYS),
        usage="gen_ai.usage." in shape.heads,
        content=not shape.keys.isdisjoint(_CONTENT_KEYS),
        agent=any(key.startswith(("gen_ai.agent.", "gen_ai.tool.name", "gen_ai.workflow.")) for key in shape.keys),
    )


def _carriers(record: Record) -> Iterator[tuple[Attributes, str]]:
    for event in record.events:
        if any(key.startswith("gen_ai.") for key in event.attributes):
            yield event.attributes, f"{event.source} {event.name} "
        if isinstance(event.body, Mapping) and any(str(key).startswith("gen_ai.") for key in event.body):
            yield event.body, f"{event.source} {event.name} body "


def classify(reader: Reader) -> None:
    """Note the span's class by its operation, else by its name or what it holds. Also for frameworks that say so and no more."""
    attributes = reader.record.attributes
    operation = reader.record.text("gen_ai.operation.name")
    if operation is not None:
        reader.put(Field.OPERATION, operation, "gen_ai.operation.name")
        known = OPERATIONS.get(operation.lower())
        if known is not None:
            reader.classify(known, "gen_ai.operation.name")
            return
    head = reader.record.span.name.partition(" ")[0]
    if head in _NAME_PREFIXES:
        reader.classify(_NAME_PREFIXES[head], "span name")
    elif "gen_ai.tool.name" in attributes and operation is None and "gen_ai.request.model" not in attributes:
        reader.classify(SpanClass.TOOL, "gen_ai.tool.name")
    elif operation is None and _is_model_call(reader.record):
        reader.classify(SpanClass.MODEL, "gen_ai.request.model")
    elif operation is not None:
        reader.classify(SpanClass.STEP, "gen_ai.operation.name")


def _is_model_call(record: Record) -> bool:
    """A request model with content or usage, and nothing of an agent or tool."""
    if "gen_ai.request.model" not in record.attributes and "gen_ai.response.model" not in record.attributes:
        return False
    return not _present(record.shape).agent


def _name_from_span(reader: Reader) -> None:
    """`invoke_agent X` names the agent where no attribute does; some SDKs put the model there."""
    head, _, rest = reader.record.span.name.partition(" ")
    if head != "invoke_agent" or not rest.strip() or Field.AGENT_NAME in reader.facts:
        return
    if rest not in (reader.record.text("gen_ai.request.model"), reader.record.text("gen_ai.response.model")):
        reader.put(Field.AGENT_NAME, rest, "span name", weak=True)


def _usage(reader: Reader) -> None:
    attributes = reader.record.attributes
    reader.count(Field.INPUT_TOKENS, "gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens")
    reader.count(Field.OUTPUT_TOKENS, "gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens")
    found = reader.facts.get(Field.INPUT_TOKENS)
    if found is None:
        return
    cached = _first_count(attributes, _CACHE_READ)
    written = _first_count(attributes, _CACHE_WRITTEN)
    if cached + written > found.value:
        # Cached tokens are part of the input by the conventions; more of them than input means that they were left out.
        del reader.facts[Field.INPUT_TOKENS]
        reader.put(Field.INPUT_TOKENS, found.value + cached + written, found.source + " and cache")


def _first_count(attributes: Attributes, keys: tuple[str, ...]) -> int:
    for key in keys:
        if key in attributes and (number := number_of(attributes[key])) is not None:
            return number
    return 0


def _content(reader: Reader, attributes: Attributes, where: str) -> None:
    for key in _INPUT_KEYS:
        if key in attributes:
            reader.messages(Field.INPUT, "user", attributes[key], where + key)
    output = decode(attributes.get("gen_ai.output.messages"))
    if output is not None:
        chunks = _chunks(output)
        if chunks:
            reader.put(Field.OUTPUT, chunks, where + "gen_ai.output.messages")
        else:
            reader.messages(Field.OUTPUT, "assistant", output, where + "gen_ai.output.messages")
    if "gen_ai.system_instructions" in attributes:
        reader.instructions(attributes["gen_ai.system_instructions"], where + "gen_ai.system_instructions")
    for key in _DEFINITION_KEYS:
        if key in attributes:
            _definitions(reader, attributes[key], where + key)
    for key, field in _REFERENCES.items() if not _REFERENCED.isdisjoint(attributes) else ():
        if attributes.get(key):
            empty: Any = None if field is Field.SYSTEM else ()
            reader.put(field, empty, where + key, capture=Capture.REFERENCED)


def _definitions(reader: Reader, value: Any, source: str) -> None:
    if value is None:
        return
    reason = withheld(value)
    if reason is not None:
        reader.put(Field.DEFINITIONS, (), source, capture=reason)
        return
    found = definitions_of(value)
    if found:
        reader.put(Field.DEFINITIONS, found, source, weak=all(one.parameters is None for one in found))


def _chunks(items: Any) -> tuple[Message, ...]:
    """One message out of a stream recorded piece by piece: every finish reason but the last is an empty text."""
    if not isinstance(items, list) or len(items) < 2 or not all(isinstance(item, Mapping) for item in items):
        return ()
    if any(item.get("finish_reason") != "" for item in items[:-1]) or not items[-1].get("finish_reason"):
        return ()
    pieces = [dict(part) for message in messages_of(items[:-1], "assistant") for part in message.parts]
    last = [dict(part) for message in messages_of(items[-1:], "assistant") for part in message.parts]
    joined = _join_pieces(pieces)
    whole = "".join(part.get("content", "") for part in joined if part.get("type") == "text")
    final = "".join(part.get("content", "") for part in last if part.get("type") == "text")
    if whole and final.startswith(whole) and len(last) >= len(joined):
        joined = []  # the last piece repeats the whole
    return (Message("assistant", tuple(_join_pieces(joined + last))),) if joined or last else ()


def _join_pieces(pieces: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Neighbouring texts become one, a tool call told several times counts once, with the last arguments."""
    joined: list[dict[str, Any]] = []
    for part in pieces:
        before = joined[-1] if joined else {}
        same = part.get("type") == before.get("type")
        if same and part["type"] in ("text", "reasoning") and "content" in part and "content" in before:
            before["content"] += part["content"]
        elif same and part["type"] == "tool_call" and part.get("id") and part["id"] == before.get("id"):
            before.update(part)
        else:
            joined.append(part)
    return joined


def _tool(reader: Reader) -> None:
    attributes = reader.record.attributes
    reader.text(Field.TOOL_NAME, "gen_ai.tool.name")
    head, _, rest = reader.record.span.name.partition(" ")
    if head == "execute_tool" and rest.strip():
        reader.put(Field.TOOL_NAME, rest, "span name", weak=True)
    reader.text(Field.CALL_ID, "gen_ai.tool.call.id")
    found = lookup(attributes, "gen_ai.tool.call.arguments", "gen_ai.tool.input", "gen_ai.tool.args")
    if found is not None:
        reader.arguments(*found)
    found = lookup(attributes, "gen_ai.tool.call.result", "gen_ai.tool.output")
    if found is not None:
        reader.result(unquoted(found[0]), found[1])
    if reader.record.text("gen_ai.tool.status") in ("error", "failed", "failure"):
        reader.put(Field.TOOL_FAILED, True, "gen_ai.tool.status")
    _tool_schema(reader)


def _tool_schema(reader: Reader) -> None:
    attributes = reader.record.attributes
    name = reader.record.text("gen_ai.tool.name")
    schema = schema_of({"parameters": attributes.get("gen_ai.tool.json_schema")})
    description = reader.record.text("gen_ai.tool.description")
    if name and (schema or description) and definition_of(name):
        reader.put(Field.TOOL_SCHEMA, ToolDefinition(name, description, schema), "gen_ai.tool.json_schema")
