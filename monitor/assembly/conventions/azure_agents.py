"""Azure AI Agents and Foundry: a thread's run seen through several client calls, content in `gen_ai.event.content` events."""

from __future__ import annotations

from monitor.assembly.conventions.convention import Convention
from monitor.assembly.conventions.gen_ai_events import ROLES, fields_of, read_message_events
from monitor.assembly.conventions.reader import Reader
from monitor.assembly.facts import Facts, Field, Found, SpanClass
from monitor.assembly.record import Record

OPERATIONS = {
    "process_thread_run": SpanClass.AGENT,
    "start_thread_run": SpanClass.AGENT,
    "create_thread_and_run": SpanClass.AGENT,
    "create_agent": SpanClass.SETUP,
}
_CALLS = frozenset(
    {"create_thread", "create_message", "list_messages", "list_run_steps", "get_thread_run", "submit_tool_outputs"}
    | {"create_conversation", "list_conversation_items", "update_thread_run", "cancel_thread_run"}
)


_CALLS_ASKED = "gen_ai.run_step.tool_calls"
_SAID = ("gen_ai.assistant.message", _CALLS_ASKED)


class AzureAgents(Convention):
    """Spans of azure-ai-agents and azure-ai-projects."""

    name = "azure_ai_agents"
    names = frozenset({"az.namespace", "gen_ai.provider.name", "gen_ai.system"})

    def recognises(self, record: Record) -> bool:
        """The Azure namespace, or the service's provider name."""
        attributes = record.attributes
        if attributes.get("az.namespace") == "Microsoft.CognitiveServices":
            return True
        provider = attributes.get("gen_ai.provider.name", attributes.get("gen_ai.system"))
        return provider in ("az.ai.agents", "microsoft.foundry", "az.ai.inference")

    def read(self, record: Record) -> Facts:
        """Class and ids; messages come as events."""
        reader = Reader(record, self.name)
        operation = record.text("gen_ai.operation.name") or record.span.name.partition(" ")[0]
        if operation in _CALLS:
            reader.classify(SpanClass.STEP, "gen_ai.operation.name")
        else:
            reader.classify(OPERATIONS.get(operation), "gen_ai.operation.name")
        if operation == "responses" and "gen_ai.agent.name" in record.attributes:
            reader.classify(SpanClass.AGENT, "gen_ai.agent.name")
        reader.text(Field.RUN, "gen_ai.thread.run.id")
        found = reader.facts.get(Field.CLASS)
        if found is not None and found.value is SpanClass.AGENT and record.events:
            _run(reader)
        return reader.facts


def _run(reader: Reader) -> None:
    """A run's span tells as events what the assistant said and asked for: that is its output, not what it was given."""
    events = [event for event in reader.record.events if event.name in ROLES or event.name == _CALLS_ASKED]
    told = [("gen_ai.choice" if event.name in _SAID else event.name, fields_of(event)) for event in events]
    if any(name == "gen_ai.choice" for name, _ in told):
        read_message_events(reader, told, "event gen_ai.event.content")
        if Field.INPUT not in reader.facts:
            reader.facts[Field.INPUT] = Found((), "event gen_ai.event.content", reader.convention, pinned=True)
