"""One page out of a registry: OpenMetrics where the scraper asks for it, else text. `_created` series are left out of both."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator, Sequence

from prometheus_client import CollectorRegistry, disable_created_metrics, exposition
from prometheus_client.core import Metric
from prometheus_client.openmetrics import exposition as openmetrics_exposition
from prometheus_client.registry import Collector

from monitor.exporters.prometheus.families import Family
from monitor.exporters.prometheus.page import Page, StoredMetric

TEXT = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"
_END = b"# EOF\n"


def new_registry() -> CollectorRegistry:
    """A registry for this process. Turns `_created` series off, which prometheus_client knows only for the whole process."""
    disable_created_metrics()  # type: ignore[no-untyped-call]
    return CollectorRegistry()


def wants_openmetrics(accept: str) -> bool:
    """Whether an Accept header prefers OpenMetrics to text; by weight, OpenMetrics first where equal. Without it the answer is text."""
    weights = {"application/openmetrics-text": 0.0, "text/plain": 0.0}
    for offer in accept.split(","):
        kind, *parameters = (part.strip() for part in offer.split(";"))
        if kind in weights:
            weights[kind] = max(weights[kind], _weight(parameters))
    return 0.0 < weights["application/openmetrics-text"] >= weights["text/plain"]


def _weight(parameters: Iterable[str]) -> float:
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "q":
            try:
                return float(value)
            except ValueError:
                return 0.0
    return 1.0


class Exposition:
    """Writes the page of a registry; families of the store by its own, faster hand. Blocks on the store: call it from a thread."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry
        self._page = Page()
        self._lock = threading.Lock()

    def page(self, accept: str = "") -> tuple[bytes, str]:
        """The body of a scrape and its Content-Type, by the request's Accept header."""
        openmetrics = wants_openmetrics(accept)
        process, stored = [], []
        for metric in self._registry.collect():
            if isinstance(metric, StoredMetric):
                stored.append(metric.family)
            else:
                process.append(_without_created(metric))
        with self._lock:
            ours = "".join(self._pieces(stored, openmetrics)).encode()
        if openmetrics:
            theirs = openmetrics_exposition.generate_latest(_Metrics(process))  # type: ignore[no-untyped-call]
            return theirs.removesuffix(_END) + ours + _END, OPENMETRICS
        return exposition.generate_latest(_Metrics(process)) + ours, TEXT

    def _pieces(self, families: Sequence[Family], openmetrics: bool) -> Iterator[str]:
        """The families in pieces. Between two of them every other thread may run: acknowledgements do not wait for a page."""
        for family in families:
            for piece in self._page.text(family, openmetrics):
                yield piece
                time.sleep(0)  # lets go of the interpreter


class _Metrics(Collector):
    """Metrics that have been collected, as the writers of prometheus_client want them."""

    def __init__(self, metrics: Sequence[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Sequence[Metric]:
        return self._metrics


def _without_created(metric: Metric) -> Metric:
    created = f"{metric.name}_created"
    if any(sample.name == created for sample in metric.samples):
        metric.samples = [sample for sample in metric.samples if sample.name != created]
    return metric
