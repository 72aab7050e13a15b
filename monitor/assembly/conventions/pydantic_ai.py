"""Pydantic AI: whole history in `pydantic_ai.all_messages`, answers in `final_result`, data formats 1 to 6."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from monitor.assembly.conventions.convention import Convention
from monitor.assembly.conventions.gen_ai_events import read_message_events
from monitor.assembly.conventions.reader import Reader, unquoted
from monitor.assembly.definitions import definitions_of, united
from monitor.assembly.facts import Facts, Field, SpanClass
from monitor.assembly.messages import lacking, message_text, messages_of
from monitor.assembly.record import Record
from monitor.assembly.values import decode, number_of, withheld
from monitor.model.invocation import Message, ToolDefinition

_AGENT_KEYS = ("pydantic_ai.all_messages", "all_messages_events", "final_result")
_DEFERRED = "pydantic_ai.tool."
_KEYS = frozenset({*_AGENT_KEYS, "model_request_parameters", "tool_arguments", "tool_response", "events", "agent_name"})


class PydanticAi(Convention):
    """Spans of pydantic-ai's own instrumentation."""

    name = "pydantic_ai"
    words = frozenset({"gen_ai", "logfire", "pydantic_ai", "model_name"})

    def recognises(self, record: Record) -> bool:
        """One of its bare keys, beside `gen_ai.*` or its log keys."""
        return _DEFERRED in record.shape.heads or not record.shape.keys.isdisjoint(_KEYS)

    def read(self, record: Record) -> Facts:
        """Facts of a run, a model call or a tool."""
        reader = Reader(record, self.name)
        attributes = record.attributes
        if _DEFERRED in record.shape.heads and any(key.startswith(_DEFERRED + "deferral.") for key in attributes):
            reader.put(Field.TOOL_PENDING, True, "pydantic_ai.tool.deferral")
        if "model_name" in attributes or any(key in attributes for key in _AGENT_KEYS):
            _run(reader)
        elif "tool_arguments" in attributes or "tool_response" in attributes or record.span.name == "running tool":
            _tool(reader)
        else:
            _model_call(reader)
        return reader.facts


def _run(reader: Reader) -> None:
    attributes = reader.record.attributes
    reader.classify(SpanClass.AGENT, "model_name")
    reader.text(Field.AGENT_NAME, "agent_name")
    reader.text(Field.MODEL, "model_name")
    reader.count(Field.INPUT_TOKENS, "gen_ai.aggregated_usage.input_tokens")
    reader.count(Field.OUTPUT_TOKENS, "gen_ai.aggregated_usage.output_tokens")
    _answer(reader, attributes.get("final_result"))
    whole = messages_of(attributes.get("pydantic_ai.all_messages"), "user")
    if whole:
        _split(reader, whole, number_of(attributes.get("pydantic_ai.new_message_index")) or 0)


def _answer(reader: Reader, result: Any) -> None:
    if result is None:
        return
    reason = withheld(result)
    value = result if isinstance(result, str) else None
    reader.put(Field.ANSWER, None if reason else value, "final_result", capture=reason)


def _split(reader: Reader, whole: tuple[Message, ...], start: int) -> None:
    """What was given ends with the first run of user messages from `new_message_index` on; the rest is the run's own."""
    first = next((i for i in range(start, len(whole)) if whole[i].role == "user"), None)
    if first is None:
        return
    end = first
    while end < len(whole) and whole[end].role == "user" and (message_text(whole[end]) or lacking((whole[end],))):
        end += 1
    source = "pydantic_ai.all_messages"
    reader.put(Field.INPUT, whole[:end], source, capture=lacking(whole[first:end]))
    reader.put(Field.OUTPUT, whole[end:], source, capture=lacking(whole[end:]))


def _tool(reader: Reader) -> None:
    attributes = reader.record.attributes
    reader.classify(SpanClass.TOOL, "gen_ai.tool.name")
    if "tool_arguments" in attributes:
        reader.arguments(attributes["tool_arguments"], "tool_arguments")
    if "tool_response" in attributes:
        reader.result(unquoted(attributes["tool_response"]), "tool_response")


def _model_call(reader: Reader) -> None:
    attributes = reader.record.attributes
    events = decode(attributes.get("events"))
    if isinstance(events, list):
        pairs = [(str(event.get("event.name", "")), _body(event)) for event in events if isinstance(event, Mapping)]
        read_message_events(reader, pairs, "events")
    parameters = decode(attributes.get("model_request_parameters"))
    if not isinstance(parameters, Mapping):
        return
    tools = definitions_of(parameters.get("function_tools") or ())
    outputs = definitions_of(parameters.get("output_tools") or ())
    if tools:
        reader.put(Field.DEFINITIONS, _named(tools), "model_request_parameters")
    if outputs:
        reader.put(Field.OUTPUT_TOOLS, tuple(one.name for one in outputs), "model_request_parameters")


def _named(tools: tuple[ToolDefinition, ...]) -> tuple[ToolDefinition, ...]:
    return united(tools)


def _body(event: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in event.items() if not str(key).startswith(("event.", "gen_ai."))}
