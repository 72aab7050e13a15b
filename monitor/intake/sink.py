"""The sink that collectors hand export requests to: sort out, make durable, index, and only then acknowledge.

Nothing is decoded here beyond ids, times and marks.
"""

from __future__ import annotations

import threading
from collections import Counter
from concurrent.futures import Future
from dataclasses import dataclass

from prometheus_client import Counter as Counted

from collectors.immutable import immutable
from collectors.otlp.request import Item, Request, Wanted, from_json, split
from collectors.sink import Accepted, Encoding, MalformedRequest, Overloaded, RejectReason, Signal
from monitor.clock import Clock
from monitor.intake.faults import JournalUnwritable
from monitor.intake.index import Arrival, Index
from monitor.intake.journal import Journal
from monitor.intake.keeping import KeptBelow
from monitor.model.origin import collector_of
from monitor.model.run import JournalPosition
from monitor.sampling import sampling_number
from monitor.telemetry import DropReason, Telemetry

MAX_IN_FLIGHT_BYTES = 256 * 1024**2
"""Request bytes between arrival and acknowledgement past which intake answers Overloaded: four of the largest requests."""

NEW_TRACES_UNTIL = 0.9
"""From this fullness on only requests are taken of which half belongs to open traces: these are to become whole, settle and make room. So
whole traces are shed, and those that were begun are not cut.
"""


@dataclass(frozen=True, slots=True)
class EarlyDrop:
    """Whether traces that no monitor can draw are dropped at intake: those whose sampling number is at or above `rate`. None: none is."""

    rate: float | None = None

    @property
    def below(self) -> float:
        """Below which sampling number traces are kept."""
        return 1.0 if self.rate is None else self.rate


@immutable(frozen=True, slots=True)
class _Sorted:
    """A request after sorting: what is kept, what is rejected, and what is acknowledged without being kept."""

    request: Request
    kept: list[tuple[int, Item]]
    rejected: Counter[RejectReason]
    dropped: Counter[str]

    @property
    def accepted(self) -> Accepted:
        rejected = self.rejected.total()
        message = f"{rejected} rejected; the first is {self.request.rejection()}" if rejected else ""
        return Accepted(len(self.request.items) - rejected, rejected, message)


class Intake:
    """Takes export requests. `accept` may be called from any thread; `early_drop` may be set at any time."""

    def __init__(
        self,
        journal: Journal,
        index: Index,
        telemetry: Telemetry,
        clock: Clock,
        *,
        max_in_flight_bytes: int = MAX_IN_FLIGHT_BYTES,
    ) -> None:
        self._early_drop = EarlyDrop()
        self._waits_for_unread = False
        self._rate: float | None = None  # the one in force, None before any was set
        self._kept_below = KeptBelow()
        self._journal = journal
        self._index = index
        self._telemetry = telemetry
        self._clock = clock
        self._max_in_flight_bytes = max_in_flight_bytes
        self._in_flight_bytes = 0
        self._received: dict[str, Counted] = {}
        self._mutex = threading.Lock()

    @property
    def early_drop(self) -> EarlyDrop:
        """What is dropped at intake. A lower rate leaves open traces whole; a higher one holds for traces that were not cut by the old
        one (see KeptBelow). While nobody has read which traces an earlier process left open (`Index.unread`), one that is lowered waits: none
        is cut.
        """
        return self._early_drop

    @early_drop.setter
    def early_drop(self, drop: EarlyDrop) -> None:
        self._early_drop = drop
        self._change_rate()

    def _change_rate(self) -> None:
        rate, before = self._early_drop.below, self._rate
        self._waits_for_unread = before is not None and rate < before and self._index.unread is not None
        if not self._waits_for_unread:
            self._rate = rate
            self._kept_below.change(rate, self._clock.now(), self._index.rules.idle_timeout)

    # -- accepting ---------------------------------------------------------------------------------------------------
    def accept(self, body: bytes, signal: Signal, encoding: Encoding, collector: str) -> Future[Accepted]:
        """Take one export request (see SpanSink). What is rejected in it is counted by reason, the rest is acknowledged when durable.

        Raises MalformedRequest, and Overloaded while too much is in flight, open or unsettled, or nothing can be written.
        """
        try:
            self._enter(len(body))
        except Overloaded:
            self._telemetry.rejected(collector_of(collector), RejectReason.OVERLOADED)
            raise
        try:
            return self._accept(body, signal, encoding, collector)
        except MalformedRequest:
            self._leave(len(body))
            self._telemetry.rejected(collector_of(collector), RejectReason.MALFORMED)
            raise
        except BaseException:
            self._leave(len(body))
            raise

    def pressure(self) -> float:
        """How full the journal or the index of open traces is, the fuller of both, from 0 (see SpanSink).

        Raises Overloaded while the journal cannot be written, and from 1 on.
        """
        if self._journal.fault is not None:
            raise Overloaded(_unwritable(self._journal.fault), 3.0)
        opened, written = self._index.fullness, self._journal.fullness
        if opened >= 1.0:
            raise Overloaded(f"{self._index.open_items} spans and log records of open traces wait to settle", 3.0)
        if written >= 1.0:
            raise Overloaded(f"the journal is full of unsettled data: {self._journal.size} bytes", 3.0)
        return max(opened, written)

    def _enter(self, length: int) -> None:
        self.pressure()
        with self._mutex:
            if self._in_flight_bytes and self._in_flight_bytes + length > self._max_in_flight_bytes:
                raise Overloaded(f"{self._in_flight_bytes} request bytes are in flight", 1.0)
            self._in_flight_bytes += length

    def _leave(self, length: int) -> None:
        with self._mutex:
            self._in_flight_bytes -= length

    def _accept(self, body: bytes, signal: Signal, encoding: Encoding, collector: str) -> Future[Accepted]:
        length = len(body)
        repaired = 0
        if encoding is Encoding.JSON:
            converted = from_json(body, signal)
            body, repaired = converted.body, converted.repaired
        if self._waits_for_unread and self._index.unread is None:
            self._change_rate()
        now = self._clock.now()
        kept_below = self._kept_below.at(now)
        wanted = None if self._kept_below.keeps_all(now) else self._wanted(now)
        found = _sorted(split(body, signal, wanted), wanted)
        answer: Future[Accepted] = Future()
        answer.set_running_or_notify_cancel()  # a client that goes away does not cancel what is under way

        def taken(written: Future[JournalPosition] | None = None) -> None:
            self._leave(length)
            fault = written.exception() if written is not None else None
            if fault is not None:
                self._telemetry.rejected(collector_of(collector), RejectReason.OVERLOADED, len(found.request.items))
                answer.set_exception(Overloaded(_unwritable(fault), 3.0))
                return
            self._count(found, collector, repaired)
            answer.set_result(found.accepted)

        if found.kept:
            self._prefer_open_traces(found, collector)
            self._append(found, collector, kept_below).add_done_callback(taken)
        else:
            taken()
        return answer

    def _prefer_open_traces(self, found: _Sorted, collector: str) -> None:
        if max(self._index.fullness, self._journal.fullness) < NEW_TRACES_UNTIL or self._index.unread is not None:
            return  # or which traces are open is not known
        continued = sum(item.trace_id in self._index for _, item in found.kept)
        if 2 * continued < len(found.kept):
            self._telemetry.rejected(collector_of(collector), RejectReason.OVERLOADED, len(found.request.items))
            raise Overloaded(
                "little room is left for unsettled data; it is for traces that are open and wait to settle", 3.0
            )

    def _append(self, found: _Sorted, collector: str, kept_below: float) -> Future[JournalPosition]:
        """Write what is kept; it is indexed by the committer, in journal order, once it is durable."""
        signal = found.request.signal
        frame, items = found.request.body, found.kept
        if len(items) < len(found.request.items):
            frame = found.request.keeping([ordinal for ordinal, _ in items])
            items = [(place, item) for place, (_, item) in enumerate(items)]  # ordinals in what is written
        received_at = self._clock.now()

        def noted(position: JournalPosition) -> None:
            self._index.note(Arrival(position, signal, collector, received_at, kept_below, items))

        try:
            return self._journal.append(frame, signal, collector, received_at, kept_below=kept_below, noted=noted)
        except Overloaded:
            self._telemetry.rejected(collector_of(collector), RejectReason.OVERLOADED, len(found.request.items))
            raise

    def _wanted(self, now: float) -> Wanted:
        """Whether a monitor can draw a trace as a whole, each asked once. One that is open is kept whole when a reload lowers the rate."""
        drawn: dict[bytes, bool] = {}

        def wanted(trace_id: bytes) -> bool:
            known = drawn.get(trace_id)
            if known is None:
                known = drawn[trace_id] = trace_id in self._index or self._kept_below.keeps(
                    trace_id, sampling_number(trace_id.hex()), now
                )
            return known

        return wanted

    def _count(self, found: _Sorted, collector: str, repaired: int) -> None:
        count = len(found.request.items)
        if found.request.signal is Signal.TRACES:
            received = self._received.get(collector)
            if received is None:  # looking a series up costs more than counting
                received = self._received[collector] = self._telemetry.spans_received.labels(collector_of(collector))
            received.inc(count)
        else:
            self._telemetry.log_records_received.inc(count)
        for reason, rejected in found.rejected.items():
            self._telemetry.rejected(collector_of(collector), reason, rejected)
        for cause, dropped in found.dropped.items():
            self._telemetry.spans_dropped.labels(cause).inc(dropped)
        if repaired:
            self._telemetry.values_repaired.inc(repaired)


def _sorted(request: Request, wanted: Wanted | None) -> _Sorted:
    found = _Sorted(request, [], Counter(), Counter())
    if request.plain and wanted is None:  # nearly always, where all traces are kept
        found.kept.extend(enumerate(request.items))
        return found
    sampled_out = 0
    for one in enumerate(request.items):
        trace_id, _, _, _, _, fault, _, own, genai, unwanted = one[1]
        if unwanted:
            sampled_out += 1
        elif fault is not None:
            found.rejected[fault] += 1
        elif not genai:
            found.dropped[DropReason.NOT_GENAI] += 1
        elif own:
            found.dropped[DropReason.OWN_TELEMETRY] += 1
        elif wanted is not None and not wanted(trace_id):
            sampled_out += 1
        else:
            found.kept.append(one)
    if sampled_out:
        found.dropped[DropReason.SAMPLED_OUT] = sampled_out
    return found


def _unwritable(fault: BaseException) -> str:
    """What senders are told; folder and user id are for the log and /readyz."""
    reason = fault.kind.value if isinstance(fault, JournalUnwritable) else type(fault).__name__
    return f"the journal cannot be written ({reason}); nothing was taken"
