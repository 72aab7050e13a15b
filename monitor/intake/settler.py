"""Takes settled traces from the index to the store.

Every step may be cut off by a crash: the index comes back from the journal, and what the store has consumed is skipped.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from monitor.intake.completing import Completing, Settle
from monitor.intake.due import Due, TieStore
from monitor.intake.faults import JournalUnwritable, place_of
from monitor.intake.housekeeping import Housekeeping
from monitor.intake.index import Index, Taken
from monitor.intake.journal import Journal
from monitor.intake.material import FrameCache, Material, load
from monitor.intake.opentrace import OpenTrace
from monitor.intake.options import SettlementOptions
from monitor.intake.parting import Part, Parting, PartStore
from monitor.intake.privacy import dropped_by
from monitor.intake.reading_on import ReadingOn
from monitor.intake.settlement import Settled, settle, unassembled
from monitor.intake.settling import SettlingRules
from monitor.intake.sketching import Head, sketched
from monitor.intake.turn_settling import Moment, Outcome, Ready, TurnSettling
from monitor.model.run import NOT_READ, JournalPosition, StoredTrace, TraceSettlement
from monitor.store.protocol import StoreUnwritable
from monitor.telemetry import DropReason, Telemetry

logger = logging.getLogger(__name__)

TRACES_AT_ONCE = 256
BYTES_AT_ONCE = 32 * 1024**2
LOOKUPS_AT_ONCE = 500
RETRY_SECONDS = 1.0
UNSTORABLE_SECONDS = 60.0


class TraceStore(PartStore, TieStore, Protocol):
    """The part of the Store protocol that settling needs."""

    def save_traces(self, settlements: Sequence[TraceSettlement]) -> None:
        """See Store."""
        ...


@dataclass(frozen=True, slots=True)
class SettledBatch:
    """What one step did. `invocations` are new ones, `revised` those that late data changed. `more`: step again at once.

    `fault` says why the store could not be read or written; the traces concerned are open again and tried later.
    """

    traces: int = 0
    spans: int = 0
    invocations: int = 0
    revised: int = 0
    late: int = 0
    duplicates: int = 0
    more: bool = False
    fault: str | None = None

    def plus(self, ready: Sequence[Ready]) -> SettledBatch:
        """With other stored settlements."""
        all_settled = [one.settled for one in ready]
        changes = [change for one in all_settled for told in one.settlements for change in told.changes]
        revisions = [change.invocation.revision for change in changes]
        new = revisions.count(1)
        return replace(
            self,
            traces=self.traces + sum(len(one.taken) for one in ready),
            spans=self.spans + sum(settled.spans for settled in all_settled),
            invocations=self.invocations + new,
            revised=self.revised + len(revisions) - new,
            late=self.late + sum(settled.late for settled in all_settled),
            duplicates=self.duplicates + sum(settled.duplicates for settled in all_settled),
        )


class Settler:
    """Settles traces, one step at a time, always from one thread. `listen`, `pause` and `configure` may be called between steps."""

    def __init__(
        self,
        journal: Journal,
        index: Index,
        store: TraceStore,
        telemetry: Telemetry,
        options: SettlementOptions,
    ) -> None:
        self._journal = journal
        self._index = index
        self._store = store
        self._telemetry = telemetry
        self._options = options
        self._dropped = dropped_by(options.drop_attributes)
        self._frames = FrameCache(journal)
        self._housekeeping = Housekeeping(journal, index, telemetry)
        self.reading = ReadingOn(journal, index, telemetry, store.consumed_positions)
        self._turns = TurnSettling(index, store, self._read_again, self._read_open)
        self._completing = Completing(store)
        self._parting = Parting(index, store, self._read_open)
        self._listening_since: float | None = None
        self._fault: str | None = None

    def listen(self, now: float) -> None:
        """The collectors are open: silence counts from now on."""
        self._listening_since = now

    def pause(self) -> None:
        """The collectors are closed: nothing settles."""
        self._listening_since = None

    def configure(self, rules: SettlingRules, options: SettlementOptions, now: float) -> None:
        """Another configuration is in force, for open traces as well."""
        self._options = options
        self._dropped = dropped_by(options.drop_attributes)
        self._index.configure(rules, now)

    def step(self, now: float, wall: float | None = None) -> SettledBatch:
        """Settle what is due, store it, and trim the journal. Never raises for what data or store do.

        `now` is seconds since 1970-01-01Z by the clock that arrivals are noted by; `wall`, where that is another, is noted as `settled_at`.
        """
        batch = SettledBatch()
        if self._listening_since is not None:
            at, since = self._index.moment(now, self._listening_since)  # `at` stands still while there is more to read
            due = self._index.take_due(at, since, TRACES_AT_ONCE)
            moment = Moment(at, now if wall is None else wall, since, self._index.rules, self._options)
            work = _Work(list(due.taken), [], SettledBatch(), due.more)
            try:
                self._guarded(lambda: self._look_up(work, due.unknown, at))
                self._guarded(lambda: self._settle(work, moment))
                self._guarded(lambda: self._look_into(work, due.open, moment))
            finally:
                self._index.give_back(work.left, at + (RETRY_SECONDS if at == now else 0.0))
                self._index.give_back(work.unstorable, at + UNSTORABLE_SECONDS)
            work.more |= self.reading.step(now, idle=not (due.taken or due.more))
            if not due.taken and not due.open:
                self._frames.clear()
            batch = replace(work.done, fault=self._fault, more=work.more and self._fault is None)
        self._housekeeping.step(now, self._options.journal_max_age, trim=batch.traces > 0)
        return batch

    def _guarded(self, action: Callable[[], bool]) -> None:
        """Use the store, if there is work for it. One that cannot be used is a fault until it can be used again."""
        try:
            if action():
                self._fault = None
        except Exception as error:
            said = isinstance(error, (StoreUnwritable, JournalUnwritable))
            self._failed(str(error) if said else f"the store failed: {type(error).__name__}")

    def _failed(self, reason: str) -> None:
        if reason != self._fault:
            logger.error("settled traces cannot be stored and stay in the journal: %s", reason)
        self._fault = reason

    def _look_up(self, work: _Work, unknown: Sequence[bytes], now: float) -> bool:
        """Ask the store about incomplete traces: those that it knows are late data and need not wait for their root."""
        for start in range(0, len(unknown), LOOKUPS_AT_ONCE):
            some = unknown[start : start + LOOKUPS_AT_ONCE]
            known = self._store.consumed_positions([trace_id.hex() for trace_id in some])
            settled = {bytes.fromhex(trace_id) for trace_id, position in known.items() if position != NOT_READ}
            self._index.mark(some, settled, now)
            work.more = work.more or bool(settled)
        return bool(unknown)

    def _look_into(self, work: _Work, trace_ids: Sequence[bytes], moment: Moment) -> bool:
        """Store the invocations of open traces that are over; True when there were any to be looked at."""
        for part in self._parting.look(trace_ids, moment):
            if part.settlement is not None:
                if not self._saved(part):
                    continue
                work.done = work.done.plus([Ready((), Settled(part.settlement, late=part.late))])
                self._telemetry.late_spans.inc(part.late)
            self._index.looked_into(part.trace_id, part.inside, part.stored)
        return bool(trace_ids)

    def _saved(self, part: Part) -> bool:
        """Store what was found in an open trace. Where the store cannot take it, the trace settles as a whole, and the others wait for none of it."""
        try:
            self._store.save_traces([part.settlement] if part.settlement is not None else [])
        except StoreUnwritable:
            raise
        except Exception as error:
            logger.error("runs of open trace %s cannot be stored: %s", part.trace_id.hex(), place_of(error))
            self._index.looked_into(part.trace_id, replace(part.inside, wanted=2**62), frozenset())
            return False
        return True

    def _read_open(self, trace: OpenTrace) -> Material | None:
        return load(trace, self._frames, self._dropped, None)

    def _settle(self, work: _Work, moment: Moment) -> bool:
        """Settle what was taken; True when all of it could be stored."""
        if not work.left:
            return False
        now = moment.wall
        consumed = self._store.consumed_positions([taken.trace_id.hex() for taken in work.left])
        self._turns.begin(work.left)
        heads, ready, loose, held = list[Head](), list[Due](), list[Due](), 0
        for taken in sorted(work.left, key=lambda taken: taken.trace.first_place):  # neighbours share frames
            after = consumed.get(taken.trace_id.hex())
            is_new = after is None and not self._turns.awaits(taken.trace_id.hex())
            head = self._head(taken, work, now) if is_new else None
            due = self._due(taken, after, now) if head is None else None
            if head is not None:
                heads.append(head)
                held += head.size
            elif due is not None:
                (loose if self._turns.is_loose(due) else ready).append(due)
                held += len(due.material.traces) + len(due.material.logs)
            else:
                self._finish(work, [taken])
            if held >= BYTES_AT_ONCE:
                standing = self._standing(work, heads, ready, now)
                self._save(work, [*standing, *self._completed(work, ready, now)])
                heads, ready, held = [], [], 0
        self._loosen(heads, ready, loose, now)
        standing = self._standing(work, heads, ready, now)
        self._save(work, [*standing, *self._completed(work, ready, now), *self._settle_turns(work, loose, moment)])
        for due in work.setups:
            self._save(work, self._completing.revised(due, self._settling_at(now)))
        return not work.unstorable

    def _head(self, taken: Taken, work: _Work, now: float) -> Head | None:
        """A trace of which the head of its invocation is enough, where that is certain; anything odd is for the whole assembly to tell."""
        try:
            return sketched(taken, self._frames, self._dropped, self._options, now, behind=work.more)
        except Exception as error:
            logger.error("trace %s could not be sketched: %s", taken.trace_id.hex(), place_of(error))
            return None

    def _loosen(self, heads: list[Head], ready: list[Due], loose: list[Due], now: float) -> None:
        """What others that settle now are linked to is loose as well."""
        if sum(map(self._turns.note, loose)):
            awaited = [head for head in heads if self._turns.awaits(head.taken.trace_id.hex())]
            found = [due for due in ready if self._turns.is_loose(due)]
            heads[:] = [head for head in heads if not any(head is one for one in awaited)]
            ready[:] = [due for due in ready if not any(due is one for one in found)]
            loose += [*found, *(due for head in awaited if (due := self._due(head.taken, None, now)) is not None)]

    def _standing(self, work: _Work, heads: Sequence[Head], ready: list[Due], now: float) -> list[Ready]:
        """The heads that are stored as such; where an agent was set up elsewhere its run is assembled after all, and joins those that are."""
        for due in ready if heads else ():
            self._completing.note(due)
        standing = []
        for head in heads:
            if self._completing.stands(head.taken, head.settled):
                standing.append(Ready((head.taken,), head.settled))
                continue
            found = self._due(head.taken, None, now)
            if found is None:
                self._finish(work, [head.taken])
            else:
                ready.append(found)
        return standing

    def _completed(self, work: _Work, ready: Sequence[Due], now: float) -> list[Ready]:
        """Traces that are settled by themselves, with what their agents were set up with elsewhere."""
        for due in ready:
            self._count_read(due)
            if self._completing.note(due):
                work.setups.append(due)
        return [Ready((due.taken,), self._completing.completed(due, self._settling_at(now))) for due in ready]

    def _settling_at(self, now: float) -> Settle:
        return lambda taken, material, stored: self._settlement(taken, material, stored, now)

    def _count_read(self, due: Due) -> None:
        if due.material.lost:
            self._telemetry.spans_dropped.labels(DropReason.UNREADABLE).inc(due.material.lost)
        if due.material.repaired:
            self._telemetry.values_repaired.inc(due.material.repaired)

    def _due(self, taken: Taken, after: JournalPosition | None, now: float) -> Due | None:
        found = self._read_back(taken, after)
        return found and Due(taken, *found, self._settlement(taken, *found, now))

    def _read_again(self, taken: Taken, now: float) -> Due | None:
        """Read back a trace that waited for its turn: nothing of it is stored."""
        due = self._due(taken, None, now)
        if due is None:
            return None
        self._count_read(due)
        return self._completing.beside(due)

    def _settle_turns(self, work: _Work, loose: Sequence[Due], moment: Moment) -> list[Ready]:
        if not loose:
            return []
        pulled: list[Taken] = []

        def note(taken: Taken) -> None:
            pulled.append(taken)
            work.left.append(taken)  # given back, should the store fail

        try:
            work.setups += filter(self._completing.note, loose)
            outcome = self._turns.settle(list(map(self._completing.beside, loose)), moment, note)
        except (StoreUnwritable, JournalUnwritable):
            raise
        except Exception as error:  # a fault of ours: each by itself, then, or nothing would settle any more
            logger.error("which traces make one turn cannot be told: %s", place_of(error))
            self._turns.begin(due.taken for due in loose)
            outcome = Outcome(tuple([Ready((due.taken,), due.alone) for due in loose]), ())
            pulled = []  # they are given back
        waits = {taken.trace_id for taken, _ in outcome.held}
        for due in loose:
            if due.taken.trace_id not in waits:
                self._count_read(due)
        for taken, until in outcome.held:
            work.left.remove(taken)
            self._index.hold(taken, until)
        readable = {taken.trace_id for one in outcome.ready for taken in one.taken}
        self._finish(work, [taken for taken in pulled if taken.trace_id not in readable])
        return list(outcome.ready)

    def _read_back(self, taken: Taken, after: JournalPosition | None) -> tuple[Material, StoredTrace | None] | None:
        """What came of the trace and what is stored of it; None when there is nothing new, or when one of them cannot be read.

        What cannot be read now never can: it is counted and given up, so that the traces behind it settle.
        """
        try:
            material = load(taken.trace, self._frames, self._dropped, after)
            if material is None:
                return None
            return material, None if after is None else self._store.trace(taken.trace_id.hex())
        except (StoreUnwritable, JournalUnwritable):
            raise
        except Exception as error:
            logger.error("trace %s could not be read back: %s", taken.trace_id.hex(), place_of(error))
            self._telemetry.spans_dropped.labels(DropReason.UNREADABLE).inc(taken.trace.item_count)
            return None

    def _settlement(self, taken: Taken, material: Material, stored: StoredTrace | None, now: float) -> Settled:
        try:
            return settle(taken, material, stored, self._options, now)
        except Exception as error:  # a fault of ours: one trace must not stop all others
            logger.error("trace %s could not be assembled: %s", taken.trace_id.hex(), place_of(error))
            self._telemetry.spans_dropped.labels(DropReason.UNREADABLE).inc(taken.trace.item_count)
            return Settled(unassembled(taken, material, stored, self._options, now))

    def _save(self, work: _Work, ready: Sequence[Ready]) -> None:
        if not ready:
            return
        try:
            self._store.save_traces([told for one in ready for told in one.settled.settlements])
        except StoreUnwritable:
            raise
        except Exception as error:
            self._save_singly(work, ready, error)
            return
        self._count([one.settled for one in ready])
        work.done = work.done.plus(ready)
        self._finish(work, [taken for one in ready for taken in one.taken])

    def _save_singly(self, work: _Work, ready: Sequence[Ready], error: Exception) -> None:
        """One settlement that cannot be stored must not keep the others: it stays in the journal and is tried again much later."""
        if len(ready) > 1:
            for one in ready:
                self._save(work, [one])
            return
        for taken in ready[0].taken:
            self._failed(f"trace {taken.trace_id.hex()}: {place_of(error)}")
            work.left.remove(taken)
            work.unstorable.append(taken)

    def _finish(self, work: _Work, taken: Iterable[Taken]) -> None:
        finished = list(taken)
        self._index.finish(finished)
        gone = {one.trace_id for one in finished}
        work.left = [one for one in work.left if one.trace_id not in gone]

    def _count(self, stored: Sequence[Settled]) -> None:
        telemetry = self._telemetry
        telemetry.spans_settled.inc(sum(one.spans for one in stored))
        telemetry.duplicate_spans.inc(sum(one.duplicates for one in stored))
        telemetry.late_spans.inc(sum(one.late for one in stored))
        over_limit = sum(one.over_limit for one in stored)
        if over_limit:
            telemetry.spans_dropped.labels(DropReason.OVER_LIMIT).inc(over_limit)


@dataclass(slots=True)
class _Work:
    """A step under way: traces that are neither stored nor given back, those that could not be stored, what is done, what sets agents up."""

    left: list[Taken]
    unstorable: list[Taken]
    done: SettledBatch
    more: bool
    setups: list[Due] = field(default_factory=list)
