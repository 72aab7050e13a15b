"""Settles turns over several traces: finds what belongs together among what is due, what waits and what is stored (see turns.py)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from collectors.immutable import immutable
from monitor.intake.due import Due, TieStore
from monitor.intake.faults import place_of
from monitor.intake.held import Held
from monitor.intake.index import Index, Taken
from monitor.intake.joined import Member, settle_turns
from monitor.intake.links import Links, Peek
from monitor.intake.loose import Loose, unpacked
from monitor.intake.options import SettlementOptions
from monitor.intake.settlement import NO_TIES, Settled
from monitor.intake.settling import SettlingRules
from monitor.intake.turns import Affected, Window, affected, neighbourhood
from monitor.model.invocation import SettledBy
from monitor.model.run import TiedTrace

logger = logging.getLogger(__name__)

_NEWEST = 256
"""Traces that are looked at of each key: more than that at a time, and nobody can tell which belong together."""

_GATHERING = 5.0
"""Seconds that a loose trace waits for others that came with the same or the next batch of its sender; less where `settle_after` is short."""


@immutable(frozen=True, slots=True)
class Ready:
    """What can be stored, and which taken traces it is of."""

    taken: tuple[Taken, ...]
    settled: Settled


@dataclass(frozen=True, slots=True)
class Moment:
    """When, and by which rules. Times are seconds since 1970-01-01Z; `now` by the clock that arrivals are noted by, `wall` is noted as `settled_at`."""

    now: float
    wall: float
    listening_since: float
    rules: SettlingRules
    options: SettlementOptions


ReadAgain = Callable[[Taken, float], Due | None]
"""Reads back a trace that waited and is wanted now (seconds since 1970-01-01Z); None when it cannot be read."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What can be stored, and what is to be held until when, seconds since 1970-01-01Z."""

    ready: tuple[Ready, ...]
    held: tuple[tuple[Taken, float], ...]


class TurnSettling:
    """Turns over several traces. Used by the settler's thread only."""

    def __init__(self, index: Index, store: TieStore, read_again: ReadAgain, peek: Peek) -> None:
        self._index = index
        self._store = store
        self._read_again = read_again
        self._held = Held()
        self._links = Links(index, store, self._held, peek)

    def begin(self, taken: Iterable[Taken]) -> None:
        """Traces are being settled: they wait no more. Raises StoreUnwritable."""
        self._links.remember()
        for one in taken:
            self._held.drop(one.trace_id.hex())

    def note(self, due: Due) -> bool:
        """Whether a loose trace is linked to another, which belongs to it then and is loose as well."""
        self._links.note(due.alone.ties.linked)
        return due.alone.ties.linked is not None

    def awaits(self, trace_id: str) -> bool:
        """Whether a trace may be linked to that one."""
        return self._links.awaited(trace_id)

    def is_loose(self, due: Due) -> bool:
        """Whether other traces may make one turn with it: those without an agent's span, those that are linked, or what comes late for one."""
        ties = due.alone.ties
        if ties.pieces or ties.linked is not None:
            return True
        if ties is NO_TIES:  # nothing was read anew: it is ignored, or cannot be merged
            return False
        is_late = due.stored is not None and due.alone.late > 0
        return self.awaits(due.taken.trace_id.hex()) or (is_late and self._is_part(due.taken.trace_id.hex()))

    def _is_part(self, trace_id: str) -> bool:
        return any(one.pieces for one in self._store.tied_traces([trace_id], [], [], 0))

    def settle(self, due: Sequence[Due], moment: Moment, pulled: Callable[[Taken], None]) -> Outcome:
        """What can be stored of loose traces that are due, and which of them wait for what may belong to them.

        `pulled` is told of each trace that is taken out of the index besides.
        """
        by_id = {one.taken.trace_id.hex(): one for one in due}
        stored = [trace_id for trace_id, one in by_id.items() if one.stored is not None]
        known = self._stored(self._store.tied_traces(stored, [], [], 0)) if stored else []
        before = {one.trace_id: one for one in known}
        fresh = [_loose(one, before.get(trace_id)) for trace_id, one in by_id.items()]
        around = neighbourhood(fresh, self._look_up, known, self._links.awaited)
        linked = self._links.pairs(by_id, around, moment.options)
        ready: list[Ready] = []
        held: list[tuple[Taken, float]] = []
        for one in affected(fresh, around, linked):
            until = self._wait(one, by_id, around, moment)
            if until is None:
                ready += self._settled(one, by_id, moment, pulled)
            else:
                held += [(by_id[part.trace_id].taken, until) for part in one.traces if part.trace_id in by_id]
        return Outcome(tuple(ready), tuple(held))

    def _look_up(self, keys: Collection[int], windows: Collection[Window], names: Collection[str]) -> list[Loose]:
        stored = self._stored(self._store.tied_traces(names, keys, windows, _NEWEST))
        found = [*stored, *self._held.find(keys, windows, _NEWEST)]
        missing = set(names) - {one.trace_id for one in found}
        return [*found, *(one for name in sorted(missing) if (one := self._links.find(name)) is not None)]

    def _stored(self, found: Iterable[TiedTrace]) -> list[Loose]:
        return [unpacked(one.trace_id, one.turn, one.pieces) for one in found if one.pieces]

    # -- waiting -------------------------------------------------------------------------------------------------------
    def _wait(
        self, turns: Affected, due: Mapping[str, Due], known: Mapping[str, Loose], moment: Moment
    ) -> float | None:
        """Until when turns wait for more of them, None when they settle now."""
        inside = [due[one.trace_id] for one in turns.traces if one.trace_id in due]
        lasts = [one.taken.trace.last_received for one in inside]
        lasts += [self._held.last_received(one.trace_id) for one in turns.traces if one.trace_id in self._held]
        rules = moment.rules
        patience = rules.settle_after + min(_GATHERING, rules.settle_after / 6)
        if turns.waits:
            patience = rules.idle_timeout
        elif missing := [other for other in turns.linked_to if other not in known]:
            is_open = any(map(self._links.is_open, missing))  # it comes soon, or never
            patience = rules.idle_timeout if is_open else 2 * rules.settle_after
        elif turns.lacks_beginning:  # it was sent before, so it comes soon, or never
            patience = 2 * rules.settle_after
        until = max([moment.listening_since, *lasts]) + patience
        settles = any(one.taken.settled_by is not SettledBy.ROOT_ENDED or one.stored is not None for one in inside)
        crowded = self._held.full or (bool(inside) and self._held.crowded and all(map(_is_nothing, inside)))
        if settles or moment.now >= until or crowded:
            return None
        for one in inside:
            self._held.put(_loose(one, None), one.taken.trace.last_received)
        return until

    # -- settling ------------------------------------------------------------------------------------------------------
    def _settled(
        self, turns: Affected, due: dict[str, Due], moment: Moment, pulled: Callable[[Taken], None]
    ) -> list[Ready]:
        come = {one.trace_id: due[one.trace_id] for one in turns.traces if one.trace_id in due}
        members: dict[str, Member] = {}
        for one in turns.traces:
            if one.trace_id in self._held:
                again = self._pull(one.trace_id, moment.wall, pulled)
                if again is not None:
                    come[one.trace_id] = again
            got = come.get(one.trace_id)
            if got is not None:
                members[one.trace_id] = Member(one, got.taken, got.material, got.stored)
            elif (stored := self._store.trace(one.trace_id)) is not None:
                members[one.trace_id] = Member(one, stored=stored)
        if len(members) == 1 and (alone := _nothing_by_itself(come.values())) is not None:
            return [alone]
        present = tuple(tuple(one for one in turn if one.trace_id in members) for turn in turns.turns)
        whole = Affected(tuple(turn for turn in present if turn))
        try:
            settled = settle_turns(whole, members, moment.options, moment.wall)
        except Exception as error:  # a fault of ours: each by itself, then
            logger.error("a turn over %d traces could not be put together: %s", len(members), place_of(error))
            return [Ready((one.taken,), one.alone) for one in come.values()]
        return [Ready(tuple(one.taken for one in come.values()), settled)]

    def _pull(self, trace_id: str, now: float, pulled: Callable[[Taken], None]) -> Due | None:
        """Take a trace that waits out of the index."""
        self._held.drop(trace_id)
        taken = self._index.take(bytes.fromhex(trace_id))
        if taken is None:
            return None
        pulled(taken)
        return self._read_again(taken, now)


def _loose(due: Due, before: Loose | None) -> Loose:
    """What is due as what it may belong to is found by; `before` is what is stored of it."""
    ties = due.alone.ties
    trace_id = due.taken.trace_id.hex()  # beside its spans there may be those that set its agent up
    starts: list[int] = []
    if ties.linked is not None or not ties.pieces:
        starts += [span.start_time_unix_nano for span in due.material.spans.spans if span.trace_id == trace_id]
        starts += [before.start] if before is not None and before.start else []
    turn = before.turn if before is not None else None
    return Loose(trace_id, turn, ties.pieces, ties.linked, min(starts, default=0))


def _nothing_by_itself(come: Iterable[Due]) -> Ready | None:
    """A trace that only passed messages on, and belongs to no run: traffic of which nothing is kept."""
    return next((Ready((one.taken,), one.alone) for one in come if _is_nothing(one)), None)


def _is_nothing(due: Due) -> bool:
    told = due.alone.settlement
    return due.stored is None and told.spans is None and not told.changes
