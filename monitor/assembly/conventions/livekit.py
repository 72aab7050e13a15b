"""LiveKit Agents: `lk.*`; the turn is the unit, the session that may last for hours is not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from monitor.assembly.conventions.convention import Convention
from monitor.assembly.conventions.reader import Reader
from monitor.assembly.facts import Facts, Field, SpanClass
from monitor.assembly.messages import lacking, messages_of
from monitor.assembly.record import Record
from monitor.assembly.values import decode, number_of

SPANS = {
    "agent_session": SpanClass.SESSION,
    "job_entrypoint": SpanClass.SESSION,
    "agent_turn": SpanClass.AGENT,
    "user_turn": SpanClass.STEP,
    "llm_node": SpanClass.STEP,
    "llm_request": SpanClass.MODEL,
    "llm_request_run": SpanClass.DUPLICATE,
    "function_tool": SpanClass.TOOL,
    "tts_node": SpanClass.STEP,
    "tts_request": SpanClass.STEP,
}


class LiveKit(Convention):
    """Spans of LiveKit's telemetry, with keys under `lk.` or, for content, `lk.pii.`."""

    name = "livekit"
    words = frozenset({"lk"})

    def recognises(self, record: Record) -> bool:
        """`lk.*` attributes."""
        return "lk" in record.shape.prefixes

    def read(self, record: Record) -> Facts:
        """Facts by the span's name."""
        reader = Reader(record, self.name)
        reader.classify(SPANS.get(record.span.name), "span name")
        reader.text(Field.AGENT_NAME, "lk.agent_label", "lk.agent_name")
        reader.instructions(_content(record, "instructions"), "lk.instructions")
        reader.messages(Field.INPUT, "user", _content(record, "user_input"), "lk.user_input")
        _input(reader)
        _response(reader)
        if record.span.name == "function_tool":
            _tool(reader)
        names = [key for key in ("lk.function_tools",) if key in record.attributes]
        reader.definitions(*names)
        if record.attributes.get("lk.interrupted") is True:
            reader.put(Field.INTERRUPTED, True, "lk.interrupted")
        return reader.facts


def _input(reader: Reader) -> None:
    """The chat's items, or the messages of a model call, entry by entry: a span may go on from another one's."""
    record = reader.record
    for source, given in (
        ("lk.chat_ctx", _content(record, "chat_ctx")),
        ("gen_ai.input.messages", record.attributes.get("gen_ai.input.messages")),
    ):
        decoded = decode(given)
        items = decoded.get("items") if isinstance(decoded, Mapping) else decoded
        if given is None:
            continue
        if isinstance(items, list) and items:
            entries = tuple(messages_of([item], "user") for item in items)
            told = tuple(message for entry in entries for message in entry)
            reader.put(Field.ENTRIES, entries, source)
            reader.put(Field.INPUT, told, source, capture=lacking(told))
        else:
            reader.messages(Field.INPUT, "user", given, source)
    base = record.text("lk.input.base_span_id")
    if base is not None:
        dropped = number_of(record.attributes.get("lk.input.dropped_from_base")) or 0
        reader.put(Field.BASE, (base.lower(), dropped), "lk.input.base_span_id")


def _content(record: Record, key: str) -> Any:
    for prefix in ("lk.pii.", "lk."):
        value = record.attributes.get(prefix + key)
        if value is not None:
            return value
    return None


def _response(reader: Reader) -> None:
    text = _content(reader.record, "response.text")
    calls = _content(reader.record, "response.function_calls")
    if calls is not None:
        reader.messages(Field.OUTPUT, "assistant", calls, "lk.response.function_calls")
    if text is not None and text != "":
        reader.messages(Field.OUTPUT, "assistant", text, "lk.response.text")


def _tool(reader: Reader) -> None:
    record = reader.record
    reader.text(Field.TOOL_NAME, "lk.function_tool.name")
    reader.text(Field.CALL_ID, "lk.function_tool.id")
    reader.arguments(_content(record, "function_tool.arguments"), "lk.function_tool.arguments")
    output = _content(record, "function_tool.output")
    if output is not None:
        reader.result(output, "lk.function_tool.output")
    failed = record.attributes.get("lk.function_tool.is_error")
    if failed is True or number_of(failed) == 1:
        reader.put(Field.TOOL_FAILED, True, "lk.function_tool.is_error")
