"""OpenLIT: GenAI attributes, with graph nodes passed off as agents and reprs instead of JSON."""

from __future__ import annotations

from typing import Any

from monitor.assembly.conventions.convention import Convention
from monitor.assembly.conventions.reader import Reader
from monitor.assembly.facts import Facts, Field, Found, SpanClass
from monitor.assembly.messages import messages_of, read_messages
from monitor.assembly.opaque import opaque_messages
from monitor.assembly.record import Record
from monitor.assembly.values import from_json

NODES = frozenset({"model", "agent", "tools", "model_request", "call_model", "llm", "__start__", "__end__", "generate"})
"""Node names of LangGraph's prebuilt agents: their spans are steps of the agent, not agents."""


class OpenLit(Convention):
    """Spans of OpenLIT's LangChain and LangGraph instrumentations."""

    name = "openlit"
    names = frozenset({"gen_ai.workflow.output", "gen_ai.graph.status", "gen_ai.sdk.version"})

    def recognises(self, record: Record) -> bool:
        """A graph's span, a workflow's own keys, or a model call that names the tool it asks for."""
        attributes = record.attributes
        if "gen_ai.workflow.output" in attributes or "gen_ai.graph.status" in attributes:
            return True
        if "gen_ai.sdk.version" not in attributes:
            return False
        return attributes.get("gen_ai.provider.name") == "langgraph" or "gen_ai.tool.name" in attributes

    def read(self, record: Record) -> Facts:
        """A node's class; a workflow's input and output; the calls that a model asked for where its output is not recorded."""
        reader = Reader(record, self.name)
        attributes = record.attributes
        operation = attributes.get("gen_ai.operation.name")
        name = record.text("gen_ai.agent.name")
        if operation == "invoke_agent" and name in NODES and name == attributes.get("gen_ai.agent.id"):
            reader.classify(SpanClass.STEP, "gen_ai.agent.id")
        elif operation == "chat":
            _requested(reader)
        else:
            _workflow(reader)
        return reader.facts


def _workflow(reader: Reader) -> None:
    attributes = reader.record.attributes
    for field, role, key in (
        (Field.INPUT, "user", "gen_ai.workflow.input"),
        (Field.OUTPUT, "assistant", "gen_ai.workflow.output"),
    ):
        content = attributes.get(key)
        if content is not None:
            found, reason = opaque_messages(content, role)
            reader.put(field, found, key, capture=reason)
    streamed = attributes.get("gen_ai.output.messages")
    if streamed is not None and attributes.get("gen_ai.execution.mode") == "stream":
        # All messages of the stream run together, the tools' included: any other source is better.
        found, reason = read_messages(streamed, "assistant")
        reader.facts[Field.OUTPUT] = Found(
            found, "gen_ai.output.messages", reader.convention, reason, weak=True, pinned=True
        )


def _requested(reader: Reader) -> None:
    """Calls on the span of the model call that asked for them; several are joined by `, ` in each attribute."""
    attributes = reader.record.attributes
    names = _listed(attributes.get("gen_ai.tool.name"))
    ids = _listed(attributes.get("gen_ai.tool.call.id"))
    key = "gen_ai.tool.call.arguments" if "gen_ai.tool.call.arguments" in attributes else "gen_ai.tool.args"
    given = attributes.get(key)
    several = from_json(f"[{given}]") if isinstance(given, str) else None
    arguments: list[Any] = several[0] if several is not None else [given]
    if not names or len(ids) not in (0, len(names)) or len(arguments) != len(names):
        return
    calls = [
        {"type": "tool_call", "id": ids[i] if ids else None, "name": n, "arguments": arguments[i]}
        for i, n in enumerate(names)
    ]
    found = messages_of([{"role": "assistant", "content": None, "tool_calls": calls}], "assistant")
    reader.put(Field.OUTPUT, found, "gen_ai.tool.name", weak=True)


def _listed(value: Any) -> list[str]:
    return [part for part in value.split(", ") if part] if isinstance(value, str) else []
