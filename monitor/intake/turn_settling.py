"""Settles turns over several traces: finds what belongs together among what is due, what waits and what is stored (see turns.py)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from monitor.assembly.pieces import unpacked_pieces
from monitor.intake.faults import place_of
from monitor.intake.held import Held
from monitor.intake.index import Index, Taken
from monitor.intake.joined import Member, settle_turns
from monitor.intake.material import Material
from monitor.intake.options import SettlementOptions
from monitor.intake.settlement import Settled
from monitor.intake.settling import SettlingRules
from monitor.intake.turns import Affected, Loose, Window, affected, neighbourhood
from monitor.model.invocation import SettledBy
from monitor.model.run import StoredTrace, TiedTrace

logger = logging.getLogger(__name__)

_NEWEST = 256
"""Traces that are looked at of each key: more than that at a time, and nobody can tell which belong together."""

_GATHERING = 5.0
"""Seconds that a loose trace waits for others that came with the same or the next batch of its sender; less where `settle_after` is short."""


class TieStore(Protocol):
    """The part of the Store protocol that turns need."""

    def trace(self, trace_id: str) -> StoredTrace | None:
        """See Store."""
        ...

    def tied_traces(
        self, trace_ids: Collection[str], keys: Collection[int], windows: Collection[Window], limit: int
    ) -> Sequence[TiedTrace]:
        """See Store."""
        ...


@dataclass(frozen=True, slots=True)
class Ready:
    """What can be stored, and which taken traces it is of."""

    taken: tuple[Taken, ...]
    settled: Settled


@dataclass(frozen=True, slots=True)
class Due:
    """A loose trace that is due: what was read of it, and its settlement if nothing else belongs to it."""

    taken: Taken
    material: Material
    stored: StoredTrace | None
    alone: Settled


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

    def __init__(self, index: Index, store: TieStore, read_again: ReadAgain) -> None:
        self._index = index
        self._store = store
        self._read_again = read_again
        self._held = Held()

    def forget(self, taken: Iterable[Taken]) -> None:
        """Traces that are being settled wait no more."""
        for one in taken:
            self._held.drop(one.trace_id.hex())

    def is_part(self, trace_id: str) -> bool:
        """Whether a stored trace may be a part of a turn."""
        return any(one.pieces for one in self._store.tied_traces([trace_id], [], [], 0))

    def settle(self, due: Sequence[Due], moment: Moment, pulled: Callable[[Taken], None]) -> Outcome:
        """What can be stored of loose traces that are due, and which of them wait for what may belong to them.

        `pulled` is told of each trace that is taken out of the index besides.
        """
        by_id = {one.taken.trace_id.hex(): one for one in due}
        stored = [trace_id for trace_id, one in by_id.items() if one.stored is not None]
        known = self._stored(self._store.tied_traces(stored, [], [], 0)) if stored else []
        turns = {one.trace_id: one.turn for one in known}
        fresh = [Loose(trace_id, turns.get(trace_id), one.alone.ties.pieces) for trace_id, one in by_id.items()]
        ready: list[Ready] = []
        held: list[tuple[Taken, float]] = []
        for one in affected(fresh, neighbourhood(fresh, self._look_up, known)):
            until = self._wait(one, by_id, moment)
            if until is None:
                ready += self._settled(one, by_id, moment, pulled)
            else:
                held += [(by_id[part.trace_id].taken, until) for part in one.traces if part.trace_id in by_id]
        return Outcome(tuple(ready), tuple(held))

    def _look_up(self, keys: Collection[int], windows: Collection[Window]) -> list[Loose]:
        stored = self._stored(self._store.tied_traces([], keys, windows, _NEWEST))
        return [*stored, *self._held.find(keys, windows, _NEWEST)]

    def _stored(self, found: Iterable[TiedTrace]) -> list[Loose]:
        return [Loose(one.trace_id, one.turn, unpacked_pieces(one.pieces)) for one in found if one.pieces]

    # -- waiting -------------------------------------------------------------------------------------------------------
    def _wait(self, turns: Affected, due: dict[str, Due], moment: Moment) -> float | None:
        """Until when turns wait for more of them, None when they settle now."""
        inside = [due[one.trace_id] for one in turns.traces if one.trace_id in due]
        lasts = [one.taken.trace.last_received for one in inside]
        lasts += [self._held.last_received(one.trace_id) for one in turns.traces if one.trace_id in self._held]
        rules = moment.rules
        patience = rules.settle_after + min(_GATHERING, rules.settle_after / 6)
        if turns.waits:
            patience = rules.idle_timeout
        elif turns.lacks_beginning:  # it was sent before, so it comes soon, or never
            patience = 2 * rules.settle_after
        until = max([moment.listening_since, *lasts]) + patience
        settles = any(one.taken.settled_by is not SettledBy.ROOT_ENDED or one.stored is not None for one in inside)
        if settles or moment.now >= until or self._held.full:
            return None
        for one in inside:
            pieces = one.alone.ties.pieces
            self._held.put(Loose(one.taken.trace_id.hex(), None, pieces), one.taken.trace.last_received)
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
