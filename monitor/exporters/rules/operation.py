"""Alerts on the instrument itself: judges, runs, backlog, spend, intake, and whether anybody measures at all."""

from __future__ import annotations

from collections.abc import Iterator

from monitor.exporters.rules.burn import HOUR, MINUTE
from monitor.exporters.rules.promql import Selectors, all_of, number, one_of, seconds
from monitor.exporters.rules.rule import Alert, AlertName, Severity
from monitor.exporters.rules.source import RuledMonitor, RuledRubric, alert_labels
from monitor.exporters.rules.wording import DURATION, JUDGE, PERCENT, PIPELINE, Wording, label
from monitor.settings.units import duration_text

ERROR_SHARE, LEAST_ERRORS = 0.1, 5
"""Which share of evaluations that fail for good, and how many at least, mean that the judge is broken rather than unlucky."""
AGREEMENT, AGREEMENT_DROP = 0.8, 0.1
"""Agreement below this, or this much below its mean of a week, means that the judge has moved."""
BUDGET_LEFT = 0.1
NOT_DRAWN = ("missed", "over_budget", "over_cap")
"""Reasons for which eligible invocations are not drawn; drawn by chance or left out by a filter is no trouble."""


class OperationAlerts:
    """The alerts that say whether one monitor's figures can be trusted."""

    def __init__(self, monitor: RuledMonitor, selectors: Selectors, wording: Wording) -> None:
        self._monitor = monitor
        self._selectors = selectors
        self._wording = wording
        self._judges = wording.of_judges()

    def alerts(self) -> Iterator[Alert]:
        """Judges, runs, backlog and spend of the monitor, and its absence."""
        yield self._errors()
        for rubric in self._monitor.rubrics:
            if rubric.judge is not None:
                yield self._drift(rubric, rubric.judge)
        yield from (self._paused(judge) for judge in self._monitor.judges)
        yield self._stalled()
        yield self._nothing_drawn()
        yield self._backlog()
        yield from (self._spend(judge) for judge in self._monitor.limited_judges)
        if self._monitor.has_budget:
            yield self._own_spend()
        yield self._down()

    def _of(self, metric: str, among: str | None = None, **labels: str) -> str:
        return self._selectors.of(metric, among, **self._monitor.matching, **labels)

    def _errors(self) -> Alert:
        window = max(30 * MINUTE, 4 * self._monitor.interval)
        by, span = self._selectors.by("monitor", "rubric"), seconds(window)
        errors = f"sum {by} (increase({self._of('rubricd_evaluation_errors_total')}[{span}]))"
        verdicts = f"sum {by} (increase({self._of('rubricd_verdicts_total')}[{span}]))"
        return Alert(
            AlertName.JUDGE_FAILING,
            all_of(
                f"{errors} / ({errors} + ({verdicts} or 0 * {errors})) > {number(ERROR_SHARE)}",
                f"{errors} >= {LEAST_ERRORS}",
            ),
            alert_labels(self._monitor, Severity.TICKET, problem="errors"),
            self._wording.annotations(
                AlertName.JUDGE_FAILING,
                f"Evaluations of {label('rubric')} fail",
                f"{PERCENT} of the evaluations of {label('rubric')} in monitor {label('monitor')} failed for good within {duration_text(window)}. "
                "They are no verdicts: pass rates rest on what is left.",
                dashboard=JUDGE,
                look="/api/v1/evaluations?state=error",
                labels=("rubric",),
            ),
            keep_firing=max(5 * MINUTE, 2 * self._monitor.interval),
        )

    def _paused(self, judge: str | None) -> Alert:
        named = _given(judge=judge)
        return Alert(
            AlertName.JUDGE_FAILING,
            f"min {self._selectors.by('judge')} ({self._selectors.of('rubricd_judge_up', **named)}) == 0",
            alert_labels(self._monitor, Severity.TICKET, problem="paused", **named),
            self._judges.annotations(
                AlertName.JUDGE_FAILING,
                f"Judge {label('judge')} is paused or fails again and again",
                f"Judge {label('judge')} refuses to work until somebody changes something (key, model, address), or only failures come from it: evaluations wait.",
                dashboard=JUDGE,
                look="/api/v1/judges",
            ),
            pending=5 * MINUTE,
        )

    def _drift(self, rubric: RuledRubric | None, judge: str | None) -> Alert:
        named = _given(rubric=rubric.name if rubric else None, judge=judge)
        selected = self._selectors.of("rubricd_judge_agreement_ratio", one_of("against", ("golden", "self")), **named)
        by = self._selectors.by("rubric", "judge", "against")
        now = f"min {by} ({selected})"
        return Alert(
            AlertName.JUDGE_DRIFT,
            f"{now} < {number(AGREEMENT)}\nor\n{now} < min {by} (avg_over_time({selected}[7d])) - {number(AGREEMENT_DROP)}",
            alert_labels(self._monitor, Severity.TICKET, **named),
            self._judges.annotations(
                AlertName.JUDGE_DRIFT,
                f"Judge {label('judge')} no longer agrees with itself on {label('rubric')}",
                f"Agreement ({label('against')}) is {PERCENT}. The instrument moved: quality alarms of {label('rubric')} are in doubt.",
                dashboard=JUDGE,
                look="/api/v1/verdicts?since=1d",
                labels=("rubric",),
            ),
            pending=10 * MINUTE,
        )

    def _stalled(self) -> Alert:
        """Runs have stopped being done, or a monitor that has been there for as long has had none ever."""
        gap = self._monitor.longest_gap
        allowed = gap + max(10 * MINUTE, min(2 * gap, HOUR))
        by, on = self._selectors.by("monitor"), self._selectors.on("monitor")
        last = f"max {by} ({self._of('rubricd_run_last_success_timestamp_seconds')})"
        info = self._of("rubricd_monitor_info")
        old_enough = f"max {by} ({info} offset {seconds(allowed)}) and {on} max {by} ({info})"
        return Alert(
            AlertName.RUN_STALLED,
            f"time() - {last} > {number(allowed)}\nor\n(({old_enough}) unless {on} {last})",
            alert_labels(self._monitor, Severity.TICKET, problem="not_running"),
            self._wording.annotations(
                AlertName.RUN_STALLED,
                f"Monitor {label('monitor')} does not run",
                f"No run of monitor {label('monitor')} was done for longer than {duration_text(allowed)}, though one is due at least every "
                f"{duration_text(gap)}: its pass rates stand still.",
                dashboard=PIPELINE,
                look="/api/v1/runs",
            ),
            pending=MINUTE,
        )

    def _nothing_drawn(self) -> Alert:
        window = max(HOUR, 4 * self._monitor.interval)
        by, on, span = self._selectors.by("monitor"), self._selectors.on("monitor"), seconds(window)
        left = self._of("rubricd_not_selected_total", one_of("reason", NOT_DRAWN))
        drawn = self._of("rubricd_selected_total")
        return Alert(
            AlertName.RUN_STALLED,
            f"sum {by} (increase({left}[{span}])) > 0\nand {on} sum {by} (increase({drawn}[{span}])) == 0",
            alert_labels(self._monitor, Severity.TICKET, problem="nothing_drawn"),
            self._wording.annotations(
                AlertName.RUN_STALLED,
                f"Monitor {label('monitor')} draws nothing",
                f"Invocations were eligible for monitor {label('monitor')} within {duration_text(window)}, and none was drawn: its cap or budget "
                "is used up, or ticks were missed.",
                dashboard=PIPELINE,
                look="/api/v1/runs",
            ),
            pending=5 * MINUTE,
        )

    def _backlog(self) -> Alert:
        allowed = max(15 * MINUTE, 2 * self._monitor.interval)
        by = self._selectors.by("monitor")
        return Alert(
            AlertName.BACKLOG_OLD,
            f"max {by} ({self._of('rubricd_oldest_pending_seconds')}) > {number(allowed)}",
            alert_labels(self._monitor, Severity.TICKET),
            self._backlog_text(),
            pending=5 * MINUTE,
        )

    def _backlog_text(self) -> dict[str, str]:
        return self._wording.annotations(
            AlertName.BACKLOG_OLD,
            f"Evaluations of monitor {label('monitor')} wait",
            f"The oldest drawn evaluation of monitor {label('monitor')} has waited for {DURATION}: the judge is slow, limited or away.",
            dashboard=PIPELINE,
            look="/api/v1/evaluations?state=pending",
        )

    def _spend(self, judge: str | None) -> Alert:
        named = _given(judge=judge)
        left = self._selectors.of("rubricd_judge_budget_remaining_ratio", **named)
        drawn = "that this monitor draws" if self._monitor.name else "that monitors draw for it"
        return Alert(
            AlertName.SPEND_NEAR_LIMIT,
            f"min {self._selectors.by('judge')} ({left}) < {number(BUDGET_LEFT)}",
            alert_labels(self._monitor, Severity.TICKET, **named),
            self._judges.annotations(
                AlertName.SPEND_NEAR_LIMIT,
                f"The day's budget of judge {label('judge')} is nearly spent",
                f"{PERCENT} of today's budget (UTC) of judge {label('judge')} is left. When it is gone, "
                f"the invocations {drawn} are not judged until midnight UTC.",
                dashboard=JUDGE,
                look="/api/v1/judges",
            ),
            keep_firing=5 * MINUTE,
        )

    def _own_spend(self) -> Alert:
        left = self._of("rubricd_monitor_budget_remaining_ratio")
        return Alert(
            AlertName.SPEND_NEAR_LIMIT,
            f"min {self._selectors.by('monitor')} ({left}) < {number(BUDGET_LEFT)}",
            alert_labels(self._monitor, Severity.TICKET, problem="monitor_budget"),
            self._wording.annotations(
                AlertName.SPEND_NEAR_LIMIT,
                f"The day's budget of monitor {label('monitor')} is nearly spent",
                f"{PERCENT} of today's budget (UTC) of monitor {label('monitor')} is left. Fewer invocations are drawn the less is left, "
                "and none once it is gone.",
                dashboard=JUDGE,
                look="/api/v1/runs",
            ),
            keep_firing=5 * MINUTE,
        )

    def _down(self) -> Alert:
        """Nobody shows this monitor: the daemon or its scrape is down, it does not hold the export lease, or it no longer has the monitor."""
        return Alert(
            AlertName.DOWN,
            f"absent_over_time({self._of('rubricd_monitor_info')}[5m])",
            alert_labels(self._monitor, Severity.PAGE),
            self._wording.annotations(
                AlertName.DOWN,
                f"Nothing measures monitor {label('monitor')}",
                f"No rubricd shows monitor {label('monitor')} since five minutes: it is down, not scraped, does not hold the export lease, or "
                "its configuration no longer has the monitor (then generate the rules anew).",
                dashboard=PIPELINE,
                look="/readyz",
            ),
            pending=MINUTE,
        )


def _given(**labels: str | None) -> dict[str, str]:
    """Those labels that are known."""
    return {name: value for name, value in labels.items() if value is not None}


def daemon_alerts(selectors: Selectors, wording: Wording, alone: bool) -> Iterator[Alert]:
    """The alerts that belong to no monitor: intake, and the daemon's absence where no monitor would tell it (`alone`)."""
    rejected = (
        f"sum {selectors.by('collector', 'reason')} (increase({selectors.of('rubricd_spans_rejected_total')}[10m]))"
    )
    yield Alert(
        AlertName.INTAKE_REJECTING,
        f"{rejected} > 0",
        {"severity": Severity.TICKET.value, "problem": "rejecting"},
        wording.annotations(
            AlertName.INTAKE_REJECTING,
            f"Collector {label('collector')} refuses spans ({label('reason')})",
            f"Spans sent to collector {label('collector')} have been refused for more than five minutes, reason {label('reason')}: "
            "invocations may be missing from every pass rate.",
            dashboard=PIPELINE,
            look="/api/v1/collectors",
        ),
        pending=5 * MINUTE,
        keep_firing=5 * MINUTE,
    )
    yield Alert(
        AlertName.INTAKE_REJECTING,
        f"min {selectors.by('collector')} ({selectors.of('rubricd_collector_up')}) == 0",
        {"severity": Severity.TICKET.value, "problem": "not_delivering"},
        wording.annotations(
            AlertName.INTAKE_REJECTING,
            f"Collector {label('collector')} delivers nothing",
            f"Collector {label('collector')} has a problem that keeps it from delivering spans; the link says which.",
            dashboard=PIPELINE,
            look="/api/v1/collectors",
        ),
        pending=5 * MINUTE,
    )
    if alone:
        yield Alert(
            AlertName.DOWN,
            f"absent_over_time({selectors.of('rubricd_build_info')}[5m])",
            {"severity": Severity.PAGE.value},
            wording.annotations(
                AlertName.DOWN,
                "No rubricd is up",
                "No rubricd has been scraped since five minutes.",
                dashboard=PIPELINE,
                look="/readyz",
            ),
            pending=MINUTE,
        )
