"""A sink and a meter that remember, for the receivers' tests."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass

from collectors.otlp.request import Decoded, decode, from_json, split
from collectors.sink import Accepted, Encoding, Overloaded, RejectReason, Signal


@dataclass(frozen=True, slots=True)
class Taken:
    """One request as the sink got it."""

    body: bytes
    signal: Signal
    encoding: Encoding
    collector: str

    @property
    def decoded(self) -> Decoded:
        """What is in it."""
        body = from_json(self.body, self.signal).body if self.encoding is Encoding.JSON else self.body
        return decode(body, self.signal)


class RecordingSink:
    """A small sink: refuses what cannot be split, rejects invalid items, and is durable when told."""

    def __init__(self) -> None:
        self.taken: list[Taken] = []
        self.futures: list[Future[Accepted]] = []
        self.durable = True
        """False: futures are left for the test to resolve."""
        self.fault: Exception | None = None
        """Raised instead of taking anything."""
        self.full = 0.0
        """What `pressure` says; from 1 on it raises."""
        self.arrived = threading.Event()
        self.threads: set[str] = set()
        self.before: Callable[[], None] | None = None

    def accept(self, body: bytes, signal: Signal, encoding: Encoding, collector: str) -> Future[Accepted]:
        """Take one request."""
        if self.before is not None:
            self.before()
        if self.fault is not None:
            raise self.fault
        protobuf = from_json(body, signal).body if encoding is Encoding.JSON else body
        request = split(protobuf, signal)
        self.threads.add(threading.current_thread().name)
        self.taken.append(Taken(body, signal, encoding, collector))
        rejected = sum(not item.valid for item in request.items)
        future: Future[Accepted] = Future()
        self.futures.append(future)
        if self.durable:
            future.set_result(Accepted(len(request.items) - rejected, rejected, request.rejection()))
        self.arrived.set()
        return future

    def pressure(self) -> float:
        """How full it is said to be."""
        if self.full >= 1.0:
            raise Overloaded("full", 3.0)
        return self.full


class RecordingMeter:
    """Counts refusals by collector and reason."""

    def __init__(self) -> None:
        self.counts: Counter[tuple[str, RejectReason]] = Counter()

    def rejected(self, collector: str, reason: RejectReason, count: int = 1) -> None:
        """Count."""
        self.counts[collector, reason] += count

    def of(self, reason: RejectReason) -> int:
        """How often, in all collectors."""
        return sum(count for (_, counted), count in self.counts.items() if counted is reason)
