"""Azure Monitor's exporter: it stamps the main agent on all its descendants (`microsoft.gen_ai.main_agent.*`)."""

from __future__ import annotations

from monitor.assembly.conventions.convention import Convention
from monitor.assembly.conventions.reader import Reader
from monitor.assembly.facts import Facts, Field
from monitor.assembly.record import Record

_MAIN = "microsoft.gen_ai.main_agent."


class AzureMonitor(Convention):
    """Spans with `microsoft.*` keys."""

    name = "azure_monitor"
    words = frozenset({"microsoft"})

    def read(self, record: Record) -> Facts:
        """The owner that a descendant names, behind what the span says of itself."""
        reader = Reader(record, self.name)
        reader.text(Field.AGENT_NAME, _MAIN + "name", weak=True)
        reader.text(Field.AGENT_VERSION, _MAIN + "version")
        return reader.facts
