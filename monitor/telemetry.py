"""Our own process metrics, each documented once. Figures that the store keeps are shown by `exporters.prometheus`.

Everything here restarts at 0 with the process; the registry is passed in. Names and labels are those of contract.md section 6.
"""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from collectors.sink import RejectReason

PREFIX = "rubricd"
DURATION_BUCKETS = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0)


class DropReason:
    """Why received spans are not kept (label `reason` of `spans_dropped_total`)."""

    SAMPLED_OUT = "sampled_out"
    OWN_TELEMETRY = "own_telemetry"
    NOT_GENAI = "not_genai"
    OVER_LIMIT = "over_limit"
    UNREADABLE = "unreadable"

    ALL = (SAMPLED_OUT, OWN_TELEMETRY, NOT_GENAI, OVER_LIMIT, UNREADABLE)


class Telemetry:
    """The process's metrics on one registry. Also the `IntakeMeter` that collectors report to."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"{PREFIX}_{name}", text, labels, registry=registry)

        def gauge(name: str, text: str, *labels: str) -> Gauge:
            return Gauge(f"{PREFIX}_{name}", text, labels, registry=registry)

        self.registry = registry
        self.spans_received = counter("spans_received", "Spans in requests that were taken.", "collector")
        self.spans_rejected = counter(
            "spans_rejected", "Spans refused; where they could not be counted, requests.", "collector", "reason"
        )
        self.spans_settled = counter("spans_settled", "Spans of settled traces, readable where wanted.")
        self.open_traces = gauge("open_traces", "Traces that have not settled.", "collector")
        self.journal_bytes = gauge("journal_bytes", "Size of the journal on disk.")
        self.journal_faults = counter(
            "journal_faults",
            "Faults of the journal by kind: when it could not be written, and what was damaged in it at the start.",
            "kind",
        )
        self.ingest_lag = gauge("ingest_lag_seconds", "Age of the oldest open trace's last data.", "collector")
        self.collector_up = gauge("collector_up", "1 while the collector delivers.", "collector")
        self.poll_lag = gauge("poll_lag_seconds", "How far a polling collector is behind its source.", "collector")
        self.spans_dropped = counter("spans_dropped", "Spans and log records acknowledged and not kept.", "reason")
        self.duplicate_spans = counter("duplicate_spans", "Spans that were delivered more than once.")
        self.late_spans = counter("late_spans", "Spans and log records that came after their trace had settled.")
        self.values_repaired = counter("values_repaired", "Texts that were not valid Unicode and were repaired.")
        self.log_records_received = counter("log_records_received", "Log records in requests that were taken.")
        self.judge_requests = counter("judge_requests", "Calls of a judge by outcome.", "judge", "model", "outcome")
        self.judge_duration = Histogram(
            f"{PREFIX}_judge_request_duration_seconds",
            "Duration of one judge call.",
            ("judge", "model"),
            registry=registry,
            buckets=DURATION_BUCKETS,
        )
        self.judge_tokens = counter(
            "judge_tokens",
            "Tokens of judge calls by type: input and output as the server counted them; unanswered: the estimated prompts of calls that timed out.",
            "judge",
            "model",
            "type",
        )
        self.judge_cost = counter(
            "judge_cost_usd",
            "USD spent on judge calls, where prices are configured; calls that timed out with their estimated prompts.",
            "judge",
            "model",
        )
        self.judge_budget_remaining = gauge(
            "judge_budget_remaining_ratio", "Share of today's budget (UTC) that is left.", "judge"
        )
        self.monitor_budget_remaining = gauge(
            "monitor_budget_remaining_ratio", "Share of a monitor's budget of today (UTC) that is left.", "monitor"
        )
        self.judge_flags = counter(
            "judge_flags", "Verdicts that a person may want to look at, by why.", "judge", "rubric", "flag"
        )
        self.judge_up = gauge(
            "judge_up", "0 while the judge is paused by a fault, or evaluation after evaluation of it fails.", "judge"
        )
        self.reload_successful = gauge(
            "config_last_reload_successful", "1 when the last reload of the configuration took."
        )
        self.reload_timestamp = gauge(
            "config_last_reload_success_timestamp_seconds", "When the configuration in force was loaded."
        )
        for reason in DropReason.ALL:
            self.spans_dropped.labels(reason)

    def expect_collector(self, name: str) -> None:
        """Create a collector's series at 0, so that its first event is seen by `rate`."""
        self.spans_received.labels(name)
        for reason in RejectReason:
            self.spans_rejected.labels(name, reason.value)
        self.open_traces.labels(name).set(0)

    def expect_judge(self, name: str, model: str) -> None:
        """Create a judge's series at 0."""
        self.judge_requests.labels(name, model, "ok")
        self.judge_duration.labels(name, model)
        for kind in ("input", "output"):
            self.judge_tokens.labels(name, model, kind)
        self.judge_up.labels(name).set(1)

    def rejected(self, collector: str, reason: RejectReason, count: int = 1) -> None:
        """Count spans (or requests) that were refused. Thread-safe."""
        self.spans_rejected.labels(collector, reason.value).inc(count)
