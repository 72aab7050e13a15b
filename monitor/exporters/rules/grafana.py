"""The same alerts as Grafana-managed rules: a file for `provisioning/alerting` of Grafana 11 and newer.

Nothing is recorded for Grafana, so expressions are written out. A PromQL alert says by an empty answer that all is well: "no data" is OK here, and
what is really missing has an alert of its own (RubricdDown). A query that fails is an error, not an alarm of the agent.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any

from monitor.exporters.rules.promql import seconds
from monitor.exporters.rules.rule import Alert, RuleGroup
from monitor.exporters.rules.text import to_yaml
from monitor.exporters.rules.wording import VALUE

FOLDER, INTERVAL = "rubricd", "1m"
EVALUATIONS_TO_RESOLVE = 2
"""How often a series may be missing before its alert is resolved."""
_LOOK_BACK_SECONDS = 600


def grafana_provisioning(groups: Sequence[RuleGroup], datasource: str = "prometheus", heading: str = "") -> str:
    """A provisioning file; `datasource` is the uid of the Prometheus data source."""
    return heading + to_yaml({"apiVersion": 1, "groups": [_group(group, datasource) for group in groups]})


def _group(group: RuleGroup, datasource: str) -> dict[str, Any]:
    return {
        "orgId": 1,
        "name": group.name,
        "folder": FOLDER,
        "interval": INTERVAL,
        "rules": list(_rules(group, datasource)),
    }


def _rules(group: RuleGroup, datasource: str) -> Iterator[dict[str, Any]]:
    """Titles are told apart within a folder, uids everywhere. Titles are Grafana's `alertname`, so the alert's own name is the label `alert`."""
    seen: dict[str, int] = {}
    for alert in group.rules:
        if isinstance(alert, Alert):
            place = f"{alert.name.value} ({group.name})"
            seen[place] = seen.get(place, 0) + 1
            title = place if seen[place] == 1 else f"{place} {seen[place]}"
            yield _rule(alert, title, datasource)


def _rule(alert: Alert, title: str, datasource: str) -> dict[str, Any]:
    return {
        "uid": "rubricd-" + hashlib.sha256(title.encode()).hexdigest()[:24],
        "title": title,
        "condition": "B",
        "for": seconds(alert.pending) if alert.pending else "0s",
        "keepFiringFor": seconds(alert.keep_firing) if alert.keep_firing else "0s",
        "noDataState": "OK",
        "execErrState": "Error",
        "missing_series_evals_to_resolve": EVALUATIONS_TO_RESOLVE,
        "isPaused": False,
        "labels": {"alert": alert.name.value, **{name: _plain(value) for name, value in alert.labels.items()}},
        "annotations": {name: _template(text) for name, text in alert.annotations.items()},
        "data": [_query(alert, datasource), _condition()],
    }


def _plain(value: str) -> str:
    """A label's value: Grafana replaces $NAME by the environment there."""
    return value.replace("$", "$$")


def _template(text: str) -> str:
    """An annotation: the value of the query has another name in Grafana's templates."""
    return text.replace(f"{VALUE} ", "$values.A.Value ")


def _query(alert: Alert, datasource: str) -> dict[str, Any]:
    return {
        "refId": "A",
        "relativeTimeRange": {"from": _LOOK_BACK_SECONDS, "to": 0},
        "datasourceUid": datasource,
        "model": {
            "refId": "A",
            "datasource": {"type": "prometheus", "uid": datasource},
            "editorMode": "code",
            "expr": alert.expr,
            "instant": True,
            "range": False,
        },
    }


def _condition() -> dict[str, Any]:
    """Whatever the query answers is alarming, 0 too."""
    return {
        "refId": "B",
        "relativeTimeRange": {"from": 0, "to": 0},
        "datasourceUid": "__expr__",
        "model": {
            "refId": "B",
            "datasource": {"type": "__expr__", "uid": "__expr__"},
            "type": "math",
            "expression": "abs($A) >= 0",
        },
    }
