"""GenAI conventions up to 1.27: prompt and completion as one JSON text, in attributes or events of any provider's shape."""

from __future__ import annotations

from monitor.assembly.conventions.convention import Convention
from monitor.assembly.conventions.reader import Reader
from monitor.assembly.facts import Facts, Field
from monitor.assembly.opaque import opaque_messages
from monitor.assembly.record import Record

_ATTRIBUTES = ((Field.INPUT, "user", "gen_ai.prompt"), (Field.OUTPUT, "assistant", "gen_ai.completion"))
_EVENTS = {
    "gen_ai.content.prompt": (Field.INPUT, "user", "gen_ai.prompt"),
    "gen_ai.content.completion": (Field.OUTPUT, "assistant", "gen_ai.completion"),
}


class GenAiPrompt(Convention):
    """`gen_ai.prompt` and `gen_ai.completion`, as Semantic Kernel, Spring AI, LiteLLM and others wrote them."""

    name = "gen_ai"
    names = frozenset({"gen_ai.prompt", "gen_ai.completion", *_EVENTS})

    def recognises(self, record: Record) -> bool:
        """One of the two attributes or events."""
        if "gen_ai.prompt" in record.attributes or "gen_ai.completion" in record.attributes:
            return True
        return any(event.name in _EVENTS for event in record.events)

    def read(self, record: Record) -> Facts:
        """Input and output."""
        reader = Reader(record, self.name)
        for field, role, key in _ATTRIBUTES:
            content = record.attributes.get(key)
            if content is not None:
                found, reason = opaque_messages(content, role)
                reader.put(field, found, key, capture=reason)
        for event in record.events:
            if event.name in _EVENTS:
                field, role, key = _EVENTS[event.name]
                content = event.attributes.get(key, event.body)
                if content is not None:
                    found, reason = opaque_messages(content, role)
                    reader.put(field, found, f"{event.source} {event.name}", capture=reason)
        return reader.facts
