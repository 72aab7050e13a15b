"""Recording and alerting rules as a function of the configuration: for Prometheus, its operator, and Grafana-managed alerting."""

from monitor.exporters.rules.anywhere import ANY_MONITOR
from monitor.exporters.rules.generate import alert_rules, rule_groups
from monitor.exporters.rules.grafana import grafana_provisioning
from monitor.exporters.rules.rule import Alert, Recording, RuleGroup
from monitor.exporters.rules.source import RuledMonitor, RuledRubric, RuleSource, rule_source
from monitor.exporters.rules.text import prometheus_rule_resource, prometheus_rules

__all__ = [
    "ANY_MONITOR",
    "Alert",
    "Recording",
    "RuleGroup",
    "RuleSource",
    "RuledMonitor",
    "RuledRubric",
    "alert_rules",
    "grafana_provisioning",
    "prometheus_rule_resource",
    "prometheus_rules",
    "rule_groups",
    "rule_source",
]
