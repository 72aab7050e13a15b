"""A small store of figures: what exporters read, set by hand. Each test of an exporter fills one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, cast

from prometheus_client import CollectorRegistry

from monitor.clock import ManualClock
from monitor.estimation.passrate import totals
from monitor.exporters.lease import ExportLease
from monitor.exporters.prometheus import Exposition, Sources, StoreCollector, new_registry
from monitor.model.run import PendingCount, Tally
from monitor.model.tallies import LABELS, TallyName
from monitor.model.totals import GroupEligible, GroupTotals, WindowFigures
from monitor.model.verdict import Outcome
from monitor.model.watched import WatchedMonitor, WatchedRubric
from monitor.passrates import PassRates
from monitor.settings.tree import Metrics
from monitor.store.protocol import Store

TRACE = "0af7651916cd43dd8448eb211c80319c"


@dataclass(frozen=True)
class Seen:
    """An invocation as a monitor has it: eligible, and with an outcome where it was judged (None: the evaluation failed)."""

    agent: str
    ended_at: float
    outcome: Outcome | None = Outcome.PASS
    rubric: str = "tone"
    rubric_version: str = "aaaaaaaaaaaa"
    agent_version: str = ""
    environment: str = ""
    probability: float = 1.0
    judged: bool = True

    @property
    def place(self) -> tuple[str, str, str]:
        return self.agent, self.agent_version, self.environment


@dataclass
class FigureStore:
    """The store's figures in memory; the part of `Store` that exporters and pass rates call."""

    clock: ManualClock
    rows: dict[tuple[str, tuple[tuple[str, str], ...]], Tally] = field(default_factory=dict)
    invocations: dict[str, list[Seen]] = field(default_factory=dict)
    waiting: list[PendingCount] = field(default_factory=list)
    leases: dict[str, tuple[str, float]] = field(default_factory=dict)
    reads: int = 0
    drawn: set[tuple[object, ...]] = field(default_factory=set)

    def count(
        self, metric: str, amount: float = 1.0, exemplar: tuple[str, float] | None = None, /, **labels: str
    ) -> None:
        """Count now; a label called `from` or `to` is written `from_` or `to_`."""
        named = {name.rstrip("_"): value for name, value in labels.items()}
        wanted = LABELS.get(metric)
        if wanted is not None:
            named = {name: named.get(name, "") for name in wanted}
        key, now = (metric, tuple(sorted(named.items()))), self.clock.now()
        before = self.rows.get(key)
        created, value = (before.created_at, before.value) if before else (now, 0.0)
        self.rows[key] = Tally(metric, named, value + amount, created, now, exemplar or (before and before.exemplar))

    def draw(self, monitor: str, rubric: str, agent: str, rubric_version: str = "aaaaaaaaaaaa", **labels: str) -> None:
        """What the store does when a label set's first invocation is drawn: 0 for every verdict."""
        place = (monitor, rubric, agent, rubric_version, *sorted(labels.items()))
        if place in self.drawn:
            return
        self.drawn.add(place)
        for outcome in Outcome:
            self.count(
                TallyName.VERDICTS, 0.0, monitor=monitor, rubric=rubric, rubric_version=rubric_version, agent=agent,
                verdict=outcome, **labels,
            )  # fmt: skip

    def judge(self, monitor: str, seen: Seen) -> None:
        """A verdict as store and tallies get it."""
        labels = {"agent_version": seen.agent_version, "environment": seen.environment}
        self.draw(monitor, seen.rubric, seen.agent, seen.rubric_version, **labels)
        self.invocations.setdefault(monitor, []).append(seen)
        if seen.outcome is not None:
            self.count(
                TallyName.VERDICTS, 1.0, (TRACE, self.clock.now()) if seen.outcome is Outcome.FAIL else None,
                monitor=monitor, rubric=seen.rubric, rubric_version=seen.rubric_version, agent=seen.agent,
                verdict=seen.outcome, **labels,
            )  # fmt: skip

    def tallies(self) -> Sequence[Tally]:
        self.reads += 1
        return list(self.rows.values())

    def add_tally(self, metric: str, labels: Mapping[str, str], amount: float, now: float) -> None:
        self.count(metric, amount, **dict(labels))

    def pending(self, now: float) -> Sequence[PendingCount]:
        return self.waiting

    def window_figures(self, monitor: str, since: Sequence[float], until: float) -> WindowFigures:
        self.reads += 1
        judged, eligible = [], []
        for window, start in enumerate(since):
            inside = [seen for seen in self.invocations.get(monitor, []) if start <= seen.ended_at < until]
            rows = sorted((s for s in inside if s.judged), key=lambda s: (s.rubric, s.rubric_version, s.place))
            for (rubric, version, place), members in groupby(rows, lambda s: (s.rubric, s.rubric_version, s.place)):
                sums = totals((seen.outcome, seen.probability) for seen in members)
                judged.append(GroupTotals(window, rubric, version, *place, sums))
            for place, members in groupby(sorted(inside, key=lambda s: s.place), lambda s: s.place):
                eligible.append(GroupEligible(window, *place, len(list(members))))
        return WindowFigures(tuple(judged), tuple(eligible))

    def acquire_lease(self, name: str, owner: str, now: float, ttl_seconds: float) -> bool:
        holder, until = self.leases.get(name, (owner, 0.0))
        if holder != owner and until > now:
            return False
        self.leases[name] = (owner, now + ttl_seconds)
        return True

    def release_lease(self, name: str, owner: str) -> None:
        if self.leases.get(name, ("", 0.0))[0] == owner:
            del self.leases[name]


def watched(*rubrics: str, name: str = "m", **more: Any) -> WatchedMonitor:
    """A monitor of those rubrics."""
    return WatchedMonitor(name, tuple(WatchedRubric(rubric, "aaaaaaaaaaaa", "weighted") for rubric in rubrics), **more)


class Exporter:
    """A process with a page: its own registry, over a store that may be shared."""

    def __init__(self, store: FigureStore, *monitors: WatchedMonitor, owner: str = "a", **settings: Any) -> None:
        self.clock, self.store, self.monitors = store.clock, store, list(monitors)
        self.registry: CollectorRegistry = new_registry()
        behind = cast(Store, store)
        self.lease = ExportLease(behind, self.clock, owner)
        passrates = PassRates(behind, self.clock, lambda: self.monitors)
        sources = Sources(behind, passrates, lambda: self.monitors, self.lease, self.clock)
        self.collector = StoreCollector(sources, Metrics(**({"zero_for": "0s"} | settings)))
        self.registry.register(self.collector)
        self.exposition = Exposition(self.registry)

    def scrape(self) -> dict[str, dict[frozenset[tuple[str, str]], float]]:
        """The page a moment later (a page is up to a second old), parsed: values by sample name and labels."""
        self.clock.advance(1.0)
        found: dict[str, dict[frozenset[tuple[str, str]], float]] = {}
        for metric in self.registry.collect():
            for sample in metric.samples:
                found.setdefault(sample.name, {})[frozenset(sample.labels.items())] = sample.value
        return found

    def values(self, name: str, *labels: str) -> dict[Any, float]:
        """A metric's values by those labels, added up over the others."""
        found: dict[Any, float] = {}
        for pairs, value in self.scrape().get(f"rubricd_{name}", {}).items():
            given = dict(pairs)
            key = tuple(given[label] for label in labels)
            found[key if len(labels) != 1 else key[0]] = found.get(key if len(labels) != 1 else key[0], 0.0) + value
        return found
