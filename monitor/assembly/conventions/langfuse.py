"""Langfuse SDK (3 and later): observations with a type, input and output of any shape."""

from __future__ import annotations

from collections.abc import Mapping

from monitor.assembly.conventions.convention import Convention
from monitor.assembly.conventions.reader import Reader
from monitor.assembly.facts import Facts, Field, SpanClass
from monitor.assembly.record import Record
from monitor.assembly.values import decode, number_of

_PREFIX = "langfuse.observation."
TYPES = {
    "agent": SpanClass.AGENT,
    "generation": SpanClass.MODEL,
    "tool": SpanClass.TOOL,
    "chain": SpanClass.CHAIN,
    "span": SpanClass.CHAIN,
    "evaluator": SpanClass.EVALUATION,
    "guardrail": SpanClass.EVALUATION,
    "retriever": SpanClass.STEP,
    "embedding": SpanClass.STEP,
    "event": SpanClass.STEP,
}


class Langfuse(Convention):
    """Spans with `langfuse.*` attributes."""

    name = "langfuse"
    words = frozenset({"langfuse"})

    def recognises(self, record: Record) -> bool:
        """An observation's attributes."""
        return "langfuse" in record.shape.prefixes and any(key.startswith(_PREFIX) for key in record.attributes)

    def read(self, record: Record) -> Facts:
        """Facts by the type of observation."""
        reader = Reader(record, self.name)
        kind = TYPES.get((record.text(_PREFIX + "type") or "span").lower(), SpanClass.STEP)
        reader.classify(kind, _PREFIX + "type")
        reader.text(Field.AGENT_VERSION, "langfuse.version", "langfuse.release")
        if kind is SpanClass.TOOL:
            reader.tool(("gen_ai.tool.name",), ("gen_ai.tool.call.id",), (_PREFIX + "input",), (_PREFIX + "output",))
            reader.put(Field.TOOL_NAME, record.span.name, "span name", weak=True)
        else:
            reader.opaque(Field.INPUT, "user", _PREFIX + "input")
            reader.opaque(Field.OUTPUT, "assistant", _PREFIX + "output")
        if (
            any(record.attributes.get(f"langfuse.internal.{key}") for key in ("as_root", "is_app_root"))
            or not record.span.parent_span_id
        ):
            reader.opaque(Field.INPUT, "user", "langfuse.trace.input")
            reader.opaque(Field.OUTPUT, "assistant", "langfuse.trace.output")
        if kind is SpanClass.AGENT:
            reader.put(Field.AGENT_NAME, record.span.name, "span name", weak=True)
        reader.text(Field.MODEL, _PREFIX + "model.name")
        _usage(reader)
        if record.text(_PREFIX + "level") == "ERROR":
            reader.put(Field.ERROR, record.text(_PREFIX + "status_message") or "error", _PREFIX + "level")
        return reader.facts


def _usage(reader: Reader) -> None:
    usage = decode(reader.record.attributes.get(_PREFIX + "usage_details"))
    if not isinstance(usage, Mapping):
        return
    for field, keys in (
        (Field.INPUT_TOKENS, ("input", "input_tokens", "prompt_tokens")),
        (Field.OUTPUT_TOKENS, ("output", "output_tokens", "completion_tokens")),
    ):
        for key in keys:
            number = number_of(usage.get(key))
            if number is not None:
                reader.put(field, number, _PREFIX + "usage_details")
                break
