"""/metrics: the process's own metrics and, made at scrape time, the figures that the store keeps."""

from monitor.exporters.prometheus.collector import Sources, StoreCollector
from monitor.exporters.prometheus.exposition import OPENMETRICS, TEXT, Exposition, new_registry

__all__ = ["OPENMETRICS", "TEXT", "Exposition", "Sources", "StoreCollector", "new_registry"]
