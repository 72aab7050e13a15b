"""Genkit: `genkit:*` attributes; flows hold model and tool actions."""

from __future__ import annotations

from collections.abc import Mapping

from monitor.assembly.conventions.convention import Convention
from monitor.assembly.conventions.reader import Reader
from monitor.assembly.definitions import definitions_of
from monitor.assembly.facts import Facts, Field, SpanClass
from monitor.assembly.record import Record
from monitor.assembly.values import decode, number_of

SUBTYPES = {
    "model": SpanClass.MODEL,
    "tool": SpanClass.TOOL,
    "flow": SpanClass.WORKFLOW,
    "agent": SpanClass.AGENT,
    "evaluator": SpanClass.EVALUATION,
}


class Genkit(Convention):
    """Spans of Genkit's tracer."""

    name = "genkit"
    words = frozenset({"genkit"})

    def recognises(self, record: Record) -> bool:
        """`genkit:` attributes."""
        return "genkit" in record.shape.prefixes

    def read(self, record: Record) -> Facts:
        """Facts by the subtype; a root without one is a flow."""
        reader = Reader(record, self.name)
        subtype = (record.text("genkit:metadata:subtype") or "").lower()
        is_root = record.attributes.get("genkit:isRoot") in (True, "true")
        kind = SUBTYPES.get(subtype, SpanClass.WORKFLOW if is_root else SpanClass.STEP)
        reader.classify(kind, "genkit:metadata:subtype")
        if kind is SpanClass.TOOL:
            reader.tool(("genkit:name",), (), ("genkit:input",), ("genkit:output",))
            return reader.facts
        if kind is SpanClass.MODEL:
            reader.text(Field.MODEL, "genkit:name")
            _model(reader)
        else:
            reader.text(Field.WORKFLOW_NAME, "genkit:name")
        reader.opaque(Field.INPUT, "user", "genkit:input")
        reader.opaque(Field.OUTPUT, "assistant", "genkit:output")
        if record.text("genkit:state") == "error":
            reader.put(Field.ERROR, record.span.status_message or "error", "genkit:state")
        return reader.facts


def _model(reader: Reader) -> None:
    """What a model action was offered, in its input, and what it used, in its output."""
    request, response = (decode(reader.record.attributes.get(f"genkit:{side}")) for side in ("input", "output"))
    tools = definitions_of(request.get("tools") or ()) if isinstance(request, Mapping) else ()
    if tools:
        reader.put(Field.DEFINITIONS, tools, "genkit:input tools")
    usage = response.get("usage") if isinstance(response, Mapping) else None
    for field, key in ((Field.INPUT_TOKENS, "inputTokens"), (Field.OUTPUT_TOKENS, "outputTokens")):
        number = number_of(usage.get(key)) if isinstance(usage, Mapping) else None
        if number is not None:
            reader.put(field, number, "genkit:output usage")
