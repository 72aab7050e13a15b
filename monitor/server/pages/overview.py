"""The overview: all monitors with their pass rates, what is wrong, and why nothing is judged where nothing is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from monitor.model.run import Run, Tally
from monitor.model.watched import WatchedMonitor
from monitor.passrates import PassRate
from monitor.server.context import Status
from monitor.server.pages.asked import Asked, Desk, Rendered
from monitor.server.pages.reasons import MonitorCounts, counts, why_nothing
from monitor.server.pages.standing import Row, chosen_window, open_alarms, rates_of, rows_of


@dataclass(frozen=True, slots=True)
class Card:
    """One monitor of the overview."""

    status: Status
    window: str
    rows: Sequence[Row]
    floor: float
    last_run: Run | None
    counts: MonitorCounts
    reasons: Sequence[str]


def overview(desk: Desk, asked: Asked) -> Rendered:
    """All monitors."""
    known = rates_of(desk)
    rates: Sequence[PassRate] = known.value if known is not None else ()
    alarms, tallies = open_alarms(desk), desk.context.store.tallies()
    watched = {monitor.name: monitor for monitor in desk.context.watched()}
    open_traces = desk.context.process().get("open_traces")
    cards = [
        _card(desk, status, watched[status["name"]], rates, alarms, tallies, open_traces, known is not None)
        for status in asked.monitors
        if status["name"] in watched
    ]
    values: Mapping[str, Any] = {
        "cards": cards,
        "alarms": alarms,
        "problems": [one for one in (*asked.collectors, *asked.judges) if one.get("problem")],
        "judges": asked.judges,
        "figures_at": known.at if known is not None else None,
        "refresh": None if known is not None else 2,
    }
    return Rendered("overview.html", values)


def _card(
    desk: Desk, status: Status, monitor: WatchedMonitor, rates: Sequence[PassRate], alarms: Sequence[Status],
    tallies: Sequence[Tally], open_traces: int | None, known: bool,
) -> Card:  # fmt: skip
    window = chosen_window(monitor, rates, None)
    rows, floor = rows_of(monitor, rates, window, alarms)
    counted = counts(tallies, monitor.name)
    current = [row for row in rows if row.rubric is not None]
    judged = any(row.rate.estimate.judged for row in rows)
    reasons = [] if judged or not known else why_nothing(status, counted, open_traces)
    return Card(status, window, current or rows, floor, desk.context.store.last_run(monitor.name), counted, reasons)
