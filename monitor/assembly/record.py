"""A span with the log records that belong to it, as conventions read it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from collectors.span import Attributes, LogRecord, Span


class Event(NamedTuple):
    """A span event or a log record of the span: the same thing on two wires. `body` is None for span events."""

    name: str
    attributes: Attributes
    body: Any
    time: int
    source: str


class Record:
    """A span and its log records.

    `prefixes` are the first words of the attribute keys (`gen_ai`, `llm`, `http`); `heads` their first two words, with a dot behind
    them where the key goes on (`gen_ai.prompt` and `gen_ai.prompt.` tell the two dialects apart). `event_prefixes` are the first
    words of event names. All three are for quick recognition.
    """

    __slots__ = ("attributes", "event_prefixes", "events", "heads", "logs", "prefixes", "span")

    def __init__(self, span: Span, logs: Sequence[LogRecord] = ()) -> None:
        self.span = span
        self.logs = logs
        self.attributes = span.attributes
        heads = [_head(key) for key in span.attributes]
        self.prefixes = frozenset([first for first, _ in heads])
        self.heads = frozenset([second for _, second in heads])
        self.events = _events(span, logs) if span.events or logs else ()
        self.event_prefixes = frozenset([event.name.partition(".")[0] for event in self.events])

    def text(self, *keys: str) -> str | None:
        """The first of the attributes that is non-empty text."""
        for key in keys:
            value = self.attributes.get(key)
            if isinstance(value, str) and value.strip():
                return value
        return None


@lru_cache(maxsize=8192)
def _head(key: str) -> tuple[str, str]:
    first, _, rest = key.partition(".")
    second, dot, _ = rest.partition(".")
    return first.partition(":")[0], f"{first}.{second}{dot}"


def _events(span: Span, logs: Sequence[LogRecord]) -> tuple[Event, ...]:
    """Span events, then log records, each in order of time as recorded."""
    own = [Event(e.name, e.attributes, None, e.time_unix_nano, "event") for e in span.events]
    logged = [Event(r.event_name, r.attributes, r.body, r.time_unix_nano, "log") for r in logs]
    return (*_ordered(own), *_ordered(logged))


def _ordered(events: Iterable[Event]) -> list[Event]:
    return sorted(events, key=lambda event: event.time)
