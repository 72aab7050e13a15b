"""Gemini CLI: GenAI spans where tracing is on, and `gemini_cli.*` log records, which stand for steps where no span does."""

from __future__ import annotations

from monitor.assembly.conventions.convention import Convention
from monitor.assembly.conventions.reader import Reader
from monitor.assembly.facts import Facts, Field, SpanClass
from monitor.assembly.record import Record

SPANS = {
    "gemini_cli.user_prompt": SpanClass.AGENT,
    "gemini_cli.api_response": SpanClass.MODEL,
    "gemini_cli.api_error": SpanClass.MODEL,
    "gemini_cli.tool_call": SpanClass.TOOL,
}
_PROMPT = "gemini_cli.user_prompt"
_REFUSED = ("reject", "rejected", "cancel", "deny")


class GeminiCli(Convention):
    """`gemini_cli.*` records."""

    name = "gemini_cli"

    def recognises(self, record: Record) -> bool:
        """The name of a record, as a step of its own or among a span's log records."""
        return (record.span.name in SPANS and bool(record.attributes)) or _PROMPT in record.shape.names

    def read(self, record: Record) -> Facts:
        """A turn, what the user asked, a model call's answer and tokens, a tool's call."""
        reader = Reader(record, self.name)
        kind = SPANS.get(record.span.name)
        reader.classify(kind, "span name")
        if kind is SpanClass.TOOL:
            _tool(reader)
        elif kind is SpanClass.MODEL:
            reader.text(Field.MODEL, "model")
            reader.count(Field.INPUT_TOKENS, "input_token_count")
            reader.count(Field.OUTPUT_TOKENS, "output_token_count")
            reader.messages(Field.OUTPUT, "assistant", record.attributes.get("response_text"), "response_text")
        elif kind is SpanClass.AGENT:
            reader.put(Field.AGENT_NAME, "gemini-cli", "span name", weak=True)
            reader.messages(Field.INPUT, "user", record.attributes.get("prompt"), "prompt")
        reader.prompts(_PROMPT)
        return reader.facts


def _tool(reader: Reader) -> None:
    attributes = reader.record.attributes
    reader.tool(("function_name",), ("call_id",), ("function_args",), ("content", "output"))
    if str(attributes.get("success")).lower() == "false":
        reader.put(Field.TOOL_FAILED, True, "success")
    if reader.record.text("decision") in _REFUSED:
        reader.put(Field.TOOL_DENIED, True, "decision")
