"""MLflow's trace export: every attribute value is JSON text, inputs and outputs are whole calls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from monitor.assembly.conventions.convention import Convention
from monitor.assembly.conventions.reader import Reader
from monitor.assembly.facts import Facts, Field, SpanClass
from monitor.assembly.record import Record
from monitor.assembly.results import result_value
from monitor.assembly.values import decode, number_of

TYPES = {
    "AGENT": SpanClass.AGENT,
    "WORKFLOW": SpanClass.WORKFLOW,
    "CHAIN": SpanClass.CHAIN,
    "LLM": SpanClass.MODEL,
    "CHAT_MODEL": SpanClass.MODEL,
    "TOOL": SpanClass.TOOL,
    "EVALUATOR": SpanClass.EVALUATION,
    "GUARDRAIL": SpanClass.EVALUATION,
}


class MLflow(Convention):
    """Spans with `mlflow.*` attributes."""

    name = "mlflow"
    words = frozenset({"mlflow"})

    def recognises(self, record: Record) -> bool:
        """The type, or inputs and outputs."""
        return "mlflow" in record.shape.prefixes and any(
            key in record.attributes for key in ("mlflow.spanType", "mlflow.spanInputs", "mlflow.spanOutputs")
        )

    def read(self, record: Record) -> Facts:
        """Facts by the type of span."""
        reader = Reader(record, self.name)
        kind = str(decode(record.attributes.get("mlflow.spanType")) or "").upper()
        span_class = TYPES.get(kind, SpanClass.CHAIN if record.span.parent_span_id == "" else SpanClass.STEP)
        reader.classify(span_class, "mlflow.spanType")
        if span_class is SpanClass.TOOL:
            _tool(reader)
        else:
            reader.opaque(Field.INPUT, "user", "mlflow.spanInputs")
            reader.opaque(Field.OUTPUT, "assistant", "mlflow.spanOutputs")
        if span_class is SpanClass.AGENT:
            reader.put(Field.AGENT_NAME, record.span.name, "span name", weak=True)
        reader.definitions("mlflow.chat.tools")
        _model(reader)
        return reader.facts


def _model(reader: Reader) -> None:
    attributes = reader.record.attributes
    for key in ("mlflow.llm.model", "mlflow.model"):
        model = decode(attributes.get(key))
        if isinstance(model, str) and model.strip():
            reader.put(Field.MODEL, model, key)
    inputs = decode(attributes.get("mlflow.spanInputs"))
    if isinstance(inputs, Mapping) and isinstance(inputs.get("model"), str):
        reader.put(Field.MODEL, inputs["model"], "mlflow.spanInputs")
    usage = decode(attributes.get("mlflow.chat.tokenUsage"))
    if isinstance(usage, Mapping):
        for field, key in ((Field.INPUT_TOKENS, "input_tokens"), (Field.OUTPUT_TOKENS, "output_tokens")):
            number = number_of(usage.get(key))
            if number is not None:
                reader.put(field, number, "mlflow.chat.tokenUsage")


def _tool(reader: Reader) -> None:
    attributes = reader.record.attributes
    reader.put(Field.TOOL_NAME, reader.record.span.name, "span name", weak=True)
    if "mlflow.spanInputs" in attributes:
        reader.arguments(_plain_inputs(decode(attributes["mlflow.spanInputs"])), "mlflow.spanInputs")
    if "mlflow.spanOutputs" in attributes:
        reader.result(result_value(decode(attributes["mlflow.spanOutputs"])), "mlflow.spanOutputs")


def _plain_inputs(inputs: Any) -> Any:
    if isinstance(inputs, Mapping) and set(inputs) == {"input_str"}:
        return decode(inputs["input_str"])
    return inputs
