"""The rules of a configuration: a group of recordings for each window, one of alerts for each monitor, one for the daemon itself. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from monitor.exporters.rules.anywhere import NAME, AnyMonitorAlerts
from monitor.exporters.rules.counts import Counts, Recorded, WrittenOut
from monitor.exporters.rules.operation import OperationAlerts, daemon_alerts
from monitor.exporters.rules.promql import Selectors
from monitor.exporters.rules.quality import QualityAlerts
from monitor.exporters.rules.rule import Alert, RuleGroup
from monitor.exporters.rules.source import RuledMonitor, RuleSource
from monitor.exporters.rules.wording import Wording


def rule_groups(source: RuleSource) -> tuple[RuleGroup, ...]:
    """Recording and alerting rules for Prometheus; alerts use the recordings. The same source gives the same rules, in the same order."""
    selectors = Selectors(source.match)
    counts = Recorded(selectors)
    alerts = _alert_groups(source, selectors, counts)
    return (*counts.recordings(), *alerts)


def alert_rules(source: RuleSource) -> tuple[RuleGroup, ...]:
    """The same alerts, each able to stand alone: for whoever evaluates queries but records nothing."""
    selectors = Selectors(source.match)
    return _alert_groups(source, selectors, WrittenOut(selectors))


def _alert_groups(source: RuleSource, selectors: Selectors, counts: Counts) -> tuple[RuleGroup, ...]:
    monitors = (
        RuleGroup(
            f"rubricd-{monitor.name}" if monitor.name else NAME,
            tuple(_monitor_alerts(source, monitor, selectors, counts)),
        )
        for monitor in source.monitors
    )
    daemon = RuleGroup("rubricd-daemon", tuple(daemon_alerts(selectors, Wording(source), alone=not source.monitors)))
    return (*monitors, daemon)


def _monitor_alerts(source: RuleSource, monitor: RuledMonitor, selectors: Selectors, counts: Counts) -> Iterator[Alert]:
    wording = Wording(source, monitor)
    of_instrument = OperationAlerts if monitor.name else AnyMonitorAlerts
    return chain(
        QualityAlerts(monitor, selectors, counts, wording).alerts(),
        of_instrument(monitor, selectors, wording).alerts(),
    )
