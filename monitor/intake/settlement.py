"""One settled trace as the value that the store keeps. Pure but for the assembly it calls; time is an argument."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from collectors.otlp.request import select, split
from collectors.sink import Signal
from collectors.span import LogRecord, Span
from monitor.assembly import AssemblyContext, assemble
from monitor.assembly.assemble import read
from monitor.assembly.deduplicate import unique_logs, unique_spans
from monitor.assembly.record import Record
from monitor.intake import later, revisions, stored_spans
from monitor.intake.index import Taken
from monitor.intake.material import Material, decoded
from monitor.intake.options import SettlementOptions
from monitor.intake.settling import SpanHead, is_complete
from monitor.model.invocation import Assembled, SettledBy
from monitor.model.origin import collector_of, waiting_for
from monitor.model.run import StoredTrace, TraceSettlement
from monitor.settings.tree import LateSpans

LATE_SECONDS = 24 * 3600.0
"""Data that comes later than this after the settling changes nothing (contract section 3)."""


@dataclass(frozen=True, slots=True)
class Settled:
    """A settlement with what is counted of it: spans that are new, copies, late spans and log records, and those over the limit."""

    settlement: TraceSettlement
    spans: int = 0
    duplicates: int = 0
    late: int = 0
    over_limit: int = 0


@dataclass(frozen=True, slots=True)
class _Distinct:
    """Each span and log record once, and the ordinals of those that the fresh material brought."""

    spans: list[Span]
    records: list[LogRecord]
    new_spans: list[int]
    new_records: list[int]

    @property
    def late(self) -> int:
        return len(self.new_spans) + len(self.new_records)


def settle(
    taken: Taken, material: Material, stored: StoredTrace | None, options: SettlementOptions, now: float
) -> Settled:
    """The settlement of a trace, or of late data for one that is stored."""
    if stored is None:
        return _settle_first(taken, material, options, now)
    try:
        traces, logs = stored_spans.unpack(stored.spans or b"")
    except stored_spans.UnknownCodec:
        return _without_spans(taken, material, stored, options, now)
    known = len(split(traces, Signal.TRACES).items)
    if known + len(material.spans.spans) > options.max_spans:
        count = len(material.spans.spans) + len(material.records.logs)
        return Settled(_unchanged(taken, material, stored, options, known), over_limit=count)
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
        return _unchanged(taken, material, stored, options, 0)
    spans = stored_spans.pack(material.traces, material.logs) if options.keep_spans else None
    return replace(_plain(taken, material, options, now), span_count=len(material.spans.spans), spans=spans)


def _settle_first(taken: Taken, material: Material, options: SettlementOptions, now: float) -> Settled:
    distinct = _distinct(None, material)
    found = _assemble(distinct, taken.settled_by, collector_of(taken.trace.collector), options, 0)
    count = len(distinct.spans)
    settlement = replace(
        _plain(taken, material, options, now),
        span_count=count,
        changes=revisions.first(found).changes,
        spans=_packed(b"", b"", material, distinct)
        if options.keep_spans and _says_something(distinct, found)
        else None,
    )
    return Settled(settlement, count, len(material.spans.spans) - count)


def _settle_late(
    taken: Taken, material: Material, stored: StoredTrace, before: Material, options: SettlementOptions, now: float
) -> Settled:
    distinct = _distinct(before, material)
    known = len({span.span_id for span in before.spans.spans})
    late = distinct.late
    added, duplicates = len(distinct.spans) - known, len(material.spans.spans) - len(distinct.new_spans)
    if not late or _ignored(taken, stored, options):
        unchanged = _unchanged(taken, material, stored, options, known, late)
        return Settled(unchanged, duplicates=duplicates, late=late)
    revised = _revised(taken, stored, distinct, options, now)
    spans = _packed(before.traces, before.logs, material, distinct) if options.keep_spans else None
    return Settled(replace(revised, consumed=material.consumed, spans=spans), added, duplicates, late)


def _revised(
    taken: Taken, stored: StoredTrace, distinct: _Distinct, options: SettlementOptions, now: float
) -> TraceSettlement:
    """The trace with its late data assembled anew. It keeps the time of its first settling unless there is an invocation that is new."""
    settled_by = _settled_by(taken, stored, distinct.spans)
    collector = (
        stored.invocations[0].invocation.collector if stored.invocations else collector_of(taken.trace.collector)
    )
    late = stored.late_spans + distinct.late
    revision = revisions.revise(stored.invocations, _assemble(distinct, settled_by, collector, options, late))
    known = {old.invocation.id for old in stored.invocations}
    is_new = any(change.invocation.id not in known for change in revision.changes)
    return TraceSettlement(
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


def _without_spans(
    taken: Taken, material: Material, stored: StoredTrace, options: SettlementOptions, now: float
) -> Settled:
    """Late data that cannot be merged, because the spans before it are not stored or were erased.

    It brings only invocations that have nothing to do with those that are stored; for these it counts, and changes nothing.
    """
    distinct = _distinct(None, material)
    members = frozenset[str]().union(*(old.span_ids for old in stored.invocations))
    fresh = {span.span_id for span in distinct.spans} - members
    unchanged = _unchanged(taken, material, stored, options, len(members), len(fresh))
    duplicates = len(material.spans.spans) - len(fresh)
    if not fresh or _ignored(taken, stored, options):
        return Settled(unchanged, duplicates=duplicates, late=len(fresh))
    known = {old.invocation.id for old in stored.invocations}
    apart = [
        one
        for one in _assemble(
            distinct, taken.settled_by, collector_of(taken.trace.collector), options, unchanged.late_spans
        )
        if one.invocation.id not in known and not members & {one.invocation.span_id, *one.span_ids}
    ]
    if not apart:
        if not stored.invocations:  # plain web traffic: nobody noted which of it has been here before
            return Settled(_unchanged(taken, material, stored, options, 0))
        return Settled(unchanged, duplicates=duplicates, late=len(fresh))
    settlement = replace(
        unchanged,
        settled_at=now,
        span_count=len(members | fresh),
        changes=revisions.first(apart).changes,
        spans=_packed(b"", b"", material, distinct) if options.keep_spans else None,
    )
    return Settled(settlement, len(fresh), duplicates, len(fresh))


def _ignored(taken: Taken, stored: StoredTrace, options: SettlementOptions) -> bool:
    """Whether late data leaves the stored invocations as they are. A trace that had none has nothing that could stand."""
    too_late = taken.trace.first_received - stored.settled_at > LATE_SECONDS
    return bool(stored.invocations) and (too_late or options.late_spans is LateSpans.IGNORE)


def _says_something(distinct: _Distinct, found: Sequence[Assembled]) -> bool:
    """Whether a trace is worth keeping for late data: an agent's, or one of which some convention reads a span. Plain web traffic is not."""
    return bool(found or distinct.records or any(read(Record(span)) for span in distinct.spans))


def _unchanged(
    taken: Taken, material: Material, stored: StoredTrace, options: SettlementOptions, span_count: int, late: int = 0
) -> TraceSettlement:
    """Only notes how far the journal has been read, and how much came late."""
    return replace(
        _plain(taken, material, options, stored.settled_at),
        settled_by=stored.settled_by,
        span_count=span_count,
        late_spans=stored.late_spans + late,
        spans=stored.spans,
    )


def _plain(taken: Taken, material: Material, options: SettlementOptions, settled_at: float) -> TraceSettlement:
    return TraceSettlement(
        trace_id=taken.trace_id.hex(),
        collector=collector_of(taken.trace.collector),
        settled_by=taken.settled_by.value,
        settled_at=settled_at,
        consumed=material.consumed,
        span_count=0,
        late_spans=0,
        changes=(),
        monitors=_waiting(taken, options),
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


def _assemble(
    distinct: _Distinct, settled_by: SettledBy, collector: str, options: SettlementOptions, late: int
) -> Sequence[Assembled]:
    context = AssemblyContext(settled_by, collector, options.keep_attributes, late)
    found = assemble(distinct.spans, distinct.records, context)
    if options.redact is None:
        return found
    return [replace(one, invocation=options.redact(one.invocation)) for one in found]


def _distinct(before: Material | None, fresh: Material) -> _Distinct:
    """Copies told by (trace id, span id), the richer one wins; of equal ones that which was there before."""
    old_spans = before.spans.spans if before else []
    old_records = before.records.logs if before else []
    spans = unique_spans([*old_spans, *fresh.spans.spans])
    records = unique_logs([*old_records, *fresh.records.logs])
    return _Distinct(
        spans,
        records,
        _ordinals(spans, fresh.spans.spans, fresh.spans.ordinals),
        _ordinals(records, fresh.records.logs, fresh.records.ordinals),
    )


def _ordinals(kept: Iterable[object], fresh: Sequence[object], ordinals: Sequence[int]) -> list[int]:
    """The ordinals of those fresh items that were kept."""
    chosen = {id(one) for one in kept}
    return [ordinal for one, ordinal in zip(fresh, ordinals, strict=True) if id(one) in chosen]


def _packed(traces: bytes, logs: bytes, fresh: Material, distinct: _Distinct) -> bytes:
    """What is stored of the trace: what was there, and what is new."""
    added, records = fresh.traces, fresh.logs
    if len(distinct.new_spans) < len(fresh.spans.spans):
        added = select(added, Signal.TRACES, distinct.new_spans)
    if len(distinct.new_records) < len(fresh.records.logs):
        records = select(records, Signal.LOGS, distinct.new_records)
    return stored_spans.pack(traces + added, logs + records)


def _settled_by(taken: Taken, stored: StoredTrace, spans: Sequence[Span]) -> SettledBy:
    """What settles a trace together with its late data: the strongest that holds of all of it."""
    if SettledBy.END_MARKER in (taken.settled_by, SettledBy(stored.settled_by)):
        return SettledBy.END_MARKER
    heads = (
        SpanHead(bytes.fromhex(span.span_id), bytes.fromhex(span.parent_span_id or "0" * 16), span.ended)
        for span in spans
    )
    return SettledBy.ROOT_ENDED if is_complete(heads) else taken.settled_by
