"""One monitor: pass rates over time, what its criteria cost, its regressions, and the newest failing answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from http import HTTPStatus
from typing import Any

from monitor.model.browsing import AnswerQuery
from monitor.model.totals import WindowFigures
from monitor.model.watched import WatchedMonitor
from monitor.passrates import PassRate
from monitor.server.pages import history
from monitor.server.pages.asked import Asked, Desk, GoTo, Rendered
from monitor.server.pages.chart import Plot, plot
from monitor.server.pages.criteria import CriterionCost, ranked
from monitor.server.pages.kept import Known
from monitor.server.pages.reasons import NOT_SELECTED, counts, why_nothing
from monitor.server.pages.rendering import href
from monitor.server.pages.standing import chosen_window, rates_of, rows_of, windows_of
from monitor.server.problems import Refused
from monitor.settings.units import duration_text, parse_duration

CRITERIA_FROM = 5_000
"""Verdicts, the newest of a monitor in a window, that the ranking of criteria is made of."""
FAILING_SHOWN = 8
MOST_PLOTS = 12


def monitor_page(desk: Desk, asked: Asked) -> Rendered:
    """The page of the monitor named in the path. Raises Refused with 404 when the configuration has none of that name."""
    name = asked.path["name"]
    monitor = next((one for one in desk.context.watched() if one.name == name), None)
    status = next((one for one in asked.monitors if one["name"] == name), None)
    if monitor is None or status is None:
        raise Refused(HTTPStatus.NOT_FOUND, "no monitor of that name is configured; the overview lists them")
    known = rates_of(desk)
    rates: Sequence[PassRate] = known.value if known is not None else ()
    window = chosen_window(monitor, rates, asked.query.get("window"))
    alarms = [alarm for alarm in desk.context.regressions() if alarm["monitor"] == name]
    rows, floor = rows_of(monitor, rates, window, [alarm for alarm in alarms if alarm["state"] == "open"])
    lines = _history(desk, monitor, window, asked.now)
    costs = _costs(desk, monitor, window, asked.now)
    counted = counts(desk.context.store.tallies(), name)
    judged = any(row.rate.estimate.judged for row in rows)
    values: Mapping[str, Any] = {
        "monitor": monitor,
        "status": status,
        "window": window,
        "windows": windows_of(monitor),
        "rows": rows,
        "floor": floor,
        "alarms": alarms,
        "plots": _plots(monitor, lines.value)[:MOST_PLOTS] if lines is not None else [],
        "more_plots": max(0, len(lines.value) - MOST_PLOTS) if lines is not None else 0,
        "costs": costs.value if costs is not None else {},
        "counts": counted,
        "not_selected": NOT_SELECTED,
        "reasons": []
        if judged or known is None
        else why_nothing(status, counted, desk.context.process().get("open_traces")),
        "last_run": desk.context.store.last_run(name),
        "failing": _failing(desk, name, window, asked) if asked.visitor.content else None,
        "since": window,
        "figures_at": known.at if known is not None else None,
        "refresh": None if None not in (known, lines, costs) else 2,
    }
    return Rendered("monitor.html", values)


def acknowledge(desk: Desk, asked: Asked) -> GoTo:
    """End an alarm; back to its monitor. Raises Refused with 404 where none of that id stands."""
    found = desk.context.acknowledge(asked.path["id"])
    if found is None:
        raise Refused(HTTPStatus.NOT_FOUND, "no regression of that id stands; somebody may have been faster")
    return GoTo(href("/monitors/{}", found["monitor"]) + "#regressions")


def _history(desk: Desk, monitor: WatchedMonitor, window: str, now: float) -> Known[list[history.Line]] | None:
    at = history.edges(_seconds(monitor, window), now)

    def read(start: float, end: float) -> WindowFigures:
        return desk.context.store.window_figures(monitor.name, [start], end)

    return desk.kept.get(
        ("history", monitor.name, monitor.rubrics, window), partial(history.history, monitor, at, read)
    )


def _costs(
    desk: Desk, monitor: WatchedMonitor, window: str, now: float
) -> Known[dict[str, list[CriterionCost]]] | None:
    since = now - _seconds(monitor, window)

    def make() -> dict[str, list[CriterionCost]]:
        return ranked(desk.context.store.criteria_counts(monitor.name, since, now, CRITERIA_FROM))

    return desk.kept.get(("criteria", monitor.name, window), make)


def _seconds(monitor: WatchedMonitor, window: str) -> float:
    return next((one for one in monitor.windows if duration_text(one) == window), parse_duration(window))


def _plots(monitor: WatchedMonitor, lines: Sequence[history.Line]) -> list[Plot]:
    objectives = {rubric.rubric: rubric.objective for rubric in monitor.rubrics}
    return [plot(line, objectives[line.rubric]) for line in lines]


def _failing(desk: Desk, monitor: str, window: str, asked: Asked) -> Sequence[Mapping[str, Any]]:
    since = asked.now - parse_duration(window)
    query = AnswerQuery(monitor=monitor, verdict="fail", since=since, limit=FAILING_SHOWN)
    return desk.context.store.list_answers(query).items
