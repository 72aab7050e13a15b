"""What the program says of itself: collectors, judges and monitors as the API and `rubricd status` show them."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from collectors.collector import Collector, Polls
from monitor.clock import rfc3339
from monitor.configuration import Configuration
from monitor.judging.judge import Judge
from monitor.sampling import sampling_rule
from monitor.settings.tree import JudgeSettings, MonitorSettings
from monitor.settings.units import duration_text
from monitor.telemetry import Telemetry


def collector_status(collector: Collector, spans_per_second: float | None, open_traces: int) -> dict[str, Any]:
    """A collector: where it listens or what it reads, its problem, spans a second of the last minute, and traces that have not settled."""
    return {
        "name": collector.name,
        "type": collector.name.partition("/")[0],
        "endpoints": list(collector.endpoints),
        "problem": collector.problem,
        "spans_per_second": None if spans_per_second is None else round(spans_per_second, 3),
        "open_traces": open_traces,
        "lag_seconds": round(collector.lag_seconds, 1) if isinstance(collector, Polls) else None,
    }


def judge_status(judge: Judge, problem: str | None, now: float) -> dict[str, Any]:
    """A judge: its model, the host that content goes to, what it has spent today, and why it is paused or fails."""
    use = judge.budget.use(now)
    limits = judge.settings.limits
    return {
        "name": judge.name,
        "model": judge.settings.model,
        "host": judge_host(judge.settings),
        "problem": problem or judge.stopped,
        "tokens_today": use.tokens,
        "usd_today": round(use.usd, 6) if judge.settings.prices else None,
        "tokens_per_day": limits.tokens_per_day,
        "usd_per_day": limits.usd_per_day,
        "budget_remaining_ratio": judge.budget.remaining_ratio(now),
    }


def judge_host(judge: JudgeSettings) -> str:
    """The host and port that content goes to; nothing else of the address."""
    parts = urlsplit(judge.azure.endpoint if judge.azure else judge.base_url)
    return f"{parts.hostname}:{parts.port}" if parts.port else str(parts.hostname)


def monitor_status(name: str, configuration: Configuration, next_run: float | None, pending: int) -> dict[str, Any]:
    """A monitor: what it selects, its rubrics (those that wait for a judge too), schedule, next run, and pending evaluations."""
    settings = configuration.settings.monitors[name]
    resolved = configuration.resolved[name]
    waiting = [one.rubric.name for one in resolved if one.ref is None]
    return {
        "name": name,
        "state": "waiting_for_judge" if len(waiting) == len(resolved) else "active",
        "level": settings.level,
        "select": settings.select.model_dump(exclude_none=True, exclude_defaults=True),
        "schedule": schedule_text(settings),
        "rate": sampling_rule(settings, needs_judge=configuration.needs_judge(name)).rate,
        "rubrics": [
            {
                "name": ref.rubric,
                "version": ref.version,
                "judge": ref.judge,
                "objective": one.objective,
                "shadow": one.shadow,
            }
            for one in resolved
            if (ref := one.ref) is not None
        ],
        "waiting_for_judge": waiting,
        "next_run": rfc3339(next_run) if next_run is not None else None,
        "pending": pending,
        "labels": dict(settings.labels),
    }


def process_status(telemetry: Telemetry, journal_max_bytes: int) -> dict[str, Any]:
    """What this process has counted since its start: by collector, by reason, by judge; the same figures as /metrics."""
    received, rejected = _counted(telemetry.spans_received), _counted(telemetry.spans_rejected)
    open_traces, lag = _counted(telemetry.open_traces), _counted(telemetry.ingest_lag)
    return {
        "journal_bytes": _counted(telemetry.journal_bytes).get((), 0.0),
        "journal_max_bytes": journal_max_bytes,
        "open_traces": sum(open_traces.values()),
        "collectors": {
            name: {
                "spans_received": count,
                "spans_rejected": {reason: n for (of, reason), n in rejected.items() if of == name and n},
                "open_traces": open_traces.get((name,), 0.0),
                "lag_seconds": lag.get((name,)),
            }
            for (name,), count in received.items()
        },
        "spans_dropped": {reason: n for (reason,), n in _counted(telemetry.spans_dropped).items() if n},
        "late_spans": _counted(telemetry.late_spans).get((), 0.0),
        "duplicate_spans": _counted(telemetry.duplicate_spans).get((), 0.0),
        "values_repaired": _counted(telemetry.values_repaired).get((), 0.0),
        "judges": _judge_counts(telemetry),
    }


def _judge_counts(telemetry: Telemetry) -> dict[str, Any]:
    requests = _counted(telemetry.judge_requests)
    calls = _counted(telemetry.judge_duration, "_count")
    took = _counted(telemetry.judge_duration, "_sum")
    return {
        judge: {
            "outcomes": {outcome: n for (of, _, outcome), n in requests.items() if of == judge and n},
            "mean_seconds": took[judge, model] / count if count else None,
        }
        for (judge, model), count in calls.items()
    }


def _counted(metric: Any, suffix: str = "") -> dict[tuple[str, ...], float]:
    """The samples of a metric by the values of their labels; `suffix` picks one of a histogram's."""
    found: dict[tuple[str, ...], float] = {}
    for family in metric.collect():
        wanted = {family.name + suffix} if suffix else {family.name, f"{family.name}_total"}
        found |= {tuple(one.labels.values()): one.value for one in family.samples if one.name in wanted}
    return found


def schedule_text(settings: MonitorSettings) -> str:
    """`every 1m`, or the cron text with its time zone."""
    schedule = settings.schedule
    if schedule.every is not None:
        return f"every {duration_text(schedule.every)}"
    return f"{schedule.cron} {schedule.timezone}"
