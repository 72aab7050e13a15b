"""Mastra: `mastra.span.type` says what a span is; runs carry their input and output as JSON."""

from __future__ import annotations

from monitor.assembly.conventions.convention import Convention
from monitor.assembly.conventions.reader import Reader
from monitor.assembly.facts import Facts, Field, SpanClass
from monitor.assembly.record import Record

TYPES = {
    "agent_run": SpanClass.AGENT,
    "workflow_run": SpanClass.WORKFLOW,
    "model_generation": SpanClass.MODEL,
    "llm_generation": SpanClass.MODEL,
    "tool_call": SpanClass.TOOL,
    "mcp_tool_call": SpanClass.TOOL,
    "model_step": SpanClass.DUPLICATE,
    "model_chunk": SpanClass.DUPLICATE,
    "processor_run": SpanClass.STEP,
}


class Mastra(Convention):
    """Spans of Mastra's exporter."""

    name = "mastra"
    words = frozenset({"mastra"})

    def recognises(self, record: Record) -> bool:
        """`mastra.*` attributes."""
        return "mastra" in record.shape.prefixes

    def read(self, record: Record) -> Facts:
        """Facts by the type of span; types are spelled in either case."""
        reader = Reader(record, self.name)
        kind = (record.text("mastra.span.type") or "").lower()
        span_class = TYPES.get(kind, SpanClass.STEP if kind else None)
        reader.classify(span_class, "mastra.span.type")
        reader.text(Field.AGENT_NAME, "gen_ai.agent.name", "mastra.agent.name", "mastra.agent.id")
        if span_class is SpanClass.TOOL:
            prefix = f"mastra.{kind}."
            reader.tool(
                ("gen_ai.tool.name",),
                ("gen_ai.tool.call.id",),
                ("gen_ai.tool.call.arguments", prefix + "input"),
                ("gen_ai.tool.call.result", prefix + "output"),
            )
        elif kind:
            reader.opaque(Field.INPUT, "user", f"mastra.{kind}.input")
            reader.opaque(Field.OUTPUT, "assistant", f"mastra.{kind}.output")
        return reader.facts
