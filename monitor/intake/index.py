"""The index of open traces: which traces have not settled, when each is to be looked at next, and which segments they need.

It holds no closed trace: whether an earlier settlement exists is asked of the store once, for traces that look incomplete.
"""

from __future__ import annotations

import heapq
import threading
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from monitor.intake.noted import Arrival, DueTraces, Survivor, Taken
from monitor.intake.opentrace import Inside, OpenTrace
from monitor.intake.parked import Backlog, Parked, Unread
from monitor.intake.records import Columns
from monitor.intake.settling import SettlingRules, due
from monitor.model.invocation import SettledBy
from monitor.model.origin import waiting_for
from monitor.model.run import NOT_READ, JournalPosition

MAX_OPEN_ITEMS = 2_000_000
"""Open spans and log records, those that are parked among them, past which nothing more is taken."""

MAX_INDEXED = 1_500_000
"""Items in memory, of about 21 bytes, past which what comes is parked in the journal: 32 MB, which is half a million spans in traces of 8, as
many as wait at a million spans a minute and a `settle_after` of 30 s.
"""

OPEN_AT_ONCE = 256
"""Open traces that are looked into in one step: after a start all of them are due for it at the same time, and what has settled waits meanwhile."""

_NEXT_TURN = 1.0
_TRACE_COST = 16  # what an open trace costs besides its items, in items
_CHECKS_AT_ONCE = 1000  # the lock is not held for longer than this many traces


@dataclass(frozen=True, slots=True)
class _Found:
    """What was found due so far."""

    taken: list[Taken]
    unknown: list[bytes]
    open: list[bytes]


__all__ = ["Arrival", "DueTraces", "Index", "Survivor", "Taken"]


class Index:
    """All open traces. Thread-safe; `note` is called in journal order, taking and giving back by one settler.

    Past `max_indexed` items in memory new frames are parked: they wait in the journal until they are read on (see reading_on.py), by the
    settler. `max_open_items` may be set at any time.
    """

    def __init__(
        self, rules: SettlingRules, max_open_items: int = MAX_OPEN_ITEMS, max_indexed: int = MAX_INDEXED
    ) -> None:
        self.rules = rules
        self.max_open_items = max_open_items
        self._mutex = threading.Lock()
        self._traces: dict[bytes, OpenTrace] = {}
        self._queue: list[tuple[float, list[bytes]]] = []  # traces of one frame are looked at together
        self._live: Counter[int] = Counter()
        self._open: Counter[str] = Counter()
        self._settling: Counter[str] = Counter()
        self._items = 0
        self._backlog = Backlog(max_indexed)

    def configure(self, rules: SettlingRules, now: float) -> None:
        """Other rules hold from now on, for traces that are open as well."""
        with self._mutex:
            self.rules = rules
            now, _ = self._backlog.moment(now, now)
            for trace_id, trace in self._traces.items():
                self._look(trace_id, trace, now)

    # -- arrivals ----------------------------------------------------------------------------------------------------
    def note(self, arrival: Arrival) -> None:
        """The items of a durable frame, the next in the journal. All items of a trace in it are noted at once."""
        if not arrival.items:
            return
        with self._mutex:
            if self._backlog.parks(self._indexed):
                self._backlog.park(arrival.position, arrival.collector, [item.trace_id for _, item in arrival.items])
                return
        self._index(arrival)  # nobody else begins to park meanwhile

    def _index(self, arrival: Arrival) -> None:
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
            self._backlog.came(arrival.received_at, self.rules.settle_after)

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
        """Whether a trace is open; while something is parked, a few others seem so, too (see seen.py)."""
        parked = self.parked  # asked first: what is parked no more is open
        return (parked is not None and trace_id in parked) or trace_id in self._traces

    @property
    def indexed_items(self) -> int:
        """Spans and log records in memory."""
        return self._items

    @property
    def _indexed(self) -> int:
        return self._items + _TRACE_COST * len(self._traces)

    @property
    def fullness(self) -> float:
        """How much is open, as a share of what may be; from 1 on nothing more may be taken."""
        parked = self.parked
        return (self._indexed + (parked.count if parked is not None else 0)) / self.max_open_items

    # -- parked frames -------------------------------------------------------------------------------------------------
    @property
    def parked(self) -> Parked | None:
        """What waits in the journal to be indexed, None for nothing."""
        return self._backlog.parked

    @property
    def unread(self) -> Unread | None:
        """What earlier processes left and nobody has looked at yet: which traces are open in it is not known."""
        parked = self.parked
        return parked.unread if parked is not None else None

    def park_unread(self, unread: Unread, segments: Collection[int]) -> None:
        """What earlier processes left, in those segments, waits. Before anything is noted."""
        with self._mutex:
            self._backlog.parked = Parked(NOT_READ, unread.until, unread)
            self._backlog.parked.segments |= {*segments}

    def stretch(self) -> tuple[JournalPosition, JournalPosition] | None:
        """Where the first parked frame is to be looked for, and where the last lies."""
        with self._mutex:
            return (self.parked.reads_from, self.parked.last) if self.parked is not None else None

    def note_parked(self, arrival: Arrival, end: int, trace_ids: Collection[bytes]) -> None:
        """Index the next parked frame, which ends at that offset. `trace_ids`: of each item in it, though the store may have consumed some."""
        if arrival.items:
            self._index(arrival)
        with self._mutex:
            self._backlog.came(arrival.received_at, self.rules.settle_after)
            if self.parked is not None:
                self.parked.taken(arrival, end, trace_ids)
                self._backlog.read_to(JournalPosition(arrival.position.segment, end))

    def read_to(self, position: JournalPosition) -> None:
        """No parked frame lies before the position any more."""
        with self._mutex:
            self._backlog.read_to(position)

    def has_room(self, now: float, *, idle: bool) -> bool:
        """Whether parked frames are to be read on: there is room; or there is none and, with nothing due as far as they are read (`idle`),
        something may be by now.
        """
        with self._mutex:
            if self.parked is None or self._indexed < self._backlog.max_indexed:
                return self.parked is not None
            is_due = bool(self._queue and self._queue[0][0] <= now) or self._backlog.is_overdue(
                now, self.rules.settle_after
            )
            return idle and is_due

    def moment(self, now: float, listening_since: float) -> tuple[float, float]:
        """For what moment `take_due` can be asked, and since when silence counts (see Backlog)."""
        with self._mutex:
            return self._backlog.moment(now, listening_since)

    @contextmanager
    def all_indexed(self) -> Iterator[bool]:
        """Whether nothing is parked; nothing is until this is left, then."""
        with self._mutex:
            nothing_parked = self._backlog.keep_indexing(True)
        try:
            yield nothing_parked
        finally:
            with self._mutex:
                self._backlog.keep_indexing(False)

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
        """Segments that hold an item of a trace that is open or being settled, or something parked."""
        with self._mutex:
            parked = self.parked.segments if self.parked is not None else set()
            return {segment for segment, count in self._live.items() if count > 0} | parked

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
        """Open traces by collector; a parked one counts for each of its frames, one in what is unread not at all."""
        with self._mutex:
            return self._open + self.parked.traces if self.parked is not None else Counter(self._open)

    def unsettled(self, collector: str) -> int:
        """Traces of a collector that are open or being settled; 0 only where it is certain that there is none."""
        with self._mutex:
            known = self._open[collector] + self._settling[collector]
            if self.parked is None:
                return known
            return known + self.parked.traces[collector] + (self.parked.unread is not None)

    @property
    def open_items(self) -> int:
        """Spans and log records of open traces, those that are parked among them."""
        parked = self.parked
        return self._items + (parked.count if parked is not None else 0)

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
