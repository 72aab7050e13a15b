"""Alerts on what agents deliver: regressions, burnt budgets, and invocations that cannot be judged."""

from __future__ import annotations

from collections.abc import Iterator

from monitor.exporters.rules.burn import HOUR, MINUTE, Burn, burns, failure_share, least_samples, multiple_for, surplus
from monitor.exporters.rules.counts import LEVEL, Count, Counts
from monitor.exporters.rules.promql import Selectors, all_of, any_of, number, seconds
from monitor.exporters.rules.rule import Alert, AlertName, Severity
from monitor.exporters.rules.source import RuledMonitor, RuledRubric, alert_labels
from monitor.exporters.rules.wording import AGENT, PERCENT, RUBRIC, Wording, label
from monitor.settings.units import duration_text

SERIES = ("rubric", "agent")
"""The labels of these alerts that links ask for beside the monitor."""
UNJUDGEABLE_SAMPLES = 20


class QualityAlerts:
    """The alerts of one monitor's pass rates."""

    def __init__(self, monitor: RuledMonitor, selectors: Selectors, counts: Counts, wording: Wording) -> None:
        self._monitor = monitor
        self._selectors = selectors
        self._counts = counts
        self._wording = wording

    def alerts(self) -> Iterator[Alert]:
        """Regression and invocations that cannot be judged for all rubrics in one; burn by rubric, as its thresholds go by the objective."""
        if self._monitor.regression:
            yield self._regression()
        for rubric in self._monitor.rubrics:
            if rubric.objective is not None:
                yield from self._burns(rubric, rubric.objective)
        yield self._unjudgeable()

    def _labels(self, rubric: RuledRubric) -> dict[str, str]:
        return {**self._monitor.matching, "rubric": rubric.name}

    def _gauge(self, aggregate: str, name: str, **labels: str) -> str:
        return (
            f"{aggregate} {self._selectors.by(*LEVEL)} ({self._selectors.of(name, **self._monitor.matching, **labels)})"
        )

    @property
    def _keep_firing(self) -> float:
        """Outlives the silence between two bursts of verdicts."""
        return max(5 * MINUTE, 2 * self._monitor.interval)

    def _regression(self) -> Alert:
        return Alert(
            AlertName.QUALITY_REGRESSION,
            f"{self._gauge('max', 'rubricd_regression')} == 1",
            alert_labels(self._monitor, Severity.PAGE),
            self._wording.annotations(
                AlertName.QUALITY_REGRESSION,
                f"{label('agent')} got worse at {label('rubric')}",
                f"The evidence that {AGENT} falls short of its objective in {label('rubric')} has crossed the "
                f"bound of monitor {label('monitor')}. The alarm stands until enough invocations pass again, it is acknowledged, or the rubric "
                "changes. The links lead to the failing invocations.",
                dashboard=RUBRIC,
                look="/api/v1/verdicts?verdict=fail&since=1d",
                labels=SERIES,
            ),
            keep_firing=5 * MINUTE,
        )

    def _burns(self, rubric: RuledRubric, objective: float) -> Iterator[Alert]:
        for severity in Severity:
            if self._monitor.uniform:
                pairs = burns(objective, self._monitor.interval, severity)
                windows = [pair.pair.long for pair in pairs]
                expr = any_of(*(self._burning(rubric, burn, objective) for burn in pairs))
            else:
                windows = self._gauge_windows(severity)
                expr = any_of(*(self._surely_below(rubric, window, objective) for window in windows))
            if windows:
                yield self._burn_alert(rubric, expr, severity, windows, objective)

    def _burn_alert(
        self, rubric: RuledRubric, expr: str, severity: Severity, windows: list[float], objective: float
    ) -> Alert:
        within = " or ".join(duration_text(window) for window in windows)
        told = (
            f"{PERCENT} of the judged invocations of {AGENT} failed {label('rubric')} within {within}"
            if self._monitor.uniform
            else f"At most {PERCENT} of the invocations of {AGENT} can have passed {label('rubric')} within {within}"
        )
        return Alert(
            AlertName.QUALITY_BUDGET_BURN,
            expr,
            alert_labels(
                self._monitor, severity, rubric=rubric.name, burn="fast" if severity is Severity.PAGE else "slow"
            ),
            self._wording.annotations(
                AlertName.QUALITY_BUDGET_BURN,
                f"{label('agent')} fails {label('rubric')} far more often than its objective allows",
                f"{told}; the objective is {objective * 100:.4g} % passing.",
                dashboard=RUBRIC,
                look=f"/api/v1/verdicts?verdict=fail&since={seconds(windows[0])}",
                labels=SERIES,
            ),
            keep_firing=self._keep_firing,
        )

    def _burning(self, rubric: RuledRubric, burn: Burn, objective: float) -> str:
        """Both windows above the share, and the long one by more than chance."""
        long, short = burn.pair.long, burn.pair.short
        ratios = [self._count(Count.FAIL_RATIO, window, rubric) for window in (long, short)]
        conditions = [f"{ratio} > {number(burn.share)}" for ratio in ratios]
        judged = self._count(Count.JUDGED, long, rubric)
        if burn.samples is not None:
            return all_of(*conditions, f"{judged} >= {burn.samples}")
        failed, more = self._count(Count.FAILED, long, rubric), surplus(1 - objective)
        chance = f"{number(more.budget)} * {judged} + sqrt({number(more.spread)} * {judged}) + {number(more.constant)}"
        return all_of(*conditions, f"{failed} > ({chance})")

    def _count(self, count: Count, window: float, rubric: RuledRubric) -> str:
        return self._counts.of(count, window, **self._labels(rubric))

    def _gauge_windows(self, severity: Severity) -> list[float]:
        """The monitor's windows that are long enough for its schedule and whose multiple is of this severity."""
        fast = severity is Severity.PAGE
        fit = (window for window in self._monitor.windows if window >= 2 * self._monitor.interval)
        return [window for window in sorted(fit) if (multiple_for(window) >= 6) is fast]

    def _surely_below(self, rubric: RuledRubric, window: float, objective: float) -> str:
        """The upper bound of the weighted pass rate lies below what the multiple leaves: counters would be biased by how invocations were drawn."""
        share = failure_share(multiple_for(window), objective)
        labels = {"rubric": rubric.name, "window": duration_text(window)}
        samples = least_samples(share, 1 - objective) or least_samples(failure_share(1.5, objective), 1 - objective)
        return all_of(
            f"{self._gauge('min', 'rubricd_pass_rate_upper_ratio', **labels)} < {number(1 - share)}",
            f"{self._gauge('max', 'rubricd_effective_samples', **labels)} >= {samples}",
        )

    def _unjudgeable(self) -> Alert:
        window = max(HOUR, 4 * self._monitor.interval)
        unjudgeable, everything = (
            self._counts.of(count, window, **self._monitor.matching) for count in (Count.UNJUDGEABLE, Count.ALL)
        )
        return Alert(
            AlertName.UNJUDGEABLE,
            all_of(
                f"{unjudgeable} / ({everything} > 0) > {number(self._monitor.max_unscored)}",
                f"{everything} >= {UNJUDGEABLE_SAMPLES}",
            ),
            alert_labels(self._monitor, Severity.TICKET),
            self._wording.annotations(
                AlertName.UNJUDGEABLE,
                f"{label('rubric')} cannot judge {label('agent')}",
                f"{PERCENT} of the invocations of {AGENT} drawn within {duration_text(window)} lack what "
                f"{label('rubric')} needs. They count neither as pass nor as fail: the pass rate says little until the telemetry carries it.",
                dashboard=RUBRIC,
                look=f"/api/v1/verdicts?verdict=unjudgeable&since={seconds(window)}",
                labels=SERIES,
            ),
            pending=min(10 * MINUTE, self._monitor.interval / 2),
            keep_firing=self._keep_firing,
        )
