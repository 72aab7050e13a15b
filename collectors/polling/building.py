"""Making a collector of a source."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from collectors.collector import Collector, History
from collectors.polling.backoff import Random
from collectors.polling.clock import PollClock
from collectors.polling.config import HttpConfig, Pace
from collectors.polling.cursors import CursorStore
from collectors.polling.delivery import Delivery
from collectors.polling.feed import Feed, FeedEngine
from collectors.polling.history import WindowHistory
from collectors.polling.http import HttpSource
from collectors.polling.poller import Poller
from collectors.polling.source import TraceSource
from collectors.polling.windows import WindowEngine
from collectors.sink import IntakeMeter, SpanSink

Connect = Callable[[HttpConfig, PollClock, Random], HttpSource]
"""How a source's HTTP side is made; tests put a server without sockets there."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What every poller is given besides its configuration."""

    sink: SpanSink
    meter: IntakeMeter
    clock: PollClock
    cursors: CursorStore
    chance: Random = random.random
    connect: Connect = HttpSource


def window_collector(name: str, source: TraceSource, pace: Pace, given: Surroundings) -> Collector:
    """A collector that polls a trace store by windows of time."""
    delivery = Delivery(name, given.sink, given.clock)
    engine = WindowEngine(name, source, pace, delivery, given.cursors, given.clock, given.meter)
    history = WindowHistory(name, source, pace, given.sink, given.clock, given.meter)
    return Poller(name, engine, pace.interval, given.clock, given.chance, history)


def feed_collector(
    name: str, feed: Feed, interval: float, given: Surroundings, history: History | None = None
) -> Collector:
    """A collector that reads a source from a cursor on."""
    delivery = Delivery(name, given.sink, given.clock)
    return Poller(name, FeedEngine(name, feed, delivery, given.cursors), interval, given.clock, given.chance, history)
