"""What the program says of itself: collectors, judges and monitors as the API and `rubricd status` show them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from collectors.collector import Collector, Polls
from monitor.clock import rfc3339
from monitor.configuration import Configuration
from monitor.judging.judge import Judge
from monitor.settings.tree import MonitorSettings
from monitor.settings.units import duration_text


def collector_status(collector: Collector) -> dict[str, Any]:
    """A collector: where it listens or what it reads, and its problem."""
    return {
        "name": collector.name,
        "type": collector.name.partition("/")[0],
        "endpoints": list(collector.endpoints),
        "problem": collector.problem,
        "lag_seconds": round(collector.lag_seconds, 1) if isinstance(collector, Polls) else None,
    }


def judge_status(judge: Judge, paused: str | None, now: float) -> dict[str, Any]:
    """A judge: its model, the host that content goes to, what it has spent today, and why it is paused."""
    use = judge.budget.use(now)
    limits = judge.settings.limits
    return {
        "name": judge.name,
        "model": judge.settings.model,
        "host": judge.settings.azure.endpoint if judge.settings.azure else judge.settings.base_url,
        "problem": paused or judge.stopped,
        "tokens_today": use.tokens,
        "usd_today": round(use.usd, 6) if judge.settings.prices else None,
        "tokens_per_day": limits.tokens_per_day,
        "usd_per_day": limits.usd_per_day,
        "budget_remaining_ratio": judge.budget.remaining_ratio(now),
    }


def monitor_status(name: str, configuration: Configuration, next_run: float | None, pending: int) -> dict[str, Any]:
    """A monitor: what it selects, its rubrics (those that wait for a judge too), schedule, next run, and pending evaluations."""
    settings = configuration.settings.monitors[name]
    resolved = configuration.resolved[name]
    waiting = [one.rubric.name for one in resolved if one.ref is None]
    return {
        "name": name,
        "state": "waiting_for_judge" if len(waiting) == len(resolved) else "active",
        "select": settings.select.model_dump(exclude_none=True, exclude_defaults=True),
        "schedule": schedule_text(settings),
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


def schedule_text(settings: MonitorSettings) -> str:
    """`every 1m`, or the cron text with its time zone."""
    schedule = settings.schedule
    if schedule.every is not None:
        return f"every {duration_text(schedule.every)}"
    return f"{schedule.cron} {schedule.timezone}"


def problems(collectors: Sequence[Collector], judges: Mapping[str, str]) -> list[str]:
    """One line for each collector or judge that does not work."""
    found = [f"collector {one.name}: {one.problem}" for one in collectors if one.problem]
    return found + [f"judge {name}: {reason}" for name, reason in judges.items()]
