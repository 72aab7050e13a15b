"""What a scrape costs, beside plain prometheus_client with the same series. In this process: the page over a real store, some figures changed before each."""

from __future__ import annotations

import statistics
import time
from pathlib import Path
from typing import Any

from bench.population import MONITOR, RUBRIC, Population, agents
from monitor.clock import ManualClock
from monitor.exporters.lease import ExportLease
from monitor.exporters.prometheus import Exposition, Sources, StoreCollector, new_registry
from monitor.model.watched import WatchedMonitor, WatchedRubric
from monitor.passrates import PassRates
from monitor.settings.tree import Metrics

OPENMETRICS = "application/openmetrics-text"
LINES_AN_AGENT = 42
"""invocations, verdicts by outcome, a histogram of scores, and pass rates over three windows."""
CHANGED = 20
"""Invocations judged between two scrapes."""


class Scraped:
    """A page over a populated store, and what each scrape of it takes."""

    def __init__(self, folder: Path, series: int, judged: int = 3) -> None:
        self.names = agents(max(1, series // LINES_AN_AGENT))
        self.population = Population(folder)
        for _ in range(judged):
            self.population.run(self.names)
            self.population.judge()
        self.clock = ManualClock(time.time())
        watched = (WatchedMonitor(MONITOR, (WatchedRubric(RUBRIC, "aaaaaaaaaaaa", "check"),)),)
        store = self.population.store
        passrates = PassRates(store, self.clock, lambda: watched)
        registry = new_registry()
        sources = Sources(store, passrates, lambda: watched, ExportLease(store, self.clock, "bench"), self.clock)
        registry.register(StoreCollector(sources, Metrics(max_series_per_metric=max(10_000, series), zero_for="0s")))
        self.exposition = Exposition(registry)

    def change(self) -> None:
        """Judge some more, and let the reading of before grow old."""
        self.population.run(self.names[:CHANGED])
        self.population.judge()
        self.clock.advance(15.0)

    def cpu_ms(self, accept: str) -> float:
        """CPU milliseconds of one scrape."""
        self.change()
        began = time.process_time()
        self.exposition.page(accept)
        return (time.process_time() - began) * 1e3

    def page(self) -> str:
        """The page as text."""
        return self.exposition.page("")[0].decode()


def plain_registry(page: str) -> Any:
    """The series of a page as metrics of prometheus_client, nothing of ours in between."""
    from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
    from prometheus_client.parser import text_string_to_metric_families

    registry = CollectorRegistry()
    for family in text_string_to_metric_families(page):
        names = [name for name in (family.samples[0].labels if family.samples else ()) if name != "le"]
        if family.type == "histogram":
            made = Histogram(
                family.name, family.documentation, names, registry=registry, buckets=[n / 10 for n in range(1, 11)]
            )
            for sample in family.samples:
                if sample.name.endswith("_count"):
                    one = made.labels(**sample.labels)
                    for _ in range(int(sample.value)):
                        one.observe(0.95)
            continue
        kind = Counter if family.type == "counter" else Gauge
        plain = kind(family.name, family.documentation, names, registry=registry)
        for sample in family.samples:
            child = plain.labels(**sample.labels) if names else plain
            child.inc(sample.value)
    return registry


def plain_cpu_ms(page: str, rounds: int, openmetrics: bool = False) -> float:
    """CPU milliseconds that prometheus_client takes to write the same series."""
    from prometheus_client import disable_created_metrics, generate_latest
    from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics

    disable_created_metrics()
    registry = plain_registry(page)
    write = generate_openmetrics if openmetrics else generate_latest
    found = []
    for _ in range(rounds):
        began = time.process_time()
        write(registry)
        found.append((time.process_time() - began) * 1e3)
    return statistics.median(found)


def measure(folder: Path, series: int, rounds: int) -> dict[str, Any]:
    """The figures of one size."""
    scraped = Scraped(folder, series, judged=3 if series <= 10_000 else 1)
    first = scraped.cpu_ms("")
    for accept in ("", OPENMETRICS):
        scraped.cpu_ms(accept)
    text = statistics.median(scraped.cpu_ms("") for _ in range(rounds))
    openmetrics = statistics.median(scraped.cpu_ms(OPENMETRICS) for _ in range(rounds))
    page = scraped.page()
    plain = plain_cpu_ms(page, rounds)
    scraped.population.close()
    return {
        "series": sum(not line.startswith("#") for line in page.splitlines()),
        "text_ms": round(text, 2),
        "openmetrics_ms": round(openmetrics, 2),
        "first_ms": round(first, 2),
        "plain_ms": round(plain, 2),
        "ratio": round(text / plain, 3),
        "openmetrics_ratio": round(openmetrics / plain_cpu_ms(page, rounds, openmetrics=True), 3),
        "page_kb": round(len(page) / 1e3),
    }
