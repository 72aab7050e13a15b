"""Health: collectors and what their telemetry lacks, judges, journal and backlog, runs that failed. The facts of `rubricd status`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from monitor.model.browsing import DIALECTS_FROM, DialectCount
from monitor.model.run import Query
from monitor.model.tallies import TallyName
from monitor.server.pages.asked import Asked, Desk, Rendered

BAD_RUNS_SHOWN = 10


def health(desk: Desk, asked: Asked) -> Rendered:
    """How the daemon itself is."""
    store, process = desk.context.store, desk.context.process()
    known = desk.kept.get("dialects", lambda: store.dialects(DIALECTS_FROM))
    pending = {one.monitor: one for one in store.pending(asked.now)}
    values: Mapping[str, Any] = {
        "readiness": desk.context.readiness(),
        "collectors": asked.collectors,
        "process": process,
        "dialects": _by_collector(known.value if known is not None else ()),
        "dialects_from": DIALECTS_FROM,
        "judges": asked.judges,
        "errors": _errors(desk),
        "monitors": asked.monitors,
        "pending": pending,
        "runs": {status["name"]: store.last_run(status["name"]) for status in asked.monitors},
        "bad_runs": _bad_runs(desk),
        "refresh": None if known is not None else 2,
    }
    return Rendered("health.html", values)


def _by_collector(found: Sequence[DialectCount]) -> dict[str, list[DialectCount]]:
    grouped: dict[str, list[DialectCount]] = {}
    for one in found:
        grouped.setdefault(one.collector, []).append(one)
    return grouped


def _errors(desk: Desk) -> list[tuple[str, str, str, int]]:
    """(monitor, rubric, reason, count) of evaluations that failed, most frequent first."""
    found = [
        (tally.labels["monitor"], tally.labels["rubric"], tally.labels["reason"], int(tally.value))
        for tally in desk.context.store.tallies()
        if tally.metric == TallyName.EVALUATION_ERRORS and tally.value
    ]
    return sorted(found, key=lambda one: -one[3])


def _bad_runs(desk: Desk) -> Sequence[Mapping[str, Any]]:
    found = [
        run
        for outcome in ("failed", "missed")
        for run in desk.context.store.list_runs(Query(state=outcome, limit=BAD_RUNS_SHOWN)).items
    ]
    return sorted(found, key=lambda run: str(run["tick"]), reverse=True)[:BAD_RUNS_SHOWN]
