"""A span with the log records that belong to it, as conventions read it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

from collectors.span import Attributes, LogRecord, Span
from monitor.assembly.told import Told

_MANY_KEYS = 96
"""Spans with more attributes than this (flattened messages) seldom have the same keys twice: their shape is not remembered."""


class Event(NamedTuple):
    """A span event or a log record of the span: the same thing on two wires. `body` is None for span events."""

    name: str
    attributes: Attributes
    body: Any
    time: int
    source: str


class Shape:
    """What the keys of a span's attributes tell, worked out once for all spans that have the same ones.

    `prefixes` are the first words of the keys (`gen_ai`, `llm`, `http`); `heads` their first two words, with a dot behind them where the
    key goes on (`gen_ai.prompt` and `gen_ai.prompt.` tell the two dialects apart). `words` are the prefixes and the first words of event
    names, `names` the keys and the event names themselves; `ordered` are the keys as they came. `known` holds what `by_shape` has worked out.
    """

    __slots__ = ("heads", "keys", "known", "names", "ordered", "prefixes", "words")

    def __init__(self, keys: tuple[str, ...], events: tuple[str, ...]) -> None:
        heads = [_head(key) for key in keys]
        self.known: dict[Any, Any] = {}
        self.ordered = keys
        self.keys = frozenset(keys)
        self.names = self.keys.union(events)
        self.prefixes = frozenset([first for first, _ in heads])
        self.heads = frozenset([second for _, second in heads])
        self.words = self.prefixes.union([event.partition(".")[0] for event in events])


_remembered = lru_cache(maxsize=1024)(Shape)

_Told = TypeVar("_Told")


def by_shape(ask: Callable[[Shape], _Told]) -> Callable[[Shape], _Told]:
    """Ask each shape once. The answer lives as long as the shape: a cache of its own would keep the keys of thousands of spans that never
    come again.
    """

    def told(shape: Shape) -> _Told:
        try:
            found: _Told = shape.known[told]
        except KeyError:
            found = shape.known[told] = ask(shape)
        return found

    return told


class Record:
    """A span and its log records. `told` remembers what the trace's messages say, so that a history is read once."""

    __slots__ = ("attributes", "events", "logs", "shape", "span", "told")

    def __init__(self, span: Span, logs: Sequence[LogRecord] = (), told: Told | None = None) -> None:
        self.span = span
        self.logs = logs
        self.attributes = span.attributes
        self.events = _events(span, logs) if span.events or logs else ()
        self.told = Told() if told is None else told
        keys = tuple(span.attributes)
        make = _remembered if len(keys) <= _MANY_KEYS else Shape
        self.shape = make(keys, tuple(sorted({event.name for event in self.events})) if self.events else ())

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
