"""Invocations that are stored while their trace is still open: a session of an hour with a run a minute, a batch, a connection.

The journal keeps the whole trace until it has settled, so nothing counts as read before (`NOT_READ`): after a crash all of it is looked at
again, and what is stored is found there. What has been stored is not read again while nothing comes for it.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from monitor.intake import revisions
from monitor.intake.faults import JournalUnwritable, place_of
from monitor.intake.index import Index
from monitor.intake.material import Material
from monitor.intake.opentrace import Inside, OpenTrace, Row
from monitor.intake.settlement import distinct_of, new_only, open_trace_settlement, read_all
from monitor.intake.turn_settling import Moment
from monitor.model.invocation import Assembled, SettledBy
from monitor.model.origin import collector_of
from monitor.model.run import NOT_READ, JournalPosition, StoredInvocation, StoredTrace, TraceSettlement
from monitor.settings.tree import LateSpans
from monitor.store.protocol import StoreUnwritable

logger = logging.getLogger(__name__)

_SECONDS_PER_ITEM = 0.001
"""A trace is looked into at most so often for each span that has to be read: a tenth of a core for one of any size."""

_PATIENCE = 4
"""A trace in which nothing could be stored is looked into again when so many times as much of it has come."""

_NO_PARENT = bytes(8)


class PartStore(Protocol):
    """The part of the Store protocol that open traces need."""

    def trace(self, trace_id: str) -> StoredTrace | None:
        """See Store."""
        ...

    def consumed_positions(self, trace_ids: Collection[str]) -> Mapping[str, JournalPosition]:
        """See Store."""
        ...


@dataclass(frozen=True, slots=True)
class Part:
    """What one look into an open trace found: a settlement of invocations in it, None for nothing new; and what to remember of the look."""

    trace_id: bytes
    settlement: TraceSettlement | None
    inside: Inside
    stored: frozenset[int]
    """Places of records that need not be read again."""
    late: int = 0
    """Spans that came after their invocation had been stored."""


class Parting:
    """Looks into open traces. Used by the settler's thread only; what was found is to be told to the index once it is stored."""

    def __init__(self, index: Index, store: PartStore, read: Callable[[OpenTrace], Material | None]) -> None:
        self._index = index
        self._store = store
        self._read = read

    def look(self, trace_ids: Iterable[bytes], moment: Moment) -> Iterator[Part]:
        """What can be stored of open traces, one after the other: all of it at once may be large. Raises StoreUnwritable."""
        for trace_id in trace_ids:
            trace = self._index.copy(trace_id)
            if trace is None:
                continue
            try:
                found = self._look(trace_id, trace, moment)
            except (StoreUnwritable, JournalUnwritable):
                raise
            except Exception as error:  # a fault of ours: the trace settles as a whole, and stops no other
                logger.error("open trace %s could not be looked into: %s", trace_id.hex(), place_of(error))
                found = Part(trace_id, None, replace(trace.inside or Inside(), wanted=2**62), frozenset())
            yield found

    def _look(self, trace_id: bytes, trace: OpenTrace, moment: Moment) -> Part:
        inside = trace.inside or Inside()
        quiet_until = moment.now - moment.rules.settle_after
        rows, stored = trace.rows()
        if any(row.parent in stored or row.span_id in stored for row in rows):  # late data of what is stored
            self._index.read_again(trace_id)
            trace.mark_stored(range(trace.item_count), stored=False)
            rows, stored = trace.rows()
        quiet = trace.item_count - sum(row.received > quiet_until for row in rows)
        settled = self._settled(trace_id, inside)
        if settled is None:  # what is open of it is late data
            return Part(trace_id, None, Inside(quiet, 2**62), frozenset())
        if not (settled or _may_hold_several(rows, quiet_until)):
            return Part(trace_id, None, Inside(quiet, quiet + 1, _again(moment, len(rows)), settled), frozenset())
        material = self._read(trace.only([row.place for row in rows]))
        found = self._ready(trace, material, rows, quiet_until, moment) if material is not None else []
        settlement, late = self._changes(trace_id, trace, settled, found, moment)
        known = dict(settled)
        for change in settlement.changes if settlement is not None else ():
            known[change.invocation.id] = change.digest
        done = _stored(rows, [one for one in found if one.invocation.id in known])
        enough = quiet + 1 if known else _PATIENCE * quiet
        return Part(trace_id, settlement, Inside(quiet, enough, _again(moment, len(rows)), known), done, late)

    def _settled(self, trace_id: bytes, inside: Inside) -> Mapping[str, str] | None:
        """The stored invocations of the trace with their digests; None when what is open of it is late data."""
        if inside.settled is not None:
            return inside.settled
        position = self._store.consumed_positions([trace_id.hex()]).get(trace_id.hex())
        if position is None:
            return {}
        stored = self._store.trace(trace_id.hex()) if position == NOT_READ else None
        return None if stored is None else {one.invocation.id: one.digest for one in stored.invocations}

    def _ready(
        self, trace: OpenTrace, material: Material, rows: Sequence[Row], quiet_until: float, moment: Moment
    ) -> list[Assembled]:
        """Invocations that are over, stand by themselves, and have been quiet."""
        restless = {row.span_id.hex() for row in rows if row.received > quiet_until}
        found = read_all(
            distinct_of(None, material), SettledBy.ROOT_ENDED, collector_of(trace.collector), moment.options, 0, is_open=True
        ).invocations  # fmt: skip
        return [one for one in found if not one.span_ids & restless]

    def _changes(
        self, trace_id: bytes, trace: OpenTrace, settled: Mapping[str, str], found: Sequence[Assembled], moment: Moment
    ) -> tuple[TraceSettlement | None, int]:
        """The settlement of what is new or has changed, None for nothing; and how many spans of that came late."""
        known = [one for one in found if one.invocation.id in settled]
        changed = [one for one in known if revisions.digest(one.invocation) != settled[one.invocation.id]]
        roots = {name.rpartition("-")[2] for name in settled}
        absorbing = [one for one in found if (one.span_ids - {one.invocation.span_id}) & roots]
        fresh = [one for one in found if one.invocation.id not in settled]
        if not (changed or fresh):
            return None, 0
        revision, late = revisions.first(fresh), 0
        if changed or absorbing:
            stored = self._store.trace(trace_id.hex())
            before = _touched(stored, found)
            revision, late = revisions.with_late(revisions.revise(before, found), before)
            if moment.options.late_spans is LateSpans.IGNORE:
                revision = new_only(revision)
        if not (revision.changes or revision.merged):
            return None, late
        told = open_trace_settlement(trace_id, trace, moment.options, moment.wall)
        return replace(told, changes=revision.changes, merged=revision.merged), late


def _touched(stored: StoredTrace | None, found: Sequence[Assembled]) -> list[StoredInvocation]:
    """The stored invocations that have to do with those that were found."""
    ids = {one.invocation.id for one in found}
    spans = frozenset[str]().union(*(one.span_ids for one in found))
    return [old for old in stored.invocations if old.invocation.id in ids or old.span_ids & spans] if stored else []


def _again(moment: Moment, items: int) -> float:
    """From when on a trace may be looked into again, where so many of its items were looked at."""
    return moment.now + max(1.0, _SECONDS_PER_ITEM * items)


def _may_hold_several(rows: Sequence[Row], quiet_until: float) -> bool:
    """Whether a root of its own has ended, or two spans have below the same one that is open or was never seen. By the ids alone."""
    ended = {row.span_id for row in rows if row.ended}
    below: Counter[bytes] = Counter()
    for row in {row.span_id: row for row in rows if row.ended and row.received <= quiet_until}.values():
        if row.parent == _NO_PARENT:
            return True
        if row.parent not in ended:
            below[row.parent] += 1
    return any(count > 1 for count in below.values())


def _stored(rows: Sequence[Row], settled: Sequence[Assembled]) -> frozenset[int]:
    """Places of records that need not be read again: those of all but the newest invocation below each root, beside which the next one is
    to be seen.
    """
    parents = {row.span_id: row.parent for row in rows if not row.log}
    newest: dict[bytes, Assembled] = {}
    done: set[str] = set()
    for one in sorted(settled, key=lambda one: (one.invocation.started_at, one.invocation.id)):
        top = _top(bytes.fromhex(one.invocation.span_id), parents)
        if top in newest:
            done |= newest[top].span_ids
        newest[top] = one
    spans = {bytes.fromhex(span_id) for span_id in done}
    return frozenset(row.place for row in rows if row.span_id in spans)


def _top(span_id: bytes, parents: Mapping[bytes, bytes]) -> bytes:
    seen = {span_id}
    while (parent := parents.get(span_id, _NO_PARENT)) != _NO_PARENT and parent not in seen:
        span_id = parent
        seen.add(parent)
    return span_id
