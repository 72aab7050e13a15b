"""The dashboards as files: drift, structure, and that every metric they and the rules name exists, and the other way round."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from deploy.prometheus.generate import ROOT
from deploy.prometheus.generate import texts as rule_texts
from monitor.exporters.prometheus.families import DEFINITIONS
from monitor.telemetry import Telemetry

FOLDER = ROOT / "deploy" / "grafana"
FILES = sorted(FOLDER.glob("*.json"))
BUILT_IN = {"__rate_interval", "__range", "__all", "__url_time_range", "__field"}

COMES_WITH: dict[str, str] = {}
"""Metrics of the contract that rules or dashboards name before the exporter has them; an entry goes when its metric lands (a test insists)."""


def dashboards() -> list[dict[str, Any]]:
    """The committed dashboards."""
    return [json.loads(file.read_text(encoding="utf-8")) for file in FILES]


def panels(dashboard: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Panels that are no rows."""
    return (panel for panel in dashboard["panels"] if panel["type"] != "row")


def expressions(dashboard: dict[str, Any]) -> list[str]:
    """The PromQL of every target."""
    return [target["expr"] for panel in panels(dashboard) for target in panel.get("targets", ())]


def exported() -> set[str]:
    """Every metric that /metrics may show, as its samples are called."""
    found = set()
    registry = CollectorRegistry()
    Telemetry(registry)
    kinds = {metric.name: metric.type for metric in registry.collect()}
    kinds |= {f"rubricd_{name}": definition.kind for name, definition in DEFINITIONS.items()}
    for name, kind in kinds.items():
        suffixes = {"counter": ("_total",), "info": ("_info",), "histogram": ("_bucket", "_count", "_sum")}.get(kind, ("",))  # fmt: skip
        found |= {name + suffix for suffix in suffixes}
    return found


def named(texts: Iterator[str] | list[str]) -> set[str]:
    """Names of our metrics in texts; names of recordings are none."""
    return {name for text in texts for name in re.findall(r"(?<![\w:/-])rubricd_\w+(?![\w:])", text)}


def used() -> set[str]:
    """Metrics in dashboards (queries and variables) and in expressions of rules."""
    everything = [text for one in dashboards() for text in expressions(one)]
    everything += [json.dumps(one["templating"]) for one in dashboards()]
    rules = (text for file, text in rule_texts().items() if file.suffix == ".yml")
    return named(everything) | named(re.sub(r"^ +(summary|description|traces_url|dashboard_url):.*$", "", text, flags=re.MULTILINE) for text in rules)  # fmt: skip


def test_committed_dashboards_are_up_to_date() -> None:
    """The JSON is what the sources in deploy/grafana give with the pinned SDK."""
    pytest.importorskip("grafana_foundation_sdk", reason="pip install grafana-foundation-sdk (extra dev)")
    from deploy.grafana.generate import texts
    from deploy.prometheus.generate import stale

    assert [str(file) for file in stale(texts())] == []


def lost(given: Any, understood: Any, place: str = "") -> Iterator[str]:
    """Places of a document that a model did not take over as they are."""
    if isinstance(given, dict) and isinstance(understood, dict):
        for key, value in given.items():
            yield from lost(value, understood.get(key), f"{place}/{key}")
    elif isinstance(given, list) and isinstance(understood, list) and len(given) == len(understood):
        for index, pair in enumerate(zip(given, understood, strict=True)):
            yield from lost(*pair, f"{place}/{index}")
    elif given != understood:
        yield place


def test_grafanas_own_schema_takes_every_key() -> None:
    """The model of Grafana's dashboard schema that the SDK carries reads each file, panel types and queries included, and loses nothing of it; a key that
    Grafana does not know would be lost.
    """
    pytest.importorskip("grafana_foundation_sdk", reason="pip install grafana-foundation-sdk (extra dev)")
    from grafana_foundation_sdk.cog.encoder import JSONEncoder
    from grafana_foundation_sdk.cog.plugins import register_default_plugins
    from grafana_foundation_sdk.models.dashboard import Dashboard

    register_default_plugins()

    def missed(document: dict[str, Any]) -> list[str]:
        return list(lost(document, json.loads(json.dumps(Dashboard.from_json(document), cls=JSONEncoder))))

    for dashboard in dashboards():
        assert missed(dashboard) == []
        place, panel = next((n, panel) for n, panel in enumerate(dashboard["panels"]) if "targets" in panel)
        panel["titel"], panel["targets"][0]["exprs"] = "misspelt", "up"
        assert sorted(missed(dashboard)) == [f"/panels/{place}/targets/0/exprs", f"/panels/{place}/titel"]


def test_there_are_four_dashboards_that_alerts_link_to() -> None:
    """File name and uid agree, and the uids are those of the links in alerts."""
    from monitor.exporters.rules import wording

    linked = {wording.OVERVIEW, wording.RUBRIC, wording.JUDGE, wording.PIPELINE}
    assert {file.stem for file in FILES} == {one["uid"] for one in dashboards()} == linked


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_structure(file: Path) -> None:
    """Panels have ids of their own, a title, a description and a unit; targets a refId, the variable data source and known variables."""
    dashboard = json.loads(file.read_text(encoding="utf-8"))
    ids = [panel["id"] for panel in dashboard["panels"]]
    assert len(set(ids)) == len(ids)
    variables = {variable["name"] for variable in dashboard["templating"]["list"]}
    assert {"ds", "server"} <= variables
    for panel in panels(dashboard):
        assert panel["title"]
        assert panel["description"]
        targets = panel.get("targets", [])
        assert [target["refId"] for target in targets] == [chr(ord("A") + place) for place in range(len(targets))]
        assert all(target["datasource"]["uid"] == "${ds}" for target in targets)
        if panel["type"] in ("timeseries", "stat"):
            assert panel["fieldConfig"]["defaults"]["unit"]
    names = set(re.findall(r"\$\{?(\w+)", json.dumps(dashboard)))
    assert names <= variables | BUILT_IN, names - variables
    assert variables - {"server"} <= names


def test_a_failing_series_leads_to_its_invocations() -> None:
    """Overview and rubric dashboards link from series to the failing verdicts, and their failure panels ask for exemplars."""
    for uid in ("rubricd-overview", "rubricd-rubric"):
        text = (FOLDER / f"{uid}.json").read_text(encoding="utf-8")
        assert "/api/v1/verdicts?verdict=fail" in text
        assert '"exemplar": true' in text


def test_every_metric_named_exists() -> None:
    """Rules and dashboards name no metric that /metrics cannot show, but for the short list of what is still to come."""
    assert used() - exported() - set(COMES_WITH) == set()


def test_the_list_of_what_is_to_come_is_short_and_true() -> None:
    """An entry of COMES_WITH whose metric has landed must go."""
    assert set(COMES_WITH) & exported() == set()
    assert set(COMES_WITH) <= used()


def test_every_metric_is_shown_somewhere() -> None:
    """Each metric that /metrics can show is named by a dashboard or a rule."""
    base = {re.sub(r"_(bucket|count|sum)$", "", name) for name in exported()}
    shown = {re.sub(r"_(bucket|count|sum)$", "", name) for name in used()}
    assert base - shown == set()
