"""One settled trace as the value that the store keeps. Pure but for the assembly it calls; time is an argument."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from collectors.immutable import immutable
from collectors.otlp.request import select, split
from collectors.sink import Signal
from collectors.span import LogRecord, Span
from monitor.assembly import AssemblyContext, Reading, Ties, reading
from monitor.assembly.deduplicate import unique_logs, unique_spans
from monitor.assembly.reading import read
from monitor.assembly.record import Record
from monitor.intake import later, revisions, stored_spans
from monitor.intake.index import Taken
from monitor.intake.material import Material, decoded
from monitor.intake.opentrace import OpenTrace
from monitor.intake.options import SettlementOptions
from monitor.intake.settling import complete_spans
from monitor.model.invocation import Assembled, SettledBy
from monitor.model.origin import collector_of, waiting_for
from monitor.model.run import NOT_READ, InvocationChange, JournalPosition, StoredTrace, TraceSettlement
from monitor.settings.tree import LateSpans

LATE_SECONDS = 24 * 3600.0
"""Data that comes later than this after the settling changes nothing (contract section 3)."""


NO_TIES = Ties()


@immutable(frozen=True, slots=True)
class Settled:
    """A settlement with what is counted of it: spans that are new, copies, late spans and log records, and those over the limit.

    `ties`: by what the trace hangs together with others. `others`: the settlements of traces that make one turn with it.
    """

    settlement: TraceSettlement
    spans: int = 0
    duplicates: int = 0
    late: int = 0
    over_limit: int = 0
    ties: Ties = NO_TIES
    others: tuple[TraceSettlement, ...] = ()

    @property
    def settlements(self) -> tuple[TraceSettlement, ...]:
        """All that is stored in one transaction."""
        return (self.settlement, *self.others)


@immutable(frozen=True, slots=True)
class Distinct:
    """Each span and log record once, and the ordinals of those that the fresh material brought."""

    spans: list[Span]
    records: list[LogRecord]
    new_spans: list[int]
    new_records: list[int]

    @property
    def late(self) -> int:
        """How many items are new: late ones, where something is stored."""
        return len(self.new_spans) + len(self.new_records)


def settle(
    taken: Taken, material: Material, stored: StoredTrace | None, options: SettlementOptions, now: float
) -> Settled:
    """The settlement of a trace, or of late data for one that is stored."""
    if stored is None:
        return _settle_first(taken, material, options, now)
    if stored.consumed == NOT_READ:
        return _settle_rest(taken, material, stored, options, now)
    try:
        traces, logs = stored_spans.unpack(stored.spans or b"")
    except stored_spans.UnknownCodec:
        return _without_spans(taken, material, stored, options, now)
    known = len(split(traces, Signal.TRACES).items)
    if known + len(material.spans.spans) > options.max_spans:
        count = len(material.spans.spans) + len(material.records.logs)
        return Settled(unchanged_trace(taken, material, stored, options, known), over_limit=count)
    before = decoded(traces, logs, material.consumed)
    invocations = tuple(later.whole(one, before.spans.spans, before.records.logs) for one in stored.invocations)
    settled = _settle_late(taken, material, replace(stored, invocations=invocations), before, options, now)
    return _with_spans_of_unread(settled, stored)


def _with_spans_of_unread(settled: Settled, stored: StoredTrace) -> Settled:
    """The spans stay, where they would go by the options, while an invocation is stored of which only the head was read."""
    told = settled.settlement
    replaced = {change.invocation.id for change in told.changes} | set(told.merged)
    if told.spans is not None or all(one.assembled or one.invocation.id in replaced for one in stored.invocations):
        return settled
    return replace(settled, settlement=replace(told, spans=stored.spans))


def unassembled(
    taken: Taken, material: Material, stored: StoredTrace | None, options: SettlementOptions, now: float
) -> TraceSettlement:
    """The settlement of a trace that could not be assembled: its spans are kept, it has no invocation, and it is not tried again."""
    if stored is not None:
        return unchanged_trace(taken, material, stored, options, 0)
    spans = stored_spans.pack(material.traces, material.logs) if options.keep_spans else None
    return replace(plain(taken, material, options, now), span_count=len(material.spans.spans), spans=spans)


def _settle_first(taken: Taken, material: Material, options: SettlementOptions, now: float) -> Settled:
    distinct = distinct_of(None, material)
    found = read_all(distinct, taken.settled_by, collector_of(taken.trace.collector), options, 0)
    count = len(distinct.spans)
    settlement = replace(
        plain(taken, material, options, now),
        span_count=count,
        changes=revisions.first(found.invocations).changes,
        spans=packed(b"", b"", material, distinct)
        if options.keep_spans and _says_something(distinct, found.invocations)
        else None,
    )
    return Settled(settlement, count, len(material.spans.spans) - count, ties=found.ties)


def _settle_rest(
    taken: Taken, material: Material, stored: StoredTrace, options: SettlementOptions, now: float
) -> Settled:
    """The settlement of a trace of which invocations were stored while it was open. Those in which nothing changed stay as they are."""
    distinct = distinct_of(None, material)
    collector = collector_of(taken.trace.collector)
    found = read_all(distinct, taken.settled_by, collector, options, 0)
    revision = revisions.revise(stored.invocations, _as_they_ended(found.invocations, distinct, taken, options))
    revision, late = revisions.with_late(revision, stored.invocations)
    if options.late_spans is LateSpans.IGNORE:
        revision = new_only(revision)
    count = len(distinct.spans)
    settlement = replace(
        plain(taken, material, options, now),
        span_count=count,
        late_spans=late,
        changes=revision.changes,
        merged=revision.merged,
        spans=packed(b"", b"", material, distinct) if options.keep_spans else None,
    )
    return Settled(settlement, count, len(material.spans.spans) - count, late, ties=found.ties)


def _as_they_ended(
    found: Sequence[Assembled], distinct: Distinct, taken: Taken, options: SettlementOptions
) -> Sequence[Assembled]:
    """The invocations of a trace that did not end, those that did by themselves as `root_ended`."""
    if taken.settled_by not in (SettledBy.IDLE, SettledBy.MAX_AGE):
        return found
    collector = collector_of(taken.trace.collector)
    ended = read_all(distinct, SettledBy.ROOT_ENDED, collector, options, 0, is_open=True).invocations
    by_id = {one.invocation.id: one for one in ended}
    return [by_id.get(one.invocation.id, one) for one in found]


def new_only(revision: revisions.Revision) -> revisions.Revision:
    """What is new, without what late data changed (`late_spans: ignore`)."""
    return revisions.Revision(tuple(one for one in revision.changes if one.invocation.revision == 1), {})


def open_trace_settlement(
    trace_id: bytes, trace: OpenTrace, options: SettlementOptions, settled_at: float
) -> TraceSettlement:
    """A settlement of invocations of a trace that stays open: nothing of it counts as read, and its spans are in the journal."""
    taken = Taken(trace_id, trace, SettledBy.ROOT_ENDED)
    return plain(taken, decoded(b"", b"", NOT_READ), options, settled_at)


def _settle_late(
    taken: Taken, material: Material, stored: StoredTrace, before: Material, options: SettlementOptions, now: float
) -> Settled:
    distinct = distinct_of(before, material)
    known = len({span.span_id for span in before.spans.spans})
    late = distinct.late
    added, duplicates = len(distinct.spans) - known, len(material.spans.spans) - len(distinct.new_spans)
    if not late or is_ignored(taken, stored, options):
        unchanged = unchanged_trace(taken, material, stored, options, known, late)
        return Settled(unchanged, duplicates=duplicates, late=late)
    revised, ties = _revised(taken, stored, distinct, options, now)
    spans = packed(before.traces, before.logs, material, distinct) if options.keep_spans else None
    return Settled(replace(revised, consumed=material.consumed, spans=spans), added, duplicates, late, ties=ties)


def _revised(
    taken: Taken, stored: StoredTrace, distinct: Distinct, options: SettlementOptions, now: float
) -> tuple[TraceSettlement, Ties]:
    """The trace with its late data assembled anew. It keeps the time of its first settling unless there is an invocation that is new."""
    settled_by = settled_by_all(taken, stored, distinct.spans)
    collector = (
        stored.invocations[0].invocation.collector if stored.invocations else collector_of(taken.trace.collector)
    )
    late = stored.late_spans + distinct.late
    found = read_all(distinct, settled_by, collector, options, late)
    revision = revisions.revise(stored.invocations, found.invocations)
    known = {old.invocation.id for old in stored.invocations}
    is_new = any(change.invocation.id not in known for change in revision.changes)
    settlement = TraceSettlement(
        trace_id=taken.trace_id.hex(),
        collector=collector,
        settled_by=settled_by.value,
        settled_at=now if is_new else stored.settled_at,
        consumed=stored.consumed,
        span_count=len(distinct.spans),
        late_spans=late,
        changes=revision.changes,
        monitors=_waiting(taken, options),
        merged=revision.merged,
        kept_below=taken.trace.kept_below,
        conversation_monitors=_conversing(taken, options),
        late_turns=options.late_spans is LateSpans.REJUDGE,
    )
    return settlement, found.ties


def _without_spans(
    taken: Taken, material: Material, stored: StoredTrace, options: SettlementOptions, now: float
) -> Settled:
    """Late data that cannot be merged, because the spans before it are not stored or were erased.

    It brings only invocations that have nothing to do with those that are stored; for these it counts, and changes nothing.
    """
    distinct = distinct_of(None, material)
    members = frozenset[str]().union(*(old.span_ids for old in stored.invocations))
    fresh = {span.span_id for span in distinct.spans} - members
    unchanged = unchanged_trace(taken, material, stored, options, len(members), len(fresh))
    duplicates = len(material.spans.spans) - len(fresh)
    if not fresh or is_ignored(taken, stored, options):
        return Settled(unchanged, duplicates=duplicates, late=len(fresh))
    known = {old.invocation.id for old in stored.invocations}
    apart = [
        one
        for one in read_all(
            distinct, taken.settled_by, collector_of(taken.trace.collector), options, unchanged.late_spans
        ).invocations
        if one.invocation.id not in known and not members & {one.invocation.span_id, *one.span_ids}
    ]
    if not apart:
        if not stored.invocations:  # plain web traffic: nobody noted which of it has been here before
            return Settled(unchanged_trace(taken, material, stored, options, 0))
        return Settled(unchanged, duplicates=duplicates, late=len(fresh))
    settlement = replace(
        unchanged,
        settled_at=now,
        span_count=len(members | fresh),
        changes=revisions.first(apart).changes,
        spans=packed(b"", b"", material, distinct) if options.keep_spans else None,
    )
    return Settled(settlement, len(fresh), duplicates, len(fresh))


def is_ignored(taken: Taken, stored: StoredTrace, options: SettlementOptions) -> bool:
    """Whether late data leaves the stored invocations as they are. A trace that had none has nothing that could stand."""
    too_late = taken.trace.first_received - stored.settled_at > LATE_SECONDS
    return bool(stored.invocations) and (too_late or options.late_spans is LateSpans.IGNORE)


def _says_something(distinct: Distinct, found: Sequence[Assembled]) -> bool:
    """Whether a trace is worth keeping for late data: an agent's, or one of which some convention reads a span. Plain web traffic is not."""
    return bool(found or distinct.records or any(read(Record(span)) for span in distinct.spans))


def unchanged_trace(
    taken: Taken, material: Material, stored: StoredTrace, options: SettlementOptions, span_count: int, late: int = 0
) -> TraceSettlement:
    """Only notes how far the journal has been read, and how much came late."""
    return replace(
        plain(taken, material, options, stored.settled_at),
        settled_by=stored.settled_by,
        span_count=span_count,
        late_spans=stored.late_spans + late,
        spans=stored.spans,
    )


def plain(taken: Taken, material: Material, options: SettlementOptions, settled_at: float) -> TraceSettlement:
    """A settlement of which only origin, place in the journal and who waits for it are filled in."""
    return read_until(taken, material.consumed, options, settled_at)


def read_until(
    taken: Taken, consumed: JournalPosition, options: SettlementOptions, settled_at: float, span_count: int = 0,
    changes: tuple[InvocationChange, ...] = (), spans: bytes | None = None,
) -> TraceSettlement:  # fmt: skip
    """The same for a trace that was read up to a position."""
    return TraceSettlement(
        trace_id=taken.trace_id.hex(),
        collector=collector_of(taken.trace.collector),
        settled_by=taken.settled_by.value,
        settled_at=settled_at,
        consumed=consumed,
        span_count=span_count,
        late_spans=0,
        changes=changes,
        monitors=_waiting(taken, options),
        spans=spans,
        kept_below=taken.trace.kept_below,
        conversation_monitors=_conversing(taken, options),
        late_turns=options.late_spans is LateSpans.REJUDGE,
    )


def _waiting(taken: Taken, options: SettlementOptions) -> tuple[str, ...]:
    """Who is to consider new invocations: the monitors, but for what was read again the backfill that asked for it, and only that."""
    backfill = waiting_for(taken.trace.collector)
    return options.monitors if backfill is None else (backfill,)


def _conversing(taken: Taken, options: SettlementOptions) -> tuple[str, ...]:
    """Who is to consider the conversations that they belong to: nobody for what was read again."""
    return options.conversation_monitors if waiting_for(taken.trace.collector) is None else ()


def read_all(
    distinct: Distinct,
    settled_by: SettledBy,
    collector: str,
    options: SettlementOptions,
    late: int,
    *,
    is_open: bool = False,
) -> Reading:
    """The invocations of spans and log records as they are to be stored, and by what these hang together with others."""
    context = AssemblyContext(settled_by, collector, options.keep_attributes, late)
    found = reading(distinct.spans, distinct.records, context, is_open=is_open)
    if options.redact is None:
        return found
    redacted = tuple(replace(one, invocation=options.redact(one.invocation)) for one in found.invocations)
    return replace(found, invocations=redacted)


def distinct_of(before: Material | None, fresh: Material) -> Distinct:
    """Copies told by (trace id, span id), the richer one wins; of equal ones that which was there before."""
    old_spans = before.spans.spans if before else []
    old_records = before.records.logs if before else []
    spans = unique_spans([*old_spans, *fresh.spans.spans])
    records = unique_logs([*old_records, *fresh.records.logs])
    return Distinct(
        spans,
        records,
        _ordinals(spans, fresh.spans.spans, fresh.spans.ordinals),
        _ordinals(records, fresh.records.logs, fresh.records.ordinals),
    )


def _ordinals(kept: Iterable[object], fresh: Sequence[object], ordinals: Sequence[int]) -> list[int]:
    """The ordinals of those fresh items that were kept."""
    chosen = {id(one) for one in kept}
    return [ordinal for one, ordinal in zip(fresh, ordinals, strict=True) if id(one) in chosen]


def packed(traces: bytes, logs: bytes, fresh: Material, distinct: Distinct) -> bytes:
    """What is stored of the trace: what was there, and what is new."""
    added, records = fresh.traces, fresh.logs
    if len(distinct.new_spans) < len(fresh.spans.spans):
        added = select(added, Signal.TRACES, distinct.new_spans)
    if len(distinct.new_records) < len(fresh.records.logs):
        records = select(records, Signal.LOGS, distinct.new_records)
    return stored_spans.pack(traces + added, logs + records)


def settled_by_all(taken: Taken, stored: StoredTrace, spans: Sequence[Span]) -> SettledBy:
    """What settles a trace together with its late data: the strongest that holds of all of it."""
    if SettledBy.END_MARKER in (taken.settled_by, SettledBy(stored.settled_by)):
        return SettledBy.END_MARKER
    own = taken.trace_id.hex()  # beside its spans there may be those that set its agent up
    return SettledBy.ROOT_ENDED if complete_spans(one for one in spans if one.trace_id == own) else taken.settled_by
