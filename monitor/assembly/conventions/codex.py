"""Codex (the command-line agent): turns as spans, content in `codex.*` log records, which stand for steps where no span does."""

from __future__ import annotations

from monitor.assembly.conventions.convention import Convention
from monitor.assembly.conventions.reader import Reader
from monitor.assembly.facts import Facts, Field, SpanClass
from monitor.assembly.record import Record

SPANS = {
    "session_task.turn": SpanClass.AGENT,
    "codex.turn": SpanClass.AGENT,
    "codex.user_prompt": SpanClass.AGENT,
    "codex.sse_event": SpanClass.MODEL,
    "codex.tool_result": SpanClass.TOOL,
}
_PROMPT = "codex.user_prompt"


class Codex(Convention):
    """A turn's span or keys, and `codex.*` records."""

    name = "codex"

    def recognises(self, record: Record) -> bool:
        """A name of one of its spans with attributes, token counts of a turn, or a prompt among the log records."""
        if record.span.name in SPANS and record.attributes:
            return True
        return "codex.turn." in record.shape.heads or _PROMPT in record.shape.names

    def read(self, record: Record) -> Facts:
        """A turn, what the user asked, a model call's tokens, a tool's call."""
        reader = Reader(record, self.name)
        kind = SPANS.get(record.span.name, SpanClass.AGENT if "codex.turn." in record.shape.heads else None)
        reader.classify(kind, "span name")
        if kind is SpanClass.TOOL:
            _tool(reader)
            return reader.facts
        reader.text(Field.MODEL, "model")
        reader.count(Field.INPUT_TOKENS, "codex.turn.token_usage.input_tokens", "input_token_count")
        reader.count(Field.OUTPUT_TOKENS, "codex.turn.token_usage.output_tokens", "output_token_count")
        if kind is SpanClass.AGENT:
            reader.put(Field.AGENT_NAME, "codex", "span name", weak=True)
            reader.messages(Field.INPUT, "user", record.attributes.get("prompt"), "prompt")
        reader.prompts(_PROMPT)
        return reader.facts


def _tool(reader: Reader) -> None:
    reader.tool(("tool_name",), ("call_id",), ("arguments",), ("output",))
    if str(reader.record.attributes.get("success")).lower() == "false":
        reader.put(Field.TOOL_FAILED, True, "success")
