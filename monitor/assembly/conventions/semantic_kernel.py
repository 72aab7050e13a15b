"""Semantic Kernel: GenAI spans with the tools' names in `sk.available_functions`, messages as log events."""

from __future__ import annotations

from monitor.assembly.conventions.convention import Convention
from monitor.assembly.conventions.gen_ai import classify
from monitor.assembly.conventions.reader import Reader
from monitor.assembly.facts import Facts
from monitor.assembly.record import Record


class SemanticKernel(Convention):
    """Spans with `sk.*` keys."""

    name = "semantic_kernel"
    words = frozenset({"sk"})

    def read(self, record: Record) -> Facts:
        """The class by the operation, and the tools that are offered: names with commas between, or definitions."""
        reader = Reader(record, self.name)
        classify(reader)
        functions = record.text("sk.available_functions")
        if functions is not None and not functions.lstrip().startswith("["):
            names = [name.strip() for name in functions.split(",") if name.strip()]
            reader.names(names, "sk.available_functions")
        else:
            reader.definitions("sk.available_functions")
        return reader.facts
