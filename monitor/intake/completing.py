"""Runs of agents completed by what these were set up with in traces of their own (see setups.py)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

from monitor.assembly import SetUp, agent_key
from monitor.intake.due import Due
from monitor.intake.faults import place_of
from monitor.intake.index import Taken
from monitor.intake.material import Material, decoded
from monitor.intake.opentrace import OpenTrace
from monitor.intake.settlement import Settled
from monitor.intake.setups import SetUps, SetUpStore
from monitor.intake.turn_settling import Ready
from monitor.model.invocation import SettledBy
from monitor.model.run import JournalPosition, StoredTrace, TurnTie
from monitor.store.protocol import StoreUnwritable

logger = logging.getLogger(__name__)

_FOR_EVER = 2**64

_Found = TypeVar("_Found")

Settle = Callable[[Taken, Material, StoredTrace | None], Settled]
"""The settlement of a trace as things stand."""


class Completing:
    """Settlements with what agents were set up with. Used by the settler's thread only."""

    def __init__(self, store: SetUpStore) -> None:
        self._store = store
        self._setups = SetUps(store)

    def note(self, due: Due) -> bool:
        """A trace that is being settled may set agents up; whether it does."""
        setups = _own(due)
        if setups:
            _or(None, due.taken, lambda: self._setups.note(setups, due.material))
        return bool(setups)

    def stands(self, taken: Taken, settled: Settled) -> bool:
        """Whether nothing is known that the agents of a trace, of which only heads were read, were set up with. What comes later is put
        beside them.
        """
        return _or(False, taken, lambda: self._nothing_known(settled))

    def _nothing_known(self, settled: Settled) -> bool:
        for change in settled.settlement.changes:
            invocation = change.invocation
            agents = frozenset([agent_key(invocation.service, invocation.agent_name)])
            if self._setups.of(agents, invocation.trace_id, _FOR_EVER):
                return False
            self._setups.lacks(invocation.trace_id, agents)
        return True

    def completed(self, due: Due, settle: Settle) -> Settled:
        """The settlement of a trace, with what its agents were set up with where it lacks that."""
        settled, agents = due.alone, due.alone.ties.agents
        if agents:
            settled = _or(settled, due.taken, lambda: self._beside(due, agents, settle))
        setups = _own(due)
        if not setups:
            return settled
        keys = tuple(sorted({(setup.key, min(setup.start // 1_000_000_000, 2**32 - 1)) for setup in setups}))
        return replace(settled, settlement=replace(settled.settlement, tie=TurnTie(None, keys, b"")))

    def _beside(self, due: Due, agents: frozenset[int], settle: Settle) -> Settled:
        trace_id = due.taken.trace_id.hex()
        body = self._setups.of(agents, trace_id, _until(due))
        if not body:
            self._setups.lacks(trace_id, agents)
            return due.alone
        settled = settle(due.taken, _with(due.material, body), due.stored)
        if _digests(settled) == _digests(due.alone):
            if due.stored is None and due.taken.settled_by is SettledBy.ROOT_ENDED:  # a whole run, not a part of one
                self._setups.in_vain(agents)
            return due.alone
        return replace(settled, spans=due.alone.spans, duplicates=due.alone.duplicates, late=due.alone.late)

    def beside(self, due: Due) -> Due:
        """A trace that is put together with others, with what its agents were set up with elsewhere."""
        ties = due.alone.ties
        if ties.pieces or not ties.agents:
            return due
        body = _or(b"", due.taken, lambda: self._setups.of(ties.agents, due.taken.trace_id.hex(), _until(due)))
        return replace(due, material=_with(due.material, body)) if body else due

    def revised(self, due: Due, settle: Settle) -> Sequence[Ready]:
        """Runs that were stored before what set their agents up came: revisions with it. When all that is being settled is stored."""
        return _or((), due.taken, lambda: tuple(self._revised(due, settle)))

    def _revised(self, due: Due, settle: Settle) -> Iterator[Ready]:
        for trace_id in self._setups.lacking(_own(due)):
            stored = self._store.trace(trace_id)
            if stored is None or not stored.invocations or stored.spans is None or self._is_part(trace_id):
                continue
            ended_at = max(one.invocation.ended_at for one in stored.invocations)
            body = self._setups.of({setup.key for setup in _own(due)}, trace_id, ended_at)
            trace = OpenTrace(stored.invocations[0].invocation.collector, due.taken.trace.first_received, 1.0)
            taken = Taken(bytes.fromhex(trace_id), trace, SettledBy(stored.settled_by))
            place = stored.consumed  # no frame begins right behind another's beginning
            behind = JournalPosition(place.segment, place.offset + 1)
            if body:
                settled = settle(taken, decoded(body, b"", behind), stored)
                yield Ready((), replace(settled, spans=0, duplicates=0, late=0))

    def _is_part(self, trace_id: str) -> bool:
        """Whether a run lies in several traces: then its own alone is not the whole of it, and it stays as it is."""
        return any(one.pieces for one in self._store.tied_traces([trace_id], [], [], 0))


def _or(otherwise: _Found, taken: Taken, ask: Callable[[], _Found]) -> _Found:
    """What is found, or what a run can do with: a fault of ours must not stop all other traces. Raises StoreUnwritable."""
    try:
        return ask()
    except StoreUnwritable:
        raise
    except Exception as error:
        logger.error("the set-ups of trace %s cannot be looked at: %s", taken.trace_id.hex(), place_of(error))
        return otherwise


def _own(due: Due) -> Sequence[SetUp]:
    """The set-ups in the trace itself, not those that are stored beside it."""
    trace_id = due.taken.trace_id.hex()
    return [setup for setup in due.alone.ties.setups if setup.trace_id == trace_id]


def _until(due: Due) -> int:
    return max((span.end_time_unix_nano for span in due.material.spans.spans), default=0)


def _with(material: Material, body: bytes) -> Material:
    return decoded(material.traces + body, material.logs, material.consumed)


def _digests(settled: Settled) -> list[str]:
    return [change.digest for change in settled.settlement.changes]
