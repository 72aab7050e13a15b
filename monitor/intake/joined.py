"""Turns over several traces as the values that the store keeps: all traces of a turn in one transaction. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from monitor.intake import later, revisions, stored_spans
from monitor.intake.index import Taken
from monitor.intake.loose import Loose, stored_keys
from monitor.intake.loose import packed as packed_loose
from monitor.intake.material import Material, decoded
from monitor.intake.options import SettlementOptions
from monitor.intake.settlement import (
    Distinct,
    Settled,
    distinct_of,
    is_ignored,
    packed,
    plain,
    read_all,
)
from monitor.intake.settling import complete_spans
from monitor.intake.turns import Affected
from monitor.model.invocation import Assembled, SettledBy
from monitor.model.origin import collector_of
from monitor.model.run import (
    NOT_READ,
    InvocationChange,
    JournalPosition,
    StoredInvocation,
    StoredTrace,
    TraceSettlement,
    TurnTie,
)
from monitor.settings.tree import LateSpans


@dataclass(frozen=True, slots=True)
class Member:
    """A trace of a turn: what came of it and is not stored yet, and what is stored; at least one of the two."""

    loose: Loose
    taken: Taken | None = None
    material: Material | None = None
    stored: StoredTrace | None = None

    @property
    def is_stored(self) -> bool:
        """Whether something of it is settled for good: not so while invocations were stored out of a trace that was open."""
        return self.stored is not None and self.stored.consumed != NOT_READ


@dataclass(frozen=True, slots=True)
class _Whole:
    """A member with all its spans; `before` are those that are stored."""

    member: Member
    before: Material | None
    distinct: Distinct


_Turn = Sequence[_Whole]


def settle_turns(affected: Affected, members: Mapping[str, Member], options: SettlementOptions, now: float) -> Settled:
    """The settlement of turns that have changed, against what is stored of them.

    A trace whose raw spans are not stored (any more) cannot be put together with others: what goes on from it stays by itself.
    """
    turns = [[members[one.trace_id] for one in turn] for turn in affected.turns]
    if _stands(members.values(), options):
        return _unchanged(turns, options, now)
    whole = [[_whole(one) for one in turn] for turn in turns]
    if any(one is None for turn in whole for one in turn):
        whole = [[one] for turn in whole for one in turn if one is not None and not one.member.is_stored]
    return _settled([[one for one in turn if one is not None] for turn in whole], options, now)


def _whole(member: Member) -> _Whole | None:
    """None where something is stored, but not its spans."""
    nothing = decoded(b"", b"", JournalPosition(0, 0))
    if member.stored is None or not member.is_stored:
        return _Whole(member, None, distinct_of(None, member.material or nothing))
    try:
        traces, logs = stored_spans.unpack(member.stored.spans or b"")
    except stored_spans.UnknownCodec:
        return None
    before = decoded(traces, logs, member.stored.consumed)
    return _Whole(member, before, distinct_of(before, member.material or nothing))


def _stands(members: Iterable[Member], options: SettlementOptions) -> bool:
    """Whether what is stored stays as it is, whatever came (`late_spans: ignore`, or too late)."""
    together = list(members)
    fresh = [one.taken for one in together if one.taken is not None]
    stored = [one.stored for one in together if one.stored is not None and one.is_stored]
    return any(is_ignored(taken, known, options) for taken in fresh for known in stored)


def _settled(turns: Sequence[_Turn], options: SettlementOptions, now: float) -> Settled:
    stored = _stored(one for turn in turns for one in turn)
    found: list[Assembled] = []
    settlements: list[TraceSettlement] = []
    for turn in turns:
        by, late = _how(turn), _late(turn)
        found += _assembled(turn, by, late, options)
        settlements += [_settlement(one, turn, by, options, now) for one in turn]
    revision = revisions.revise(stored, found)
    known = {old.invocation.id for old in stored}
    changed = [_with_changes(one, revision.changes, known, now) for one in settlements]
    changed[-1] = replace(changed[-1], merged=revision.merged)
    return _counted(turns, changed)


def _stored(wholes: Iterable[_Whole]) -> list[StoredInvocation]:
    """The stored invocations of all members, each once, and whole: those of which only a head was read are of one trace."""
    found: dict[str, StoredInvocation] = {}
    for one in wholes:
        if one.member.stored is None:
            continue
        for invocation in one.member.stored.invocations:
            if invocation.assembled:
                found.setdefault(invocation.invocation.id, invocation)
            elif one.before is not None and invocation.invocation.trace_id == one.member.loose.trace_id:
                whole = later.whole(invocation, one.before.spans.spans, one.before.records.logs)
                found[invocation.invocation.id] = whole
    return list(found.values())


def _how(turn: _Turn) -> SettledBy:
    """What settled the turn: the strongest that holds of all its traces."""
    come = [one.member.taken.settled_by for one in turn if one.member.taken is not None]
    before = [SettledBy(one.member.stored.settled_by) for one in turn if one.member.stored is not None]
    if SettledBy.END_MARKER in (*come, *before):
        return SettledBy.END_MARKER
    if SettledBy.MAX_AGE in come:
        return SettledBy.MAX_AGE
    own = {one.member.loose.trace_id for one in turn}
    if complete_spans(span for one in turn for span in one.distinct.spans if span.trace_id in own):
        return SettledBy.ROOT_ENDED
    return SettledBy.IDLE


def _late(turn: _Turn) -> int:
    """Items of the turn that came after something of it was stored."""
    if not any(one.member.is_stored for one in turn):
        return 0
    return sum(map(_late_of, turn))


def _late_of(one: _Whole) -> int:
    return one.distinct.late + (one.member.stored.late_spans if one.member.stored is not None else 0)


def _assembled(turn: _Turn, by: SettledBy, late: int, options: SettlementOptions) -> Sequence[Assembled]:
    spans = [span for one in turn for span in one.distinct.spans]
    records = [record for one in turn for record in one.distinct.records]
    return read_all(Distinct(spans, records, [], []), by, _collector(turn), options, late).invocations


def _collector(turn: _Turn) -> str:
    for one in turn:
        if one.member.stored is not None and one.member.stored.invocations:
            return one.member.stored.invocations[0].invocation.collector
    return next(collector_of(one.member.taken.trace.collector) for one in turn if one.member.taken is not None)


def _settlement(one: _Whole, turn: _Turn, by: SettledBy, options: SettlementOptions, now: float) -> TraceSettlement:
    """What is stored of a member, without the invocations."""
    member = one.member
    tie = _tie(member, [other.member for other in turn])
    if member.taken is None or member.material is None:
        return replace(_as_stored(member, options), tie=tie)
    stored = member.stored
    before = (one.before.traces, one.before.logs) if one.before is not None else (b"", b"")
    return replace(
        plain(
            member.taken,
            member.material,
            options,
            stored.settled_at if stored is not None and member.is_stored else now,
        ),
        settled_by=by.value,
        span_count=len(one.distinct.spans),
        late_spans=_late_of(one) if _late(turn) else 0,
        spans=packed(*before, member.material, one.distinct) if options.keep_spans else None,
        tie=tie,
    )


def _tie(member: Member, turn: Sequence[Member]) -> TurnTie:
    first = min(turn, key=lambda one: one.loose.key)
    name = first.loose.trace_id if len(turn) > 1 else None
    return TurnTie(name, stored_keys(member.loose), packed_loose(member.loose))


def _as_stored(member: Member, options: SettlementOptions) -> TraceSettlement:
    """A member of which nothing came: the store leaves its row alone, because the journal has been read no further."""
    stored = member.stored
    if stored is None:
        raise ValueError("a member of a turn that neither came nor is stored")
    return TraceSettlement(
        trace_id=stored.trace_id,
        collector="",
        settled_by=stored.settled_by,
        settled_at=stored.settled_at,
        consumed=stored.consumed,
        span_count=0,
        late_spans=stored.late_spans,
        changes=(),
        monitors=options.monitors,
        spans=stored.spans,
        conversation_monitors=options.conversation_monitors,
        late_turns=options.late_spans is LateSpans.REJUDGE,
    )


def _with_changes(
    settlement: TraceSettlement, changes: Iterable[InvocationChange], known: set[str], now: float
) -> TraceSettlement:
    """The settlement with the invocations that begin in its trace. New ones settle now."""
    own = tuple(change for change in changes if change.invocation.trace_id == settlement.trace_id)
    is_new = any(change.invocation.id not in known for change in own)
    return replace(settlement, changes=own, settled_at=now if is_new else settlement.settled_at)


def _counted(turns: Sequence[_Turn], settlements: Sequence[TraceSettlement]) -> Settled:
    added = duplicates = late = 0
    for turn in turns:
        is_late = any(one.member.is_stored for one in turn)
        for one in turn:
            if one.member.material is not None:
                before = len({span.span_id for span in one.before.spans.spans}) if one.before is not None else 0
                added += len(one.distinct.spans) - before
                duplicates += len(one.member.material.spans.spans) - len(one.distinct.new_spans)
                late += one.distinct.late if is_late else 0
    first, *others = settlements
    return Settled(first, added, duplicates, late, others=tuple(others))


def _unchanged(turns: Sequence[Sequence[Member]], options: SettlementOptions, now: float) -> Settled:
    """What came is noted as read and counted, and belongs to the turn; what is stored of the turn stays as it is."""
    settlements: list[TraceSettlement] = []
    late = 0
    for turn in turns:
        at = min((one.stored.settled_at for one in turn if one.stored is not None), default=now)
        for one in turn:
            if one.taken is None or one.material is None:
                settlements.append(replace(_as_stored(one, options), tie=_tie(one, turn)))
                continue
            count = len(one.material.spans.spans) + len(one.material.records.logs)
            late += count
            told = plain(one.taken, one.material, options, at)
            if one.stored is not None:
                told = replace(told, settled_by=one.stored.settled_by, spans=one.stored.spans)
            before = one.stored.late_spans if one.stored is not None else 0
            settlements.append(replace(told, late_spans=before + count, tie=_tie(one, turn)))
    first, *others = settlements
    return Settled(first, late=late, others=tuple(others))
