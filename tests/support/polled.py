"""What polling collectors are tested with: a sink that remembers spans by trace, cursors and sinks that die."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field

from collectors.otlp.request import decode, from_json, split
from collectors.polling.cursors import MemoryCursors
from collectors.sink import Accepted, Encoding, Overloaded, RejectReason, Signal
from collectors.span import Span


class Killed(BaseException):
    """The process died here: nothing catches it."""


class SpansByTrace(dict[str, list[tuple[bytes, int]]]):
    """The spans of each trace, decoded when they are looked at."""

    def of(self, trace_id: str) -> list[Span]:
        """The spans of a trace in the order of their arrival."""
        return [span for body, ordinal in self[trace_id] for span in decode(body, Signal.TRACES, [ordinal]).spans]


@dataclass
class SpanSinkByTrace:
    """Durable at once. `before` is called with every request and may raise; `overloads` are answered first."""

    spans: SpansByTrace = field(default_factory=SpansByTrace)
    ids: dict[str, set[str]] = field(default_factory=dict)
    arrivals: Counter[str] = field(default_factory=Counter)
    before: Callable[[], None] = lambda: None
    overloads: int = 0
    collectors: set[str] = field(default_factory=set)

    def accept(self, body: bytes, signal: Signal, encoding: Encoding, collector: str) -> Future[Accepted]:
        """Take one request."""
        self.before()
        if self.overloads:
            self.overloads -= 1
            raise Overloaded("busy", 1.0)
        if encoding is Encoding.JSON:
            body = from_json(body, signal).body
        found = split(body, signal).items
        self.collectors.add(collector)
        for ordinal, item in enumerate(found):
            self.spans.setdefault(item.trace_id.hex(), []).append((body, ordinal))
            self.ids.setdefault(item.trace_id.hex(), set()).add(item.span_id.hex())
        self.arrivals.update({item.trace_id.hex() for item in found})
        future: Future[Accepted] = Future()
        future.set_result(Accepted(len(found)))
        return future

    def pressure(self) -> float:
        """Never full."""
        return 0.0


class DyingCursors(MemoryCursors):
    """Cursors whose `save` dies when told, before or after it kept the value."""

    def __init__(self) -> None:
        super().__init__()
        self.die_at: int | None = None
        self.after = False
        self.saves = 0

    def save(self, collector: str, cursor: object) -> None:
        """Keep the value, or die."""
        self.saves += 1
        dies = self.die_at is not None and self.saves >= self.die_at
        if dies and not self.after:
            raise Killed
        super().save(collector, cursor)
        if dies:
            raise Killed


class CountingMeter:
    """Counts what was refused by reason."""

    def __init__(self) -> None:
        self.counts: Counter[RejectReason] = Counter()

    def rejected(self, collector: str, reason: RejectReason, count: int = 1) -> None:
        """Count."""
        self.counts[reason] += count
