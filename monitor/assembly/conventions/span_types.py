"""Frameworks that say what a span is in a key of their own: Laminar, VoltAgent, Flue. Input and output are of any shape."""

from __future__ import annotations

from monitor.assembly.conventions.convention import Convention
from monitor.assembly.conventions.reader import Reader
from monitor.assembly.facts import Facts, Field, SpanClass
from monitor.assembly.record import Record

TYPE_KEYS = ("lmnr.span.type", "entity.type", "span.type")
TYPES = {
    "agent": SpanClass.AGENT,
    "workflow": SpanClass.WORKFLOW,
    "llm": SpanClass.MODEL,
    "model": SpanClass.MODEL,
    "tool": SpanClass.TOOL,
    "default": SpanClass.CHAIN,
    "evaluator": SpanClass.EVALUATION,
    "human_evaluator": SpanClass.EVALUATION,
    "executor": SpanClass.STEP,
}
_FLUE = {
    "turn": SpanClass.AGENT,
    "task": SpanClass.CHAIN,
    "tool": SpanClass.TOOL,
    "workflow": SpanClass.WORKFLOW,
}
_INPUTS = ("lmnr.span.input", "agent.messages", "llm.messages", "input")
_OUTPUTS = ("lmnr.span.output", "agent.output", "llm.output", "output")


class SpanTypes(Convention):
    """Spans typed by `lmnr.span.type`, `entity.type`, `span.type` or `flue.*`."""

    name = "span_type"
    words = frozenset({"lmnr", "entity", "span", "flue"})

    def recognises(self, record: Record) -> bool:
        """A known type under one of the keys."""
        return _kind(record) is not None

    def read(self, record: Record) -> Facts:
        """Facts by the type of span."""
        reader = Reader(record, self.name)
        kind = _kind(record)
        reader.classify(kind, "span type")
        flue = next((word for word in _FLUE if f"flue.{word}.input" in record.attributes), None)
        inputs = (*_INPUTS, f"flue.{flue}.input") if flue else _INPUTS
        outputs = (*_OUTPUTS, f"flue.{flue}.output") if flue else _OUTPUTS
        if kind is SpanClass.TOOL:
            reader.tool(
                ("tool.name", "entity.name", "flue.tool.name"), ("tool.call.id", "flue.tool.call_id"), inputs, outputs
            )
            reader.put(Field.TOOL_NAME, record.span.name, "span name", weak=True)
            return reader.facts
        reader.opaque(Field.INPUT, "user", *inputs)
        reader.opaque(Field.OUTPUT, "assistant", *outputs)
        if kind is SpanClass.AGENT:
            reader.text(Field.AGENT_NAME, "entity.name", "agent.name")
            reader.put(Field.AGENT_NAME, record.span.name, "span name", weak=True)
        return reader.facts


def _kind(record: Record) -> SpanClass | None:
    for key in TYPE_KEYS:
        kind = TYPES.get((record.text(key) or "").lower())
        if kind is not None:
            return kind
    if "flue" in record.shape.prefixes:
        word = next((word for word in _FLUE if any(key.startswith(f"flue.{word}.") for key in record.attributes)), None)
        return _FLUE.get(word or "")
    return None
