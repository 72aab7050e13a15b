"""Command-line coding agents beside Claude Code: Codex, Gemini CLI, Copilot CLI. Content is mostly in log records."""

from __future__ import annotations

from monitor.assembly.conventions.convention import Convention
from monitor.assembly.conventions.reader import Reader
from monitor.assembly.facts import Facts, Field, SpanClass
from monitor.assembly.record import Record

_TURNS = frozenset({"session_task.turn", "codex.turn", "agent_turn"})
_LOG_INPUTS = {"codex.user_prompt": "prompt", "gemini_cli.user_prompt": "prompt", "user_prompt": "prompt"}


class CodingAgents(Convention):
    """Turn spans of the three, and the prompts in their log records."""

    name = "coding_agent"

    def recognises(self, record: Record) -> bool:
        """A turn's span or keys, or a prompt among the log records."""
        if record.span.name in _TURNS and record.attributes:
            return True
        if "codex.turn." in record.shape.heads:
            return True
        return bool(record.logs) and any(event.name in _LOG_INPUTS and event.source == "log" for event in record.events)

    def read(self, record: Record) -> Facts:
        """A turn and what the user asked."""
        reader = Reader(record, self.name)
        if record.span.name in _TURNS or any(key.startswith("codex.turn.") for key in record.attributes):
            reader.classify(SpanClass.AGENT, "span name")
            reader.put(Field.AGENT_NAME, "codex", "span name", weak=True)
        reader.text(Field.MODEL, "model")
        reader.count(Field.INPUT_TOKENS, "codex.turn.token_usage.input_tokens")
        reader.count(Field.OUTPUT_TOKENS, "codex.turn.token_usage.output_tokens")
        for event in record.events:
            key = _LOG_INPUTS.get(event.name)
            if key is not None:
                reader.messages(Field.INPUT, "user", event.attributes.get(key), f"{event.source} {event.name}")
        return reader.facts
