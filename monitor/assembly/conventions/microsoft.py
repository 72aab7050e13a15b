"""Microsoft: Agent Framework workflows, Semantic Kernel, AutoGen, and what Azure's exporter stamps on an agent's descendants."""

from __future__ import annotations

from monitor.assembly.conventions.convention import Convention
from monitor.assembly.conventions.reader import Reader
from monitor.assembly.facts import Facts, Field, SpanClass
from monitor.assembly.record import Record

_MAIN = "microsoft.gen_ai.main_agent."
_WORKFLOW_SPANS = {
    "workflow.run": SpanClass.WORKFLOW,
    "workflow.session": SpanClass.SESSION,
    "workflow.build": SpanClass.SETUP,
    "executor.process": SpanClass.STEP,
    "message.send": SpanClass.STEP,
    "edge_group.process": SpanClass.STEP,
}


class Microsoft(Convention):
    """`workflow.*` and `executor.*` spans, `sk.*` keys, and `microsoft.gen_ai.*` stamps."""

    name = "microsoft"
    words = frozenset({"workflow", "executor", "sk", "microsoft", "edge_group", "message"})

    def recognises(self, record: Record) -> bool:
        """Keys of one of the frameworks."""
        return not record.shape.prefixes.isdisjoint(
            ("workflow", "executor", "sk", "microsoft", "edge_group", "message")
        )

    def read(self, record: Record) -> Facts:
        """A workflow span's class; the owner that a descendant names; tool names that Semantic Kernel offers."""
        reader = Reader(record, self.name)
        head = record.span.name.partition(" ")[0]
        if head in _WORKFLOW_SPANS and any(
            key.startswith(("workflow.", "executor.", "edge_group.", "message.")) for key in record.attributes
        ):
            reader.classify(_WORKFLOW_SPANS[head], "span name")
        reader.text(Field.WORKFLOW_NAME, "workflow.name", "workflow.id", weak=True)
        reader.text(Field.AGENT_NAME, _MAIN + "name", weak=True)
        reader.text(Field.AGENT_VERSION, _MAIN + "version")
        functions = record.text("sk.available_functions")
        if functions is not None and not functions.lstrip().startswith("["):
            names = [name.strip() for name in functions.split(",") if name.strip()]
            reader.names(names, "sk.available_functions")
        else:
            reader.definitions("sk.available_functions")
        return reader.facts
