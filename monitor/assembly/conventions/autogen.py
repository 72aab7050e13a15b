"""AutoGen: GenAI spans of agents and tools without content, and messages between agents as spans with links."""

from __future__ import annotations

from monitor.assembly.conventions.convention import Convention
from monitor.assembly.conventions.gen_ai import classify
from monitor.assembly.conventions.reader import Reader
from monitor.assembly.facts import Facts
from monitor.assembly.record import Record


class AutoGen(Convention):
    """Spans of autogen-core. Model calls come from another package, if one is installed."""

    name = "autogen"
    names = frozenset({"gen_ai.system", "gen_ai.provider.name"})

    def recognises(self, record: Record) -> bool:
        """Its name as the provider."""
        attributes = record.attributes
        return "autogen" in (attributes.get("gen_ai.system"), attributes.get("gen_ai.provider.name"))

    def read(self, record: Record) -> Facts:
        """The class by the operation."""
        reader = Reader(record, self.name)
        classify(reader)
        return reader.facts
