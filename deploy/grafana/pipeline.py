"""The pipeline: spans in, invocations settled, runs done, nothing left waiting."""

from __future__ import annotations

from grafana_foundation_sdk.builders.dashboard import Dashboard

from deploy.grafana.panels import (
    BYTES,
    HALF,
    PER_SECOND,
    SECONDS,
    THIRD,
    WHOLE,
    Query,
    cells,
    dashboard,
    figure,
    lines,
    row,
)

COLLECTOR, MONITOR = 'collector=~"$collector"', 'monitor=~"$monitor"'
RATE = "[$__rate_interval]"


def pipeline() -> Dashboard:
    """Whether what agents send becomes verdicts."""
    made = dashboard(
        "rubricd-pipeline",
        "rubricd: pipeline health",
        "Spans received, refused, dropped and settled; invocations, runs, backlog, and the process itself.",
        ("monitor", "collector"),
    )
    row(made, "Now", *_figures())
    row(made, "Intake", *_intake())
    row(made, "Invocations and runs", *_runs())
    row(made, "Process", *_process())
    return made


def _figures() -> tuple[object, ...]:
    return (
        figure("Collectors not delivering", "Collectors with a problem; /api/v1/collectors says which.",
               Query(f"count(rubricd_collector_up{{{COLLECTOR}}} == 0) or vector(0)"), bad_above=1),
        figure("Oldest pending", "Age of the oldest evaluation without a result.",
               Query(f"max(rubricd_oldest_pending_seconds{{{MONITOR}}})"), SECONDS, bad_above=900),
        figure("Since the last run", "The longest time since a monitor's last run was done, in intervals of its schedule.",
               Query(f"max((time() - max by (monitor) (rubricd_run_last_success_timestamp_seconds{{{MONITOR}}}))"
                     f" / max by (monitor) (rubricd_run_interval_seconds{{{MONITOR}}}))"), bad_above=3),
        figure("Export leader", "Processes that show the figures of the store: exactly one.", Query("sum(rubricd_export_leader)")),
    )  # fmt: skip


def _per_second(metric: str, by: str, matchers: str = "", *, legend: str) -> Query:
    selector = f"rubricd_{metric}{{{matchers}}}" if matchers else f"rubricd_{metric}"
    grouped = f"sum by ({by}) " if by else "sum"
    return Query(f"{grouped}(rate({selector}{RATE}))", legend)


def _intake() -> tuple[object, ...]:
    return (
        lines("Received", "Spans and log records that were taken.",
              _per_second("spans_received_total", "collector", COLLECTOR, legend="{{collector}} spans"),
              _per_second("log_records_received_total", "", legend="log records"), unit=PER_SECOND, span=THIRD),
        lines("Refused", "Spans that senders were told to send again or to mend.",
              _per_second("spans_rejected_total", "collector, reason", COLLECTOR, legend="{{collector}} {{reason}}"), unit=PER_SECOND, span=THIRD),
        lines("Not kept", "Taken and dropped, by reason; duplicates; late; repaired text; faults of the journal.",
              _per_second("spans_dropped_total", "reason", legend="{{reason}}"), _per_second("duplicate_spans_total", "", legend="duplicates"),
              _per_second("late_spans_total", "", legend="late"), _per_second("values_repaired_total", "", legend="texts repaired"),
              _per_second("journal_faults_total", "kind", legend="journal {{kind}}"),
              unit=PER_SECOND, span=THIRD),
        lines("Open traces", "Traces that have not settled.", Query(f"sum by (collector) (rubricd_open_traces{{{COLLECTOR}}})", "{{collector}}"), span=THIRD),
        lines("Journal", "Size of the journal on disk.", Query("sum(rubricd_journal_bytes)", "journal"), unit=BYTES, span=THIRD),
        lines("Collectors up", "1 while the collector delivers.", Query(f"min by (collector) (rubricd_collector_up{{{COLLECTOR}}})", "{{collector}}"), span=THIRD),
        lines("Behind the source", "How far each polling collector is behind its source.",
              Query(f"max by (collector) (rubricd_poll_lag_seconds{{{COLLECTOR}}})", "{{collector}}"), unit=SECONDS, span=HALF),
        lines("Ingest lag", "Age of the oldest open trace's last data.",
              Query(f"max by (collector) (rubricd_ingest_lag_seconds{{{COLLECTOR}}})", "{{collector}}"), unit=SECONDS, span=HALF),
    )  # fmt: skip


def _runs() -> tuple[object, ...]:
    return (
        lines("Settled", "Invocations by what made them settle, and spans of settled traces.",
              _per_second("invocations_total", "settled_by", legend="{{settled_by}}"), _per_second("spans_settled_total", "", legend="spans"),
              unit=PER_SECOND, span=THIRD),
        lines("Runs", "Runs of schedules by outcome.",
              Query(f"sum by (monitor, outcome) (increase(rubricd_runs_total{{{MONITOR}}}{RATE}))", "{{monitor}} {{outcome}}"), span=THIRD),
        lines("Since the last run", "Time since each monitor's last run was done.",
              Query(f"time() - max by (monitor) (rubricd_run_last_success_timestamp_seconds{{{MONITOR}}})", "{{monitor}}"), unit=SECONDS, span=THIRD),
        lines("Drawn", "Invocations drawn, and left out by reason.",
              _per_second("selected_total", "monitor", MONITOR, legend="{{monitor}} drawn"),
              _per_second("not_selected_total", "monitor, reason", MONITOR, legend="{{monitor}} {{reason}}"), unit=PER_SECOND, span=THIRD),
        lines("Pending", "Drawn evaluations without a result.", Query(f"sum by (monitor) (rubricd_evaluations_pending{{{MONITOR}}})", "{{monitor}}"), span=THIRD),
        lines("Oldest pending", "How long the oldest has waited.", Query(f"max by (monitor) (rubricd_oldest_pending_seconds{{{MONITOR}}})", "{{monitor}}"),
              unit=SECONDS, span=THIRD),
    )  # fmt: skip


def _process() -> tuple[object, ...]:
    return (
        lines("Configuration", "1 while the last reload took, and how old what is in force is.",
              Query("min(rubricd_config_last_reload_successful)", "last reload took"),
              Query("(time() - max(rubricd_config_last_reload_success_timestamp_seconds)) / 86400", "age in days"), span=THIRD),
        lines("Series folded", "Label sets folded into `other` past the limits.", Query("sum by (metric) (rubricd_series_folded_total)", "{{metric}}"), span=THIRD),
        cells("Running", "Versions that are scraped.", [("running", Query("rubricd_build_info"))], hidden=("__name__", "job"), span=THIRD),
        cells("Monitors in force", "Monitors with their labels.", [("in force", Query(f"rubricd_monitor_info{{{MONITOR}}}"))],
              hidden=("__name__", "job", "instance"), span=WHOLE),
    )  # fmt: skip
