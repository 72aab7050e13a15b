"""Loose traces that stay open, waiting for the rest of their turn: found by their keys, as stored ones are. In memory; a start fills it
anew, because they are still in the journal.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import islice

from monitor.intake.loose import Loose, keys_of, packed, unpacked
from monitor.intake.turns import Window

MAX_HELD = 50_000
"""Traces that may wait at a time, about 1 kB each. Those past it settle as they are; what goes on from them makes a revision."""


_Place = tuple[int, str]
"""The newest time of a trace's keys, whole seconds, and its id."""


@dataclass(frozen=True, slots=True)
class _Held:
    kept: bytes
    last_received: float
    since: int
    until: int


class Held:
    """The traces that wait. Used by the settler's thread only."""

    def __init__(self) -> None:
        self._traces: dict[str, _Held] = {}
        self._by_key: dict[int, list[_Place] | _Place] = {}

    @property
    def full(self) -> bool:
        """Whether no other may wait."""
        return len(self._traces) >= MAX_HELD

    @property
    def crowded(self) -> bool:
        """Whether no more traces may wait that nothing would be kept of."""
        return len(self._traces) >= MAX_HELD // 4

    def __contains__(self, trace_id: str) -> bool:
        return trace_id in self._traces

    def last_received(self, trace_id: str) -> float:
        """When a trace that waits last got data, seconds since 1970-01-01Z."""
        return self._traces[trace_id].last_received

    def put(self, loose: Loose, last_received: float) -> None:
        """A trace waits."""
        self.drop(loose.trace_id)
        keys = keys_of(loose)
        times = [at for _, at in keys] or [0]  # what others are linked to is asked for by its id
        self._traces[loose.trace_id] = _Held(packed(loose), last_received, min(times), max(times))
        place = (max(times), loose.trace_id)
        for key in {key for key, _ in keys}:
            known = self._by_key.get(key)
            if known is None:
                self._by_key[key] = place  # most keys are one trace's: a list would take 100 bytes
            elif isinstance(known, list):
                insort(known, place)
            else:
                self._by_key[key] = sorted((known, place))

    def drop(self, trace_id: str) -> None:
        """A trace waits no more, if it did."""
        held = self._traces.pop(trace_id, None)
        if held is None:
            return
        place = (held.until, trace_id)
        for key in {key for key, _ in keys_of(unpacked(trace_id, None, held.kept))}:
            known = self._by_key[key]
            if isinstance(known, list):
                del known[bisect_left(known, place)]
            if known == place or not known:
                del self._by_key[key]

    def get(self, trace_id: str) -> Loose:
        """A trace that waits."""
        return unpacked(trace_id, None, self._traces[trace_id].kept)

    def find(self, keys: Collection[int], windows: Collection[Window], limit: int) -> Iterator[Loose]:
        """Those with one of the keys, or with the key of a window in its time; of each key the newest `limit`."""
        found: set[str] = set()
        for key, since, until in [*((key, 0, 2**32) for key in keys), *windows]:
            found.update(islice(self._fitting(key, since, until), limit))
        for trace_id in found:
            yield self.get(trace_id)

    def _fitting(self, key: int, since: int, until: int) -> Iterator[str]:
        """Those with the key in a time, the newest first. Many may have it: an application that asks the same of each."""
        known = self._by_key.get(key, [])
        places = known if isinstance(known, list) else [known]
        for at in range(len(places) - 1, bisect_left(places, (since, "")) - 1, -1):
            trace_id = places[at][1]
            if self._traces[trace_id].since <= until:
                yield trace_id
