"""What rules are made of: the monitors as far as alerts about them need to know them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from monitor.exporters.prometheus.labels import clean, usable_name
from monitor.exporters.rules.rule import Severity
from monitor.model.watched import WatchedMonitor, WatchedRubric
from monitor.settings.tree import JudgeSettings, MonitorSettings, Settings

UNIFORM_STRATA = frozenset({"agent", "environment"})
"""Stratified by nothing else, all verdicts of an alert's series were drawn with one probability, and counters tell the pass rate."""

RUNBOOK = "docs/alerts.md"
"""Where the runbook stands in the source tree; `links.runbook` makes it an address."""

OWN_LABELS = frozenset({"alertname", "monitor", "rubric", "agent", "environment"})
"""What identifies an alert; a monitor's labels cannot change it."""


@dataclass(frozen=True, slots=True)
class RuledRubric:
    """A rubric of a monitor under its label value; `objective` is None where there is none to miss (not set, or a shadow)."""

    name: str
    judge: str | None
    objective: float | None


@dataclass(frozen=True, slots=True)
class RuledMonitor:
    """A monitor under its label value; the empty name stands for whatever monitors there are. `interval` is the usual time between two ticks, `longest_gap` the longest one, `windows` those of its pass
    rates (seconds). `labels` are those that an alert can carry.

    `uniform` says that its verdicts are drawn with one probability within an agent and environment; else only the weighted gauges may be trusted.
    `regression` says that regressions are looked for. `limited_judges` are those of its judges that have a limit per day, and
    `has_budget` that it has one itself.
    """

    name: str
    rubrics: tuple[RuledRubric, ...]
    interval: float
    longest_gap: float
    windows: tuple[float, ...] = (3600.0, 86400.0, 604800.0)
    max_unscored: float = 0.2
    uniform: bool = True
    regression: bool = False
    limited_judges: tuple[str, ...] = ()
    has_budget: bool = False
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)

    @property
    def matching(self) -> dict[str, str]:
        """What tells its series from those of others."""
        return {"monitor": self.name} if self.name else {}

    @property
    def judges(self) -> tuple[str, ...]:
        """The judges that its rubrics ask, in order, each once."""
        return tuple(dict.fromkeys(rubric.judge for rubric in self.rubrics if rubric.judge is not None))


@dataclass(frozen=True, slots=True)
class RuleSource:
    """The monitors and where people look next.

    `server` is rubricd's own URL, `dashboards` Grafana's (empty: links begin at its root), `runbook` the page that has a section for each alert.
    `match` are labels that tell this rubricd from others that the same Prometheus scrapes: every selector asks for them.
    """

    monitors: tuple[RuledMonitor, ...]
    server: str = "http://localhost:8464"
    dashboards: str = ""
    runbook: str = RUNBOOK
    match: Mapping[str, str] = field(default_factory=dict)


def alert_labels(monitor: RuledMonitor, severity: Severity, **own: str) -> dict[str, str]:
    """The fixed labels of a monitor's alert. They are templates: text that would be read as one is written so that it is not."""
    found = {"severity": severity.value, **monitor.labels, **monitor.matching, **own}
    return {name: value.replace("{{", '{{ "{{" }}') for name, value in found.items()}


def rule_source(
    settings: Settings,
    watched: Sequence[WatchedMonitor],
    match: Mapping[str, str] | None = None,
) -> RuleSource:
    """The source of a configuration."""
    monitors = tuple(_monitor(one, settings.monitors[one.name], settings.judges) for one in watched)
    return RuleSource(
        monitors,
        server=(settings.server.external_url or f"http://{settings.server.endpoint}").rstrip("/"),
        dashboards=(settings.links.dashboards or "").rstrip("/"),
        runbook=settings.links.runbook or RUNBOOK,
        match=dict(match or {}),
    )


def _monitor(watched: WatchedMonitor, settings: MonitorSettings, judges: Mapping[str, JudgeSettings]) -> RuledMonitor:
    rubrics = tuple(_rubric(rubric) for rubric in watched.rubrics)
    asked = dict.fromkeys(rubric.judge for rubric in watched.rubrics if rubric.judge is not None)
    limited = (name for name in asked if judges[name].limits.tokens_per_day or judges[name].limits.usd_per_day)
    return RuledMonitor(
        name=clean(watched.name),
        rubrics=rubrics,
        interval=watched.interval,
        longest_gap=watched.longest_gap,
        windows=watched.windows,
        max_unscored=watched.max_unscored,
        uniform=settings.sample.always is None and set(settings.sample.stratify_by) <= UNIFORM_STRATA,
        regression=settings.regression.against != ("objective",)
        or any(rubric.objective is not None for rubric in rubrics),
        limited_judges=tuple(limited),
        has_budget=bool(settings.budget.tokens_per_day or settings.budget.usd_per_day),
        labels={name: value for name, value in watched.labels.items() if usable_name(name) and name not in OWN_LABELS},
        annotations=settings.annotations,
    )


def _rubric(watched: WatchedRubric) -> RuledRubric:
    return RuledRubric(clean(watched.rubric), watched.judge, None if watched.shadow else watched.objective)
