"""A span with the log records that belong to it, as conventions read it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from collectors.span import Attributes, LogRecord, Span


@dataclass(frozen=True, slots=True)
class Event:
    """A span event or a log record of the span: the same thing on two wires. `body` is None for span events."""

    name: str
    attributes: Attributes
    body: Any
    time: int
    source: str


@dataclass(frozen=True)
class Record:
    """A span and its log records."""

    span: Span
    logs: Sequence[LogRecord] = field(default=())

    @property
    def attributes(self) -> Attributes:
        """The span's attributes."""
        return self.span.attributes

    @cached_property
    def prefixes(self) -> frozenset[str]:
        """The first words of the attribute keys (`gen_ai`, `llm`, `http`), for quick recognition."""
        return frozenset(key.partition(".")[0].partition(":")[0] for key in self.span.attributes)

    @cached_property
    def events(self) -> tuple[Event, ...]:
        """Span events, then log records, each in order of time as recorded."""
        spans = [Event(e.name, e.attributes, None, e.time_unix_nano, "event") for e in self.span.events]
        logs = [Event(r.event_name, r.attributes, r.body, r.time_unix_nano, "log") for r in self.logs]
        return (*_ordered(spans), *_ordered(logs))

    @cached_property
    def event_prefixes(self) -> frozenset[str]:
        """The first words of the event names."""
        return frozenset(event.name.partition(".")[0] for event in self.events)

    def text(self, *keys: str) -> str | None:
        """The first of the attributes that is non-empty text."""
        for key in keys:
            value = self.span.attributes.get(key)
            if isinstance(value, str) and value.strip():
                return value
        return None


def _ordered(events: Iterable[Event]) -> list[Event]:
    return sorted(events, key=lambda event: event.time)
