"""Which label sets are told apart and which are folded into `other`: as a function of when they appeared, so that a restart changes nothing.

The page is bounded twice: of each agent only the newest versions stand alone, and past a number of series all later label sets share one with
agent, version and environment `other`. Who came first stays: a label set that moved to and fro between its own series and `other` would make
counters jump. A place becomes free when its label set has been silent for `expire_after`.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from monitor.exporters.prometheus.labels import OTHER

Key = tuple[str, ...]
"""The label values of a label set, in the order of its metric's label names."""


class Seen(NamedTuple):
    """When a label set first appeared and when it last counted, seconds since 1970-01-01Z."""

    created: float
    updated: float


class Places(NamedTuple):
    """Where in a key the foldable labels stand; None where the metric has no such label."""

    agent: int
    agent_version: int | None
    environment: int | None

    @classmethod
    def of(cls, names: tuple[str, ...]) -> Places | None:
        """The places in a metric's label names; None for a metric without agents, which is never folded."""
        if "agent" not in names:
            return None

        def place(name: str) -> int | None:
            return names.index(name) if name in names else None

        return cls(names.index("agent"), place("agent_version"), place("environment"))

    def without_version(self, key: Key) -> Key:
        """The key with the version folded."""
        return tuple(OTHER if place == self.agent_version else value for place, value in enumerate(key))

    def without_agent(self, key: Key) -> Key:
        """The key with agent, version and environment folded."""
        return tuple(OTHER if place in self else value for place, value in enumerate(key))


def newest_versions(first_seen: Mapping[tuple[str, str], float], keep: int) -> frozenset[tuple[str, str]]:
    """The (agent, version) pairs that stand alone: for each agent the `keep` that appeared last, ties by name."""
    by_agent: dict[str, list[tuple[float, str]]] = defaultdict(list)
    for (agent, version), created in first_seen.items():
        by_agent[agent].append((created, version))
    return frozenset(
        (agent, version)
        for agent, versions in by_agent.items()
        for _, version in (versions if len(versions) <= keep else heapq.nlargest(keep, versions))
    )


def admitted(sets: Mapping[Key, Seen], capacity: int, expire_after: float) -> frozenset[Key]:
    """The label sets that stand alone: in the order of their appearance each takes a place while one is free."""
    if len(sets) <= capacity:
        return frozenset(sets)
    taken: list[float] = []
    found = set()
    for key, seen in sorted(sets.items(), key=lambda item: (item[1].created, item[0])):
        while taken and taken[0] < seen.created:
            heapq.heappop(taken)
        if len(taken) < capacity:
            heapq.heappush(taken, max(seen) + expire_after)
            found.add(key)
    return frozenset(found)


class Folding(NamedTuple):
    """Where each label set of a metric is shown. `full` says that places have run out."""

    shown_as: Mapping[Key, Key]
    places: Places
    versions: frozenset[tuple[str, str]]
    full: bool

    @property
    def folded(self) -> int:
        """How many label sets do not stand alone."""
        return sum(key != shown for key, shown in self.shown_as.items())

    def of(self, key: Key) -> Key:
        """Where a label set is shown; one that has no tally yet stands alone while there are places."""
        known = self.shown_as.get(key)
        if known is not None:
            return known
        return self.places.without_agent(key) if self.full else _fold_version(key, self.places, self.versions)


def fold(
    sets: Mapping[Key, Seen], places: Places, versions: frozenset[tuple[str, str]], capacity: int, expire_after: float
) -> Folding:
    """Where each label set is shown. `capacity` is the number of label sets that the page has room for, `other` included."""
    by_version = {key: _fold_version(key, places, versions) for key in sets}
    alike = all(key is target for key, target in by_version.items())
    merged = sets if alike else _merge(sets, by_version)
    full = len(merged) > capacity
    if not full:  # the usual case, at every scrape
        return Folding(by_version, places, versions, False)
    taken = len({places.without_agent(key) for key in merged})
    alone = admitted(merged, max(0, capacity - taken), expire_after)
    shown = {key: step if step in alone else places.without_agent(key) for key, step in by_version.items()}
    return Folding(shown, places, versions, True)


def _fold_version(key: Key, places: Places, versions: frozenset[tuple[str, str]]) -> Key:
    if places.agent_version is None or (key[places.agent], key[places.agent_version]) in versions:
        return key
    return places.without_version(key)


def _merge(sets: Mapping[Key, Seen], targets: Mapping[Key, Key]) -> Mapping[Key, Seen]:
    merged: dict[Key, Seen] = {}
    for key, seen in sets.items():
        before = merged.get(targets[key], seen)
        merged[targets[key]] = Seen(min(before.created, seen.created), max(before.updated, seen.updated))
    return merged


def first_seen(sets: Iterable[tuple[str, Key, Seen]], places: Mapping[str, Places]) -> Mapping[tuple[str, str], float]:
    """When each (agent, version) first appeared in (metric, label set, times); metrics without versions do not tell."""
    found: dict[tuple[str, str], float] = {}
    for metric, key, seen in sets:
        place = places[metric]
        if place.agent_version is not None:
            pair = (key[place.agent], key[place.agent_version])
            found[pair] = min(seen.created, found.get(pair, seen.created))
    return found
