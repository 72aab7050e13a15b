"""Haystack: `haystack.*` tags on pipelines, agents and their steps."""

from __future__ import annotations

from monitor.assembly.conventions.convention import Convention
from monitor.assembly.conventions.reader import Reader
from monitor.assembly.facts import Facts, Field, SpanClass
from monitor.assembly.record import Record

SPANS = {
    "haystack.pipeline.run": SpanClass.WORKFLOW,
    "haystack.async_pipeline.run": SpanClass.WORKFLOW,
    "haystack.agent.run": SpanClass.AGENT,
    "haystack.agent.step": SpanClass.STEP,
    "haystack.agent.step.llm": SpanClass.MODEL,
    "haystack.agent.step.tool": SpanClass.TOOL,
    "haystack.component.run": SpanClass.STEP,
}


class Haystack(Convention):
    """Spans of Haystack's tracer."""

    name = "haystack"
    words = frozenset({"haystack"})

    def recognises(self, record: Record) -> bool:
        """`haystack.*` tags."""
        return "haystack" in record.shape.prefixes

    def read(self, record: Record) -> Facts:
        """Facts by the span's name; a component whose type ends with Generator is a model call."""
        reader = Reader(record, self.name)
        component = record.text("haystack.component.type") or ""
        if component.endswith(("Generator", "ChatGenerator")):
            reader.classify(SpanClass.MODEL, "haystack.component.type")
        elif component == "ToolInvoker":
            reader.classify(SpanClass.STEP, "haystack.component.type")
        reader.classify(SPANS.get(record.span.name), "span name")
        kind = reader.facts[Field.CLASS].value if Field.CLASS in reader.facts else None
        if kind is SpanClass.TOOL:
            reader.tool(
                ("haystack.tool.name",),
                ("haystack.tool.call.id",),
                ("haystack.agent.step.tool.input", "haystack.tool.input"),
                ("haystack.agent.step.tool.output", "haystack.tool.output"),
            )
            if record.attributes.get("haystack.tool.error"):
                reader.put(Field.TOOL_FAILED, True, "haystack.tool.error")
            return reader.facts
        reader.text(Field.AGENT_NAME, "haystack.agent.name")
        reader.opaque(
            Field.INPUT, "user", "haystack.agent.input", "haystack.agent.step.llm.input", "haystack.component.input"
        )
        reader.opaque(
            Field.OUTPUT,
            "assistant",
            "haystack.agent.output",
            "haystack.agent.step.llm.output",
            "haystack.component.output",
        )
        if kind is SpanClass.WORKFLOW:
            reader.opaque(Field.INPUT, "user", "haystack.pipeline.input_data")
            reader.opaque(Field.OUTPUT, "assistant", "haystack.pipeline.output_data")
        reader.definitions("haystack.agent.tools")
        return reader.facts
