"""What a dialect has to offer: recognise a span by its attributes, and read facts from it."""

from __future__ import annotations

from typing import ClassVar, Protocol

from monitor.assembly.facts import Facts
from monitor.assembly.record import Record

ANY = frozenset[str]()


class Convention(Protocol):
    """One dialect of agent telemetry.

    `name` is how the dialect is called in `convention` and in provenance. `words` are first words of attribute keys or event names,
    `names` whole ones: any span of the dialect has one of the words (if there are any), and one of the names (if there are any).

    `recognises` looks at the attributes and events present, never at the scope's name alone (polled stores lose it).
    Several conventions may recognise one span; facts are then taken one by one, by the order of the table.
    Neither method raises, whatever the attributes hold.
    """

    name: ClassVar[str]
    words: ClassVar[frozenset[str]] = ANY
    names: ClassVar[frozenset[str]] = ANY

    def recognises(self, record: Record) -> bool:
        """Whether the span speaks this dialect. Asked only of spans with one of the words and names."""
        return True

    def read(self, record: Record) -> Facts:
        """What the span says in this dialect."""
        ...
