"""Alerts that hold whatever monitors there are: what a chart or an image ships, which cannot know the configuration that it will run.

What goes by a schedule reads it from `rubricd_run_interval_seconds`. What goes by an objective's burn rate or by a monitor's own labels is missing:
for those the rules are made from the configuration.
"""

from __future__ import annotations

from collections.abc import Iterator

from monitor.exporters.rules.burn import HOUR, MINUTE
from monitor.exporters.rules.operation import OperationAlerts
from monitor.exporters.rules.promql import number, seconds
from monitor.exporters.rules.rule import Alert, AlertName, Severity
from monitor.exporters.rules.source import RuledMonitor, alert_labels
from monitor.exporters.rules.wording import PIPELINE, label

DAY = 24 * HOUR
NAME = "rubricd-monitors"
"""Of the group."""

ANY_MONITOR = RuledMonitor("", (), 60.0, 60.0, regression=True)
"""Stands for whatever monitors there are, each of which may have objectives."""


class AnyMonitorAlerts(OperationAlerts):
    """The alerts on the instrument, for monitors and judges that are not known by name."""

    def alerts(self) -> Iterator[Alert]:
        """Judges, runs, backlog and spend of every monitor, and that there is none."""
        yield self._errors()
        yield self._drift(None, None)
        yield self._paused(None)
        yield self._stalled()
        yield self._nothing_drawn()
        yield self._backlog()
        yield self._spend(None)
        yield self._own_spend()
        yield self._down()

    @property
    def _gap(self) -> str:
        return f"max {self._selectors.by('monitor')} ({self._of('rubricd_run_interval_seconds')})"

    def _stalled(self) -> Alert:
        """As for a known schedule: the longest gap, and as much again or twice, but at least ten minutes and at most an hour."""
        by, on = self._selectors.by("monitor"), self._selectors.on("monitor")
        last = f"max {by} ({self._of('rubricd_run_last_success_timestamp_seconds')})"
        allowed = f"({self._gap} + clamp(2 * {self._gap}, {number(10 * MINUTE)}, {number(HOUR)}))"
        never = "\nor\n".join(
            f"((max {by} ({self._of('rubricd_monitor_info')} offset {seconds(age)}) and {on} {self._gap} {which}) unless {on} {last})"
            for age, which in ((2 * HOUR, f"<= {number(HOUR)}"), (8 * DAY, f"> {number(HOUR)}"))
        )
        return Alert(
            AlertName.RUN_STALLED,
            f"time() - {last} > {on} {allowed}\nor\n{never}",
            alert_labels(self._monitor, Severity.TICKET, problem="not_running"),
            self._wording.annotations(
                AlertName.RUN_STALLED,
                f"Monitor {label('monitor')} does not run",
                f"No run of monitor {label('monitor')} was done for longer than its schedule allows: its pass rates stand still.",
                dashboard=PIPELINE,
                look="/api/v1/runs",
            ),
            pending=MINUTE,
        )

    def _backlog(self) -> Alert:
        by, on = self._selectors.by("monitor"), self._selectors.on("monitor")
        waits = f"max {by} ({self._of('rubricd_oldest_pending_seconds')})"
        return Alert(
            AlertName.BACKLOG_OLD,
            f"{waits} > {on} clamp_min(2 * {self._gap}, {number(15 * MINUTE)})",
            alert_labels(self._monitor, Severity.TICKET),
            self._backlog_text(),
            pending=5 * MINUTE,
        )

    def _down(self) -> Alert:
        return Alert(
            AlertName.DOWN,
            f"absent_over_time({self._of('rubricd_monitor_info')}[5m])",
            alert_labels(self._monitor, Severity.PAGE),
            self._judges.annotations(
                AlertName.DOWN,
                "Nothing measures the agents",
                "No rubricd shows a monitor since five minutes: it is down, not scraped, or does not hold the export lease.",
                dashboard=PIPELINE,
                look="/readyz",
            ),
            pending=MINUTE,
        )
