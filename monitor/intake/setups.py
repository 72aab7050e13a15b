"""What agents were set up with, where that is told by a trace of its own: kept by agent, and put beside the traces of its runs.

The spans that set an agent up are stored once more with each run that lacks what they tell, so that the run can be assembled anew from
what is stored of it. Runs without a lack, and processes without such spans, cost one look into a dictionary.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from collectors.otlp.request import Decoded, select
from collectors.sink import Signal
from monitor.assembly import SetUp, ties
from monitor.intake import stored_spans
from monitor.intake.material import Material, decoded
from monitor.model.run import JournalPosition, StoredTrace, TiedTrace

_NEWEST = 4
"""Set-ups of an agent that are kept: the run's own is the newest before it."""

MAX_BYTES = 16 * 1024**2
MAX_AGENTS = 20_000
"""What is kept in memory; the rest is read from the store again, where it is found by the agent's key."""

MAX_RUNS = 10_000
"""Newest runs that lack a set-up, in memory, about 2 MB: a set-up that comes after its run is looked for among these."""


class SetUpStore(Protocol):
    """The part of the Store protocol that set-ups need."""

    def trace(self, trace_id: str) -> StoredTrace | None:
        """See Store."""
        ...

    def tied_traces(
        self, trace_ids: Collection[str], keys: Collection[int], windows: Collection[tuple[int, int, int]], limit: int
    ) -> Sequence[TiedTrace]:
        """See Store."""
        ...


@dataclass(frozen=True, slots=True)
class _Kept:
    """A span that sets an agent up, as an export request."""

    start: int
    trace_id: str
    body: bytes


class SetUps:
    """Spans that set agents up, by agent. Used by the settler's thread only."""

    def __init__(self, store: SetUpStore) -> None:
        self._store = store
        self._agents: OrderedDict[int, tuple[_Kept, ...]] = OrderedDict()
        self._bytes = 0
        self._runs: OrderedDict[str, frozenset[int]] = OrderedDict()
        self._vain: dict[int, bytes] = {}

    def note(self, setups: Sequence[SetUp], material: Material) -> None:
        """A trace that is being settled sets agents up."""
        for agent, kept in _cut(setups, material.traces, material.spans):
            known = self._of(agent)
            others = [one for one in known if (one.start, one.trace_id) != (kept.start, kept.trace_id)]
            self._put(agent, [*others, kept])

    def of(self, agents: Iterable[int], trace_id: str, until: int) -> bytes:
        """The export request of what set the agents up before a time (nanoseconds), b"" for nothing; not of the trace itself."""
        found = {
            (kept.start, kept.trace_id): kept.body
            for agent in sorted(agents)
            for kept in self._of(agent)
            if kept.start <= until and kept.trace_id != trace_id and self._vain.get(agent) != kept.body
        }
        return b"".join(found[key] for key in sorted(found))

    def in_vain(self, agents: Iterable[int]) -> None:
        """What the agents were set up with tells nothing of what they lack: it is not asked again until they are set up anew."""
        for agent in agents:
            for kept in self._of(agent)[-1:]:
                self._vain[agent] = kept.body
        if len(self._vain) > MAX_AGENTS:
            self._vain.clear()

    def lacks(self, trace_id: str, agents: frozenset[int]) -> None:
        """A run was stored without what its agents were set up with."""
        self._runs[trace_id] = agents
        if len(self._runs) > MAX_RUNS:
            self._runs.popitem(last=False)

    def lacking(self, setups: Sequence[SetUp]) -> list[str]:
        """Stored runs that these set-ups, which have come after them, may tell more of."""
        agents = {setup.key for setup in setups}
        if not agents:
            return []
        found = [trace_id for trace_id, wanted in self._runs.items() if wanted & agents]
        for trace_id in found:
            del self._runs[trace_id]
        return found

    def _of(self, agent: int) -> tuple[_Kept, ...]:
        known = self._agents.get(agent)
        if known is not None:
            self._agents.move_to_end(agent)
            return known
        return self._put(agent, self._stored(agent))

    def _put(self, agent: int, kept: Iterable[_Kept]) -> tuple[_Kept, ...]:
        newest = tuple(sorted(kept, key=lambda one: (one.start, one.trace_id))[-_NEWEST:])
        self._bytes += sum(len(one.body) for one in newest) - sum(len(one.body) for one in self._agents.pop(agent, ()))
        self._agents[agent] = newest
        while len(self._agents) > 1 and (self._bytes > MAX_BYTES or len(self._agents) > MAX_AGENTS):
            self._bytes -= sum(len(one.body) for one in self._agents.popitem(last=False)[1])
        return newest

    def _stored(self, agent: int) -> Iterator[_Kept]:
        for tied in self._store.tied_traces([], [agent], [], _NEWEST):
            stored = self._store.trace(tied.trace_id)
            try:
                traces, logs = stored_spans.unpack((stored and stored.spans) or b"")
            except stored_spans.UnknownCodec:
                continue
            whole = decoded(traces, logs, JournalPosition(0, 0))
            setups = ties(whole.spans.spans, whole.records.logs).setups
            yield from (kept for key, kept in _cut(setups, traces, whole.spans) if key == agent)


def _cut(setups: Sequence[SetUp], body: bytes, spans: Decoded) -> Iterator[tuple[int, _Kept]]:
    """Each set-up as a request of its own, with the agent's key."""
    ordinals = {
        (span.trace_id, span.span_id): ordinal for span, ordinal in zip(spans.spans, spans.ordinals, strict=True)
    }
    for setup in setups:
        ordinal = ordinals.get((setup.trace_id, setup.span_id))
        if ordinal is not None:
            yield setup.key, _Kept(setup.start, setup.trace_id, select(body, Signal.TRACES, [ordinal]))
