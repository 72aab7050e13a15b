"""Vercel AI SDK: `ai.*` of versions 3 to 6; version 7 speaks GenAI with a few keys of its own."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from monitor.assembly.conventions.convention import Convention
from monitor.assembly.conventions.reader import Reader, unquoted
from monitor.assembly.definitions import definitions_of
from monitor.assembly.facts import Facts, Field, SpanClass
from monitor.assembly.messages import lacking, messages_of
from monitor.assembly.record import Record
from monitor.assembly.values import decode, looks_cut, withheld
from monitor.model.invocation import Capture

_OUTER = ("generateText", "streamText", "generateObject", "streamObject", "agent")
_INNER = (".doGenerate", ".doStream")
_EMBEDDINGS = ("ai.embed", "ai.rerank")


class Vercel(Convention):
    """Spans of `experimental_telemetry`."""

    name = "vercel_ai_sdk"
    words = frozenset({"ai"})

    def recognises(self, record: Record) -> bool:
        """An `ai.operationId`, or the prompts and responses that go with it."""
        if "ai" not in record.shape.prefixes:
            return False
        return any(
            key.startswith(("ai.operationId", "ai.prompt", "ai.response.", "ai.toolCall.")) for key in record.attributes
        )

    def read(self, record: Record) -> Facts:
        """Facts of a run, a model call or a tool."""
        reader = Reader(record, self.name)
        operation = record.text("ai.operationId") or record.span.name
        reader.put(Field.OPERATION, operation, "ai.operationId")
        reader.text(Field.AGENT_NAME, "ai.telemetry.functionId", "resource.name")
        if operation == "ai.toolCall":
            reader.classify(SpanClass.TOOL, "ai.operationId")
            _tool(reader)
            return reader.facts
        inner = operation.endswith(_INNER)
        is_run = operation.removeprefix("ai.").startswith(_OUTER)
        reader.classify(_class(operation, inner=inner, is_run=is_run), "ai.operationId")
        _model(reader)
        _prompt(reader)
        _response(reader)
        return reader.facts


def _class(operation: str, *, inner: bool, is_run: bool) -> SpanClass:
    if operation.startswith(_EMBEDDINGS):
        return SpanClass.STEP
    if inner:
        return SpanClass.MODEL
    return SpanClass.AGENT if is_run else SpanClass.STEP


def _model(reader: Reader) -> None:
    reader.text(Field.MODEL, "ai.model.id")
    reader.text(Field.RESPONSE_MODEL, "ai.response.model")
    reader.text(Field.RESPONSE_ID, "ai.response.id")
    reader.count(Field.INPUT_TOKENS, "ai.usage.inputTokens", "ai.usage.promptTokens")
    reader.count(Field.OUTPUT_TOKENS, "ai.usage.outputTokens", "ai.usage.completionTokens")
    tools = definitions_of(reader.record.attributes.get("ai.prompt.tools"))
    if tools:
        reader.put(Field.DEFINITIONS, tools, "ai.prompt.tools")


def _prompt(reader: Reader) -> None:
    attributes = reader.record.attributes
    reader.messages(Field.INPUT, "user", attributes.get("ai.prompt.messages"), "ai.prompt.messages")
    whole = attributes.get("ai.prompt")
    if whole is None:
        return
    prompt = decode(whole)
    reason = withheld(whole) or (Capture.TRUNCATED if looks_cut(prompt) else None)
    if reason is not None:
        reader.put(Field.INPUT, (), "ai.prompt", capture=reason)
        return
    fields: Mapping[str, Any] = prompt if isinstance(prompt, Mapping) else {"prompt": whole}
    reader.instructions(_instructions(fields.get("system", fields.get("instructions"))), "ai.prompt")
    given = messages_of(fields.get("messages") or fields.get("prompt"), "user")
    if given:
        reader.put(Field.INPUT, given, "ai.prompt", capture=lacking(given))


def _instructions(system: Any) -> Any:
    """System instructions, which newer versions also write as one message or a list of them."""
    if isinstance(system, Mapping):
        return system.get("content")
    if isinstance(system, list):
        return [item.get("content") if isinstance(item, Mapping) and "content" in item else item for item in system]
    return system


def _response(reader: Reader) -> None:
    attributes = reader.record.attributes
    parts: list[Any] = []
    reasoning = attributes.get("ai.response.reasoning")
    if isinstance(reasoning, str) and reasoning.strip():
        parts.append({"type": "reasoning", "text": reasoning})
    text = attributes.get("ai.response.text", attributes.get("ai.result.text"))
    structured = attributes.get("ai.response.object", attributes.get("ai.result.object"))
    if isinstance(text, str) and text:
        parts.append({"type": "text", "text": text})
    elif structured is not None:
        shown = structured if isinstance(structured, str) else json.dumps(structured, ensure_ascii=False, default=str)
        parts.append({"type": "text", "text": shown})
    calls = decode(attributes.get("ai.response.toolCalls", attributes.get("ai.result.toolCalls")))
    parts += (
        [{"type": "tool-call", **call} for call in calls if isinstance(call, Mapping)]
        if isinstance(calls, list)
        else []
    )
    if parts:
        given = messages_of([{"role": "assistant", "content": parts}], "assistant")
        reader.put(Field.OUTPUT, given, "ai.response", capture=lacking(given))


def _tool(reader: Reader) -> None:
    attributes = reader.record.attributes
    reader.text(Field.TOOL_NAME, "ai.toolCall.name")
    reader.text(Field.CALL_ID, "ai.toolCall.id")
    for key in ("ai.toolCall.args", "ai.toolCall.input"):
        if attributes.get(key) is not None:
            reader.arguments(attributes[key], key)
    for key in ("ai.toolCall.result", "ai.toolCall.output"):
        if attributes.get(key) is not None:
            reader.result(unquoted(attributes[key]), key)
