"""Dify and LoongSuite: `gen_ai.span.kind` with node variables as input and output."""

from __future__ import annotations

from monitor.assembly.conventions.convention import Convention
from monitor.assembly.conventions.reader import Reader
from monitor.assembly.facts import Facts, Field, SpanClass
from monitor.assembly.record import Record

KINDS = {
    "LLM": SpanClass.MODEL,
    "TOOL": SpanClass.TOOL,
    "AGENT": SpanClass.AGENT,
    "CHAIN": SpanClass.CHAIN,
    "TASK": SpanClass.CHAIN,
    "RETRIEVER": SpanClass.STEP,
    "EMBEDDING": SpanClass.STEP,
    "RERANKER": SpanClass.STEP,
}


class Dify(Convention):
    """Spans with `gen_ai.span.kind` or `dify.*`."""

    name = "dify"
    words = frozenset({"dify", "gen_ai"})

    def recognises(self, record: Record) -> bool:
        """The kind, or Dify's own keys."""
        return "dify" in record.shape.prefixes or "gen_ai.span.kind" in record.attributes

    def read(self, record: Record) -> Facts:
        """Facts by the kind of span; node variables are unwrapped by their usual names."""
        reader = Reader(record, self.name)
        kind = KINDS.get((record.text("gen_ai.span.kind") or "").upper())
        reader.classify(kind, "gen_ai.span.kind")
        if kind is SpanClass.TOOL:
            reader.tool(
                ("gen_ai.tool.name", "tool.name"), ("gen_ai.tool.call.id",), ("input.value",), ("output.value",)
            )
            reader.put(Field.TOOL_NAME, record.span.name, "span name", weak=True)
        else:
            reader.opaque(Field.INPUT, "user", "input.value")
            reader.opaque(Field.OUTPUT, "assistant", "output.value")
        return reader.facts
