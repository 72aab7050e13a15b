"""What a dialect has to offer: recognise a span by its attributes, and read facts from it."""

from __future__ import annotations

from typing import Protocol

from monitor.assembly.facts import Facts
from monitor.assembly.record import Record


class Convention(Protocol):
    """One dialect of agent telemetry.

    `recognises` looks at the attributes and events present, never at the scope's name alone (polled stores lose it).
    Several conventions may recognise one span; facts are then taken one by one, by the order of the table.
    Neither method raises, whatever the attributes hold.
    """

    @property
    def name(self) -> str:
        """How the dialect is called in `convention` and in provenance."""
        ...

    @property
    def words(self) -> frozenset[str]:
        """First words of attribute keys or event names, one of which any span of the dialect has; empty: the dialect is always asked."""
        ...

    def recognises(self, record: Record) -> bool:
        """Whether the span speaks this dialect."""
        ...

    def read(self, record: Record) -> Facts:
        """What the span says in this dialect."""
        ...
