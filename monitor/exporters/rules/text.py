"""Rules as files: what Prometheus loads, and the PrometheusRule resource that the operator turns into it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from monitor.exporters.rules.promql import seconds
from monitor.exporters.rules.rule import Alert, Recording, RuleGroup


def prometheus_rules(groups: Sequence[RuleGroup], heading: str = "") -> str:
    """A rule file for `rule_files:` of Prometheus 2.42 and newer."""
    return heading + to_yaml({"groups": [_group(group) for group in groups]})


def prometheus_rule_resource(groups: Sequence[RuleGroup], name: str = "rubricd", heading: str = "") -> str:
    """A resource of monitoring.coreos.com/v1 with the same groups."""
    return heading + to_yaml(
        {
            "apiVersion": "monitoring.coreos.com/v1",
            "kind": "PrometheusRule",
            "metadata": {"name": name, "labels": {"app.kubernetes.io/name": "rubricd"}},
            "spec": {"groups": [_group(group) for group in groups]},
        }
    )


def _group(group: RuleGroup) -> dict[str, Any]:
    return {"name": group.name, "rules": [_rule(rule) for rule in group.rules]}


def _rule(rule: Alert | Recording) -> dict[str, Any]:
    if isinstance(rule, Recording):
        return {"record": rule.record, "expr": rule.expr}
    found: dict[str, Any] = {"alert": rule.name.value, "expr": rule.expr}
    if rule.pending:
        found["for"] = seconds(rule.pending)
    if rule.keep_firing:
        found["keep_firing_for"] = seconds(rule.keep_firing)
    return found | {"labels": dict(rule.labels), "annotations": dict(rule.annotations)}


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines as blocks, and every other one on a single line."""


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|" if "\n" in value else None)


_Dumper.add_representer(str, _text)


def to_yaml(data: Mapping[str, Any]) -> str:
    """A document as these files are written: keys in the given order, no line folded."""
    return yaml.dump(data, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=10_000)
