"""Claude Code and the Claude Agent SDK's CLI: bare keys on `claude_code.*` spans, content in events and log records."""

from __future__ import annotations

from monitor.assembly.conventions.convention import Convention
from monitor.assembly.conventions.reader import Reader
from monitor.assembly.facts import Facts, Field, SpanClass
from monitor.assembly.record import Record
from monitor.assembly.values import number_of

SPANS = {
    "claude_code.interaction": SpanClass.AGENT,
    "claude_code.llm_request": SpanClass.MODEL,
    "claude_code.tool": SpanClass.TOOL,
    "claude_code.tool.execution": SpanClass.STEP,
    "claude_code.tool.blocked_on_user": SpanClass.STEP,
    "claude_code.hook": SpanClass.STEP,
    "claude_code.user_prompt": SpanClass.AGENT,
    "claude_code.api_request": SpanClass.MODEL,
    "claude_code.api_error": SpanClass.MODEL,
    "claude_code.tool_result": SpanClass.TOOL,
}
_PROMPTS = ("claude_code.user_prompt", "user_prompt")
_BODIES = ("claude_code.api_response_body", "api_response_body")
_MAIN_SOURCES = ("", "sdk", "repl_main_thread", "agent")


class ClaudeCode(Convention):
    """Spans named or typed `claude_code.*`."""

    name = "claude_code"

    def recognises(self, record: Record) -> bool:
        """The span's name or its `span.type`, with attributes."""
        return _kind(record) in SPANS and bool(record.attributes)

    def read(self, record: Record) -> Facts:
        """Facts by the kind of span. Requests for titles and the like are no steps of the turn."""
        reader = Reader(record, self.name)
        span_class = SPANS[_kind(record)]
        source = (record.text("query_source") or "").lower()
        if span_class is SpanClass.MODEL and not source.startswith(_MAIN_SOURCES[1:]) and source:
            span_class = SpanClass.EVALUATION
        reader.classify(span_class, "span name")
        if span_class is SpanClass.AGENT:
            reader.put(Field.AGENT_NAME, "claude-code", "span name", weak=True)
            for key in ("user_prompt", "prompt"):
                reader.messages(Field.INPUT, "user", record.attributes.get(key), key)
            for event in record.events:
                if event.name in _PROMPTS:
                    reader.messages(
                        Field.INPUT, "user", event.attributes.get("prompt"), f"{event.source} {event.name} prompt"
                    )
            reader.messages(
                Field.OUTPUT, "assistant", record.attributes.get("response.model_output"), "response.model_output"
            )
        elif span_class is SpanClass.MODEL:
            _request(reader)
        elif span_class is SpanClass.TOOL:
            _tool(reader)
        return reader.facts


def _kind(record: Record) -> str:
    kind = record.text("span.type") or ""
    return f"claude_code.{kind}" if f"claude_code.{kind}" in SPANS else record.span.name


def _request(reader: Reader) -> None:
    attributes = reader.record.attributes
    reader.text(Field.MODEL, "model")
    reader.messages(Field.INPUT, "user", attributes.get("new_context"), "new_context")
    reader.messages(Field.OUTPUT, "assistant", attributes.get("response.model_output"), "response.model_output")
    given = number_of(attributes.get("input_tokens"))
    if given is not None:
        cached = [number_of(attributes.get(key)) or 0 for key in ("cache_read_tokens", "cache_creation_tokens")]
        reader.put(Field.INPUT_TOKENS, given + sum(cached), "input_tokens and cache")
    reader.count(Field.OUTPUT_TOKENS, "output_tokens")
    reader.text(Field.RESPONSE_ID, "request_id")
    for event in reader.record.events:
        body = event.attributes.get("body", event.body) if event.name in _BODIES else None
        if body is not None:
            reader.messages(Field.OUTPUT, "assistant", body, f"{event.source} {event.name} body")


def _tool(reader: Reader) -> None:
    record = reader.record
    reader.tool(("tool_name", "name"), ("tool_use_id",), ("tool_input", "tool_parameters"), ("tool_output", "output"))
    for event in record.events:
        if event.name == "tool.output" and event.attributes.get("output") is not None:
            reader.result(event.attributes["output"], "event tool.output")
    if record.attributes.get("success") in (False, "false"):
        reader.put(Field.TOOL_FAILED, True, "success")
    for key in ("decision", "decision_type"):
        if record.text(key) in ("reject", "rejected", "deny"):
            reader.put(Field.TOOL_DENIED, True, key)
