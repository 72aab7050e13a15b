"""The index of open traces: which traces have not settled, when each is to be looked at next, and which segments they need.

It holds no closed trace: whether an earlier settlement exists is asked of the store once, for traces that look incomplete.
"""

from __future__ import annotations

import heapq
import threading
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from collectors.immutable import immutable
from collectors.otlp.request import Item
from collectors.sink import Signal
from monitor.intake.opentrace import Inside, OpenTrace
from monitor.intake.records import Columns
from monitor.intake.settling import SettlingRules, due
from monitor.model.invocation import SettledBy
from monitor.model.origin import waiting_for
from monitor.model.run import JournalPosition

MAX_OPEN_ITEMS = 2_000_000
"""Open spans and log records past which nothing more is taken: about 0.2 GB in traces of 8 spans."""

OPEN_AT_ONCE = 256
"""Open traces that are looked into in one step: after a start all of them are due for it at the same time, and what has settled waits meanwhile."""

_NEXT_TURN = 1.0
_TRACE_COST = 16  # what an open trace costs besides its items, in items
_CHECKS_AT_ONCE = 1000  # the lock is not held for longer than this many traces


@immutable(frozen=True, slots=True)
class Arrival:
    """Items of one frame as they are noted: ordinals with their items, all of the same signal."""

    position: JournalPosition
    signal: Signal
    collector: str
    received_at: float
    kept_below: float
    items: Sequence[tuple[int, Item]]


@immutable(frozen=True, slots=True)
class Taken:
    """A trace that is being settled: out of the index, but its segments are still needed."""

    trace_id: bytes
    trace: OpenTrace
    settled_by: SettledBy


@dataclass(frozen=True, slots=True)
class DueTraces:
    """Traces that settle now, and incomplete ones of which the store may know an earlier settlement. `more`: there are others due.

    `open` are traces that stay open, in which an invocation may be over.
    """

    taken: tuple[Taken, ...] = ()
    unknown: tuple[bytes, ...] = ()
    open: tuple[bytes, ...] = ()
    more: bool = False


@dataclass(frozen=True, slots=True)
class Survivor:
    """Items of an open trace in a frame of an old segment: which trace, where in its records, and their ordinals in the frame."""

    trace_id: bytes
    at: int
    ordinals: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Found:
    """What was found due so far."""

    taken: list[Taken]
    unknown: list[bytes]
    open: list[bytes]


class Index:
    """All open traces. Thread-safe; `note` is called in journal order, taking and giving back by one settler.

    `max_open_items` may be set at any time.
    """

    def __init__(self, rules: SettlingRules, max_open_items: int = MAX_OPEN_ITEMS) -> None:
        self.rules = rules
        self.max_open_items = max_open_items
        self._mutex = threading.Lock()
        self._traces: dict[bytes, OpenTrace] = {}
        self._queue: list[tuple[float, list[bytes]]] = []  # traces of one frame are looked at together
        self._live: Counter[int] = Counter()
        self._open: Counter[str] = Counter()
        self._settling: Counter[str] = Counter()
        self._items = 0

    def configure(self, rules: SettlingRules, now: float) -> None:
        """Other rules hold from now on, for traces that are open as well."""
        with self._mutex:
            self.rules = rules
            for trace_id, trace in self._traces.items():
                self._look(trace_id, trace, now)

    # -- arrivals ----------------------------------------------------------------------------------------------------
    def note(self, arrival: Arrival) -> None:
        """The items of a durable frame. All items of a trace in it are noted at once."""
        if not arrival.items:
            return
        columns = Columns.of(arrival.items, arrival.signal, arrival.position, arrival.received_at)
        quiet_at = arrival.received_at + self.rules.settle_after
        later: list[bytes] = []
        with self._mutex:
            for trace_id, first, end in columns.runs:
                trace = self._trace(trace_id, arrival)
                trace.add(columns, first, end, arrival.received_at, arrival.kept_below)
                if trace.end_marker or trace.item_count > self.rules.max_spans:
                    self._look(trace_id, trace, arrival.received_at)
                elif not trace.check_at or quiet_at < trace.check_at:
                    trace.check_at = quiet_at
                    later.append(trace_id)
            if later:
                heapq.heappush(self._queue, (quiet_at, later))
            self._live[arrival.position.segment] += len(arrival.items)
            self._items += len(arrival.items)

    def _trace(self, trace_id: bytes, arrival: Arrival) -> OpenTrace:
        trace = self._traces.get(trace_id)
        if trace is None:
            trace = self._traces[trace_id] = OpenTrace(arrival.collector, arrival.received_at, arrival.kept_below)
            self._open[trace.collector] += 1
        elif trace.collector != arrival.collector and waiting_for(arrival.collector) is None:
            self._open[trace.collector] -= 1  # what is delivered is live, whoever read it again before
            self._open[arrival.collector] += 1
            trace.collector = arrival.collector
        return trace

    def _look(self, trace_id: bytes, trace: OpenTrace, at: float) -> None:
        """Look at the trace at that time, unless it is looked at before."""
        if not trace.check_at or at < trace.check_at:
            trace.check_at = at
            heapq.heappush(self._queue, (at, [trace_id]))

    def __contains__(self, trace_id: bytes) -> bool:
        return trace_id in self._traces

    @property
    def fullness(self) -> float:
        """How much is open, as a share of what may be; from 1 on nothing more may be taken."""
        return (self._items + _TRACE_COST * len(self._traces)) / self.max_open_items

    # -- settling -----------------------------------------------------------------------------------------------------
    def take_due(self, now: float, listening_since: float, limit: int) -> DueTraces:
        """Take out up to `limit` traces that are to settle. Each must come back by `finish` or `give_back`."""
        found = _Found([], [], [])
        more = True
        while more and len(found.taken) < limit:
            with self._mutex:
                more = self._check_some(now, listening_since, limit, found)
        return DueTraces(tuple(found.taken), tuple(found.unknown), tuple(found.open), more)

    def _check_some(self, now: float, listening_since: float, limit: int, found: _Found) -> bool:
        left = _CHECKS_AT_ONCE
        while left > 0:
            if not self._queue or self._queue[0][0] > now:
                return False
            at, trace_ids = heapq.heappop(self._queue)
            left -= len(trace_ids)
            for place, trace_id in enumerate(trace_ids):
                if len(found.taken) >= limit:
                    heapq.heappush(self._queue, (at, trace_ids[place:]))
                    return True
                trace = self._traces.get(trace_id)
                if trace is not None and trace.check_at == at:  # else settled meanwhile, or looked at sooner than this
                    self._check(trace_id, trace, now, listening_since, found)
        return True

    def _check(self, trace_id: bytes, trace: OpenTrace, now: float, listening_since: float, found: _Found) -> None:
        trace.check_at = 0.0
        state = trace.state(self.rules.max_spans)
        settles = due(state, self.rules, listening_since)
        if settles.at <= now:
            del self._traces[trace_id]
            self._open[trace.collector] -= 1
            self._settling[trace.collector] += 1
            found.taken.append(Taken(trace_id, trace, settles.by))
            return
        quiet_at = max(state.last_received, listening_since) + self.rules.settle_after
        again = settles.at if quiet_at <= now else min(quiet_at, settles.at)
        if not (state.complete or state.settled_before) and now - listening_since >= self.rules.settle_after:
            if trace.is_to_look_into(now - self.rules.settle_after, now):
                if len(found.open) < OPEN_AT_ONCE:
                    found.open.append(trace_id)
                else:
                    again = min(again, now + _NEXT_TURN)
            elif trace.inside is not None and trace.inside.at > now:
                again = min(again, trace.inside.at)
        if quiet_at <= now and not trace.looked_up:
            found.unknown.append(trace_id)
        self._look(trace_id, trace, again)

    def copy(self, trace_id: bytes) -> OpenTrace | None:
        """An open trace as it is now, to be looked into; None when it is not open."""
        with self._mutex:
            trace = self._traces.get(trace_id)
            return None if trace is None else trace.copy()

    def looked_into(self, trace_id: bytes, inside: Inside, stored: Collection[int]) -> None:
        """An open trace was looked into, what was found is stored, and the items at those places need not be read again."""
        with self._mutex:
            trace = self._traces.get(trace_id)
            if trace is not None:
                trace.inside = inside
                trace.mark_stored(stored, stored=True)

    def read_again(self, trace_id: bytes) -> None:
        """Something came for an invocation that is stored out of an open trace: all of it is to be read when it is next looked into."""
        with self._mutex:
            trace = self._traces.get(trace_id)
            if trace is not None:
                trace.mark_stored(range(trace.item_count), stored=False)

    def mark(self, trace_ids: Iterable[bytes], settled_before: Collection[bytes], now: float) -> None:
        """What the store said of incomplete traces: those in `settled_before` are late data, which need not wait for a root."""
        with self._mutex:
            for trace_id in trace_ids:
                trace = self._traces.get(trace_id)
                if trace is None:
                    continue
                trace.looked_up = True
                trace.settled_before = trace_id in settled_before
                if trace.settled_before:
                    self._look(trace_id, trace, now)

    def finish(self, taken: Iterable[Taken]) -> None:
        """The settlement of those traces is stored, or there is nothing to store: their bytes are needed no more."""
        with self._mutex:
            for one in taken:
                for segment, count in one.trace.segments:
                    self._live[segment] -= count
                self._settling[one.trace.collector] -= 1
                self._items -= one.trace.item_count
            self._live = +self._live

    def give_back(self, taken: Iterable[Taken], retry_at: float) -> None:
        """The settlement could not be stored: the traces are open again, joined with what came meanwhile."""
        with self._mutex:
            for one in taken:
                self._settling[one.trace.collector] -= 1
                at, meanwhile = retry_at, self._traces.pop(one.trace_id, None)
                if meanwhile is not None:
                    at = min(retry_at, meanwhile.check_at or retry_at)
                    self._open[meanwhile.collector] -= 1
                    one.trace.join(meanwhile)
                    if waiting_for(meanwhile.collector) is None:
                        one.trace.collector = meanwhile.collector
                self._traces[one.trace_id] = one.trace
                self._open[one.trace.collector] += 1
                self._look(one.trace_id, one.trace, at)

    def hold(self, taken: Taken, until: float) -> None:
        """A trace that was taken waits for others of its turn: it is open again, and due then unless more of it comes."""
        taken.trace.held_until = until
        self.give_back([taken], until)

    def take(self, trace_id: bytes) -> Taken | None:
        """Take out a trace that is held, because what it waited for has come; None when it is not open."""
        with self._mutex:
            trace = self._traces.pop(trace_id, None)
            if trace is None:
                return None
            self._open[trace.collector] -= 1
            self._settling[trace.collector] += 1
            trace.held_until = 0.0  # should it be given back, it is due with the rest of its turn
            return Taken(trace_id, trace, SettledBy.ROOT_ENDED)

    # -- the journal's needs ---------------------------------------------------------------------------------------------
    @property
    def live_segments(self) -> set[int]:
        """Segments that hold an item of a trace that is open or being settled."""
        with self._mutex:
            return {segment for segment, count in self._live.items() if count > 0}

    def survivors(self, segment: int) -> dict[int, list[Survivor]]:
        """The items of open traces in a closed segment, by the offset of their frame. Only while nothing is being settled."""
        with self._mutex:
            traces = list(self._traces.items())
        found: dict[int, list[Survivor]] = {}
        for trace_id, trace in traces:
            for block in trace.blocks():
                if block.segment == segment:
                    found.setdefault(block.offset, []).append(Survivor(trace_id, block.at, trace.ordinals(block)))
        return dict(sorted(found.items()))

    def move(
        self, survivors: Sequence[Survivor], old: int, position: JournalPosition, ordinals: Mapping[int, int]
    ) -> None:
        """Items of one frame of segment `old` lie at a new position, with new ordinals."""
        with self._mutex:
            count = sum(len(survivor.ordinals) for survivor in survivors)
            for survivor in survivors:
                self._traces[survivor.trace_id].move(survivor.at, position, ordinals)
            self._live[old] -= count
            self._live[position.segment] += count

    # -- figures -----------------------------------------------------------------------------------------------------------
    @property
    def open_traces(self) -> Counter[str]:
        """Open traces by collector."""
        with self._mutex:
            return Counter(self._open)

    def unsettled(self, collector: str) -> int:
        """Traces of a collector that are open or being settled."""
        with self._mutex:
            return self._open[collector] + self._settling[collector]

    @property
    def open_items(self) -> int:
        """Spans and log records of open traces."""
        return self._items

    def last_data_of_oldest(self) -> dict[str, float]:
        """By collector: when the oldest open trace last got data, seconds since 1970-01-01Z."""
        with self._mutex:
            wanted = {collector for collector, count in self._open.items() if count > 0}
            found: dict[str, float] = {}
            for trace in self._traces.values():
                if len(found) == len(wanted):
                    break
                found.setdefault(trace.collector, trace.last_received)
            return found
