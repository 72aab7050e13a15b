"""The store's figures as one collector on the registry: made at scrape time from what is stored and configured now, and from nothing else."""

from __future__ import annotations

import logging
import platform
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from prometheus_client.core import Metric

from monitor.clock import Clock
from monitor.exporters.lease import ExportLease
from monitor.exporters.prometheus.families import DEFINITIONS, Family
from monitor.exporters.prometheus.figures import (
    PassRateFamilies,
    agreement_family,
    configured_families,
    info,
    last_success_family,
    queue_families,
    single,
)
from monitor.exporters.prometheus.page import StoredMetric
from monitor.exporters.prometheus.regressions import regression_families
from monitor.exporters.prometheus.tallied import TalliedFamilies
from monitor.labels.instrument import AgreementKey
from monitor.model.watched import WatchedMonitor
from monitor.passrates import PassRates
from monitor.regression.detection import Detection
from monitor.settings.tree import Metrics
from monitor.store.protocol import Store
from monitor.version import __version__

LOG = logging.getLogger(__name__)
MAX_AGE_SECONDS = 1.0
"""How long one reading of the store serves: several scrapers cost no more than one."""


@dataclass(frozen=True, slots=True)
class Sources:
    """What the figures are made of. `watched` is asked at each scrape, so that a reload shows at once."""

    store: Store
    passrates: PassRates
    watched: Callable[[], Sequence[WatchedMonitor]]
    lease: ExportLease
    clock: Clock
    detection: Detection | None = None
    agreement: Callable[[], Mapping[AgreementKey, float]] = dict


class StoreCollector:
    """A collector for `CollectorRegistry.register`. Blocks on the store while a scrape lasts: never scrape on an event loop.

    Figures of the store are shown only while the export lease is held. When the store cannot be read they are missing and the log says why;
    the metrics of the process stay.
    """

    def __init__(self, sources: Sources, settings: Metrics, revision: str = "") -> None:
        self._sources = sources
        self._settings = settings
        self._lock = threading.Lock()
        self._tallied = TalliedFamilies(settings, self._record)
        self._pass_rates = PassRateFamilies()
        self._families: tuple[Family, ...] = ()
        self._good_until = float("-inf")
        self._build = info(
            "build",
            ("version", "revision", "python_version"),
            [(__version__, revision, platform.python_version())],
        )

    def describe(self) -> Iterator[Metric]:
        """Every family that may appear, empty: a name can be registered once only."""
        return (StoredMetric(Family(name, (), ())) for name in DEFINITIONS)

    def collect(self) -> Iterator[Metric]:
        """The families as they stand now."""
        with self._lock:
            families = self._current()
        return map(StoredMetric, families)

    def _current(self) -> tuple[Family, ...]:
        if self._sources.clock.monotonic() >= self._good_until:
            self._families = tuple(self._read())
            self._good_until = self._sources.clock.monotonic() + MAX_AGE_SECONDS
        return self._families

    def _read(self) -> list[Family]:
        found = []
        try:
            leader = self._sources.lease.held()
            found = self._stored() if leader else []
        except Exception as error:  # a store that cannot be read must not hide the metrics of the process
            LOG.warning("the figures of the store are not on the page: %s: %s", type(error).__name__, error)
            leader = False
        return [*found, single("export_leader", float(leader)), self._build]

    def _stored(self) -> list[Family]:
        store, now = self._sources.store, self._sources.clock.now()
        watched = tuple(self._sources.watched())
        tallies = store.tallies()
        tallied = self._tallied.families(tallies, watched, now)
        return [
            *tallied.families,
            *self._pass_rates.families(self._sources.passrates.figures(), tallied.verdicts),
            *queue_families(watched, store.pending(now), now),
            last_success_family(watched, tallies),
            *configured_families(watched),
            *self._regressions(now),
            agreement_family(self._sources.agreement()),
        ]

    def _regressions(self, now: float) -> list[Family]:
        detection, settings = self._sources.detection, self._settings
        watching = detection.watching() if detection is not None else ()
        return regression_families(watching, now, settings.expire_after, settings.max_series_per_metric)

    def _record(self, name: str, labels: Mapping[str, str], amount: float) -> None:
        self._sources.store.add_tally(name, labels, amount, self._sources.clock.now())
