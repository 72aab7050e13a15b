"""Answers as JSON: what the store and the program say, in the shape of the contract. Pure; called from threads, for content can be large."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from monitor.clock import rfc3339
from monitor.estimation.judge_error import Corrected
from monitor.model.browsing import DialectCount
from monitor.model.run import Page, Run, StoredTrace
from monitor.model.wire import invocation_json
from monitor.passrates import PassRate
from monitor.server.context import Readiness, Status


def to_json(value: Any) -> bytes:
    """Any value as UTF-8 JSON. Numbers that JSON does not have become null; half a surrogate pair becomes `?`."""
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    except ValueError:
        text = json.dumps(_finite(value), ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8", "replace")


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, list | tuple) else value


def listing(page: Page) -> Mapping[str, Any]:
    """A page of a listing."""
    return {"items": page.items, "next_cursor": page.next_cursor}


def whole(items: Sequence[Any]) -> Mapping[str, Any]:
    """A listing that is one page."""
    return {"items": list(items), "next_cursor": None}


def with_trace_links(items: Sequence[dict[str, Any]], template: str | None) -> Sequence[dict[str, Any]]:
    """Verdicts with the address of their trace in `links.trace`."""
    if template is None:
        return items
    return [{**item, "links": {"trace": template.replace("{trace_id}", item["trace_id"])}} for item in items]


def trace_json(trace: StoredTrace) -> Mapping[str, Any]:
    """A settled trace with its invocations."""
    return {
        "trace_id": trace.trace_id,
        "settled_by": trace.settled_by,
        "settled_at": rfc3339(trace.settled_at),
        "late_spans": trace.late_spans,
        "invocations": [invocation_json(stored.invocation) for stored in trace.invocations],
    }


def monitor_json(monitor: Status, last_run: Run | None, rates: Sequence[PassRate]) -> Mapping[str, Any]:
    """A monitor as the program tells of it, with its last run and its pass rates."""
    return {**monitor, "last_run": run_json(last_run), "pass_rates": [pass_rate_json(rate) for rate in rates]}


def run_json(run: Run | None) -> Mapping[str, Any] | None:
    """A run with its times as RFC 3339."""
    if run is None:
        return None
    finished = rfc3339(run.finished_at) if run.finished_at is not None else None
    return asdict(run) | {
        "tick": rfc3339(run.tick),
        "started_at": rfc3339(run.started_at),
        "finished_at": finished,
    }


def pass_rate_json(rate: PassRate) -> Mapping[str, Any]:
    """A pass rate with its bounds; an unknown version or environment is null."""
    group, found = rate.group, rate.estimate
    return {
        "rubric": group.rubric,
        "rubric_version": group.rubric_version,
        "agent": group.agent,
        "agent_version": group.agent_version or None,
        "environment": group.environment or None,
        "window": rate.window,
        "rate": found.rate,
        "lower": found.lower,
        "upper": found.upper,
        "corrected": corrected_json(rate.corrected),
        "interval": found.method.value if found.method else None,
        "worst": found.worst,
        "best": found.best,
        "effective_samples": found.effective_samples,
        "judged": found.judged,
        "unscored": found.unscored,
        "coverage": rate.coverage,
        "reliable": found.reliable,
    }


def corrected_json(found: Corrected | None) -> Mapping[str, Any] | None:
    """A rate corrected for the judge's errors; null where that is refused."""
    if found is None:
        return None
    return {"rate": found.rate, "lower": found.interval[0], "upper": found.interval[1]}


def dialect_json(one: DialectCount) -> Mapping[str, Any]:
    """A dialect of an agent: `missing` by field and `capture` by reason count invocations, of the `looked_at` ones."""
    return {
        "collector": one.collector,
        "agent": one.agent,
        "convention": one.convention,
        "invocations": one.count,
        "looked_at": one.read,
        "missing": dict(one.missing),
        "capture": dict(one.capture),
    }


def regression_json(alarm: Status, trace_link: str | None) -> Mapping[str, Any]:
    """An alarm with its times as RFC 3339, and a link to each failing trace."""
    times = {
        name: rfc3339(alarm[name]) if alarm[name] is not None else None for name in ("since", "opened_at", "closed_at")
    }
    failing = [
        {
            **one,
            "ended_at": rfc3339(one["ended_at"]),
            "links": {"trace": trace_link.replace("{trace_id}", one["trace_id"]) if trace_link else None},
        }
        for one in alarm["failing"]
    ]
    return {**alarm, **times, "failing": failing}


def readiness_json(
    readiness: Readiness, collectors: Sequence[Status], judges: Sequence[Status], server: str | None = None
) -> Mapping[str, Any]:
    """Where the process stands, and what is wrong with journal, the server's own port, collectors and judges: that alone makes nothing unready."""
    journal = [{"name": "journal", "problem": readiness.damage}]
    port = [{"name": "server.endpoint", "problem": server}]
    return {
        "status": readiness.phase.value,
        "detail": readiness.detail or None,
        "problems": [
            {"kind": kind, "name": status.get("name"), "problem": status["problem"]}
            for kind, statuses in (("journal", journal), ("server", port), ("collector", collectors), ("judge", judges))
            for status in statuses
            if status.get("problem")
        ],
    }
