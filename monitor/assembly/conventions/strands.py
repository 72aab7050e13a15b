"""Strands Agents: GenAI attributes and events with Bedrock blocks inside, cycles around model calls."""

from __future__ import annotations

from monitor.assembly.conventions.convention import Convention
from monitor.assembly.conventions.gen_ai import classify
from monitor.assembly.conventions.reader import Reader
from monitor.assembly.facts import Facts
from monitor.assembly.record import Record

PROVIDER = "strands-agents"


class Strands(Convention):
    """Spans of Strands' tracer. The content is GenAI's; this says whose it is, so that a fleet's dialects can be told apart."""

    name = "strands"
    names = frozenset({"gen_ai.system", "gen_ai.provider.name", "event_loop.cycle_id"})

    def recognises(self, record: Record) -> bool:
        """Its name as the provider, or the id of an event loop's cycle."""
        attributes = record.attributes
        if PROVIDER in (attributes.get("gen_ai.system"), attributes.get("gen_ai.provider.name")):
            return True
        return "event_loop.cycle_id" in attributes

    def read(self, record: Record) -> Facts:
        """The class by the operation."""
        reader = Reader(record, self.name)
        classify(reader)
        return reader.facts
