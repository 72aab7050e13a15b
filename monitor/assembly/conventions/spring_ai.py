"""Spring AI: `spring.ai.kind` decides, since every span of the framework has the operation `framework`."""

from __future__ import annotations

from monitor.assembly.conventions.convention import Convention
from monitor.assembly.conventions.reader import Reader
from monitor.assembly.facts import Facts, Field, SpanClass
from monitor.assembly.opaque import opaque_messages
from monitor.assembly.record import Record

KINDS = {
    "chat_client": SpanClass.AGENT,
    "advisor": SpanClass.STEP,
    "tool_call": SpanClass.TOOL,
    "vector_store": SpanClass.STEP,
}
_LOGS = (
    ("Chat Model Prompt Content:", Field.INPUT, "user"),
    ("Chat Model Completion:", Field.OUTPUT, "assistant"),
)


class SpringAi(Convention):
    """Spans of Spring AI's observations."""

    name = "spring_ai"
    words = frozenset({"spring", "gen_ai"})

    def recognises(self, record: Record) -> bool:
        """Keys of the framework, or its log records."""
        if "spring" in record.shape.prefixes or record.attributes.get("gen_ai.system") == "spring_ai":
            return True
        return any(isinstance(event.body, str) and event.body.startswith("Chat Model ") for event in record.events)

    def read(self, record: Record) -> Facts:
        """Facts by the kind of span; prompts and completions in log records are plain text after a label."""
        reader = Reader(record, self.name)
        reader.classify(KINDS.get((record.text("spring.ai.kind") or "").lower()), "spring.ai.kind")
        reader.tool(
            ("spring.ai.tool.definition.name",),
            ("spring.ai.tool.call.id",),
            ("spring.ai.tool.call.arguments",),
            ("spring.ai.tool.call.result",),
        )
        names = record.text("spring.ai.model.request.tool.names", "spring.ai.chat.client.tool.names")
        if names is not None:
            reader.names([part.strip(" []\"'") for part in names.split(",")], "spring.ai.model.request.tool.names")
        for event in record.events:
            for label, field, role in _LOGS:
                if isinstance(event.body, str) and event.body.startswith(label):
                    found, reason = opaque_messages(event.body.removeprefix(label).strip(), role)
                    reader.put(field, found, f"{event.source} {label}", capture=reason)
        return reader.facts
