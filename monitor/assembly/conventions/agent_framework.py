"""Microsoft Agent Framework: GenAI spans of agents, and workflows of executors that pass messages to each other."""

from __future__ import annotations

from monitor.assembly.conventions.convention import Convention
from monitor.assembly.conventions.gen_ai import classify
from monitor.assembly.conventions.reader import Reader
from monitor.assembly.facts import Facts, Field, SpanClass
from monitor.assembly.record import Record

PROVIDER = "microsoft.agent_framework"
_WORKFLOW_SPANS = {
    "workflow.run": SpanClass.WORKFLOW,
    "workflow.session": SpanClass.SESSION,
    "workflow.build": SpanClass.SETUP,
    "executor.process": SpanClass.STEP,
    "message.send": SpanClass.STEP,
    "edge_group.process": SpanClass.STEP,
}
_WORDS = frozenset({"workflow", "executor", "edge_group", "message"})


class AgentFramework(Convention):
    """Spans that name the framework as provider, and those of its workflows."""

    name = "agent_framework"
    words = frozenset({*_WORDS, "gen_ai"})

    def recognises(self, record: Record) -> bool:
        """A workflow's keys, or the provider."""
        attributes = record.attributes
        if PROVIDER in (attributes.get("gen_ai.provider.name"), attributes.get("gen_ai.system")):
            return True
        return not record.shape.prefixes.isdisjoint(_WORDS)

    def read(self, record: Record) -> Facts:
        """A workflow span's class by its name, an agent's by its operation."""
        reader = Reader(record, self.name)
        head = record.span.name.partition(" ")[0]
        if head in _WORKFLOW_SPANS and not record.shape.prefixes.isdisjoint(_WORDS):
            reader.classify(_WORKFLOW_SPANS[head], "span name")
        elif "gen_ai" in record.shape.prefixes:
            classify(reader)
        reader.text(Field.WORKFLOW_NAME, "workflow.name", "workflow.id", weak=True)
        return reader.facts
