"""Loose traces that stay open, waiting for the rest of their turn: found by their keys, as stored ones are. In memory; a start fills it
anew, because they are still in the journal.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from monitor.assembly.pieces import packed_pieces, unpacked_pieces
from monitor.intake.turns import Loose, Window, keys_of

MAX_HELD = 50_000
"""Traces that may wait at a time, about 1 kB each. Those past it settle as they are; what goes on from them makes a revision."""


@dataclass(frozen=True, slots=True)
class _Held:
    pieces: bytes
    last_received: float
    since: int
    until: int


class Held:
    """The traces that wait. Used by the settler's thread only."""

    def __init__(self) -> None:
        self._traces: dict[str, _Held] = {}
        self._by_key: dict[int, set[str] | str] = {}

    @property
    def full(self) -> bool:
        """Whether no other may wait."""
        return len(self._traces) >= MAX_HELD

    def __contains__(self, trace_id: str) -> bool:
        return trace_id in self._traces

    def last_received(self, trace_id: str) -> float:
        """When a trace that waits last got data, seconds since 1970-01-01Z."""
        return self._traces[trace_id].last_received

    def put(self, loose: Loose, last_received: float) -> None:
        """A trace waits."""
        self.drop(loose.trace_id)
        keys = keys_of(loose.pieces)
        times = [at for _, at in keys]
        self._traces[loose.trace_id] = _Held(packed_pieces(loose.pieces), last_received, min(times), max(times))
        for key in {key for key, _ in keys}:
            known = self._by_key.get(key)
            if known is None:
                self._by_key[key] = loose.trace_id  # most keys are one trace's: a set would take 200 bytes
            elif isinstance(known, str):
                self._by_key[key] = {known, loose.trace_id}
            else:
                known.add(loose.trace_id)

    def drop(self, trace_id: str) -> None:
        """A trace waits no more, if it did."""
        held = self._traces.pop(trace_id, None)
        if held is None:
            return
        for key in {key for key, _ in keys_of(unpacked_pieces(held.pieces))}:
            known = self._by_key[key]
            if isinstance(known, set):
                known.discard(trace_id)
            if known == trace_id or not known:
                del self._by_key[key]

    def find(self, keys: Collection[int], windows: Collection[Window], limit: int) -> Iterator[Loose]:
        """Those with one of the keys, or with the key of a window in its time; of each key the newest `limit`."""
        found: set[str] = set()
        for key, since, until in [*((key, 0, 2**32) for key in keys), *windows]:
            known = self._by_key.get(key, ())
            fit = [
                trace_id
                for trace_id in ([known] if isinstance(known, str) else known)
                if self._traces[trace_id].since <= until and self._traces[trace_id].until >= since
            ]
            found.update(heapq.nlargest(limit, fit, key=lambda trace_id: self._traces[trace_id].until))
        for trace_id in found:
            yield Loose(trace_id, None, unpacked_pieces(self._traces[trace_id].pieces))
