"""The pieces that the dashboards are made of: queries, panels and variables on top of grafana-foundation-sdk, which is a tool of development only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.builders import heatmap, prometheus, stat, table, timeseries
from grafana_foundation_sdk.models import dashboard as models
from grafana_foundation_sdk.models import heatmap as heatmap_models

DATASOURCE = models.DataSourceRef(type_val="prometheus", uid="${ds}")
HALF, THIRD, QUARTER, WHOLE = 12, 8, 6, 24
RATIO, SECONDS, BYTES, COUNT, PER_SECOND, DOLLARS = "percentunit", "s", "bytes", "short", "cps", "currencyUSD"

SCOPE = 'monitor=~"$monitor",rubric=~"$rubric",agent=~"$agent",environment=~"$environment"'
"""Matchers of series that are about a pass rate."""


@dataclass(frozen=True, slots=True)
class Query:
    """A PromQL expression with the name of its series. `exemplars` asks for the traces behind a counter."""

    expr: str
    legend: str = "__auto"
    exemplars: bool = False


def link(title: str, url: str) -> build.DashboardLink:
    """A link that opens in a new tab; kept apart from dashboards' own links by its type."""
    return build.DashboardLink(title).type(models.DashboardLinkType.LINK).url(url).target_blank(True)


def failing_invocations(verdict: str = "fail") -> build.DashboardLink:
    """From a series to the invocations behind it. A label that the series lacks stays empty and is ignored by nobody: panels keep all three."""
    asked = "&".join(f"{name}=${{__field.labels.{name}:percentencode}}" for name in ("monitor", "rubric", "agent"))
    return link(
        f"{verdict} verdicts of this series", f"${{server:raw}}/api/v1/verdicts?verdict={verdict}&since=1d&{asked}"
    )


def rubric_details() -> build.DashboardLink:
    """From a series to the dashboard of its rubric and agent."""
    asked = "&".join(f"var-{name}=${{__field.labels.{name}:percentencode}}" for name in ("monitor", "rubric", "agent"))
    return link("this rubric in detail", f"/d/rubricd-rubric?{asked}&${{__url_time_range}}")


def _targets(
    queries: Sequence[Query], *, instant: bool = False, form: str = "time_series"
) -> list[prometheus.Dataquery]:
    """The queries as targets A, B, C …: without a refId Grafana mixes them up."""
    targets = []
    for place, query in enumerate(queries):
        target = prometheus.Dataquery().expr(query.expr).legend_format(query.legend).ref_id(chr(ord("A") + place))
        target.datasource(DATASOURCE).format(form).editor_mode("code")
        if query.exemplars:
            target.exemplar(True)
        targets.append(target.instant() if instant else target.range())
    return targets


def lines(
    title: str,
    text: str,
    *queries: Query,
    unit: str = COUNT,
    span: int = HALF,
    links: Sequence[build.DashboardLink] = (),
) -> timeseries.Panel:
    """Series over time."""
    panel = timeseries.Panel().title(title).description(text).unit(unit).span(span).height(8).datasource(DATASOURCE)
    panel.targets(_targets(queries)).fill_opacity(5).data_links(list(links))
    if unit == RATIO:
        panel.max(1).min(0)
    return panel


def band(panel: timeseries.Panel, lower: str, upper: str) -> timeseries.Panel:
    """Fill between the series whose names match two patterns: the interval of a pass rate."""
    thin = [
        models.DynamicConfigValue("custom.lineWidth", 0),
        models.DynamicConfigValue("custom.hideFrom", {"legend": True, "tooltip": False, "viz": False}),
    ]
    panel.override_by_regexp(lower, thin)
    return panel.override_by_regexp(
        upper,
        [
            *thin,
            models.DynamicConfigValue("custom.fillBelowTo", lower),
            models.DynamicConfigValue("custom.fillOpacity", 15),
        ],
    )


def figure(title: str, text: str, query: Query, unit: str = COUNT, *, bad_above: float | None = None) -> stat.Panel:
    """One number, red from `bad_above` on."""
    steps = [models.Threshold(value=None, color="green")]
    if bad_above is not None:
        steps.append(models.Threshold(value=bad_above, color="red"))
    panel = stat.Panel().title(title).description(text).unit(unit).span(QUARTER).height(4).datasource(DATASOURCE)
    return panel.targets(_targets([query], instant=True)).thresholds(
        build.ThresholdsConfig().mode(models.ThresholdsMode.ABSOLUTE).steps(steps)
    )


def cells(
    title: str,
    text: str,
    columns: Sequence[tuple[str, Query]],
    *,
    units: dict[str, str] | None = None,
    hidden: Sequence[str] = (),
    links: Sequence[build.DashboardLink] = (),
    span: int = WHOLE,
) -> table.Panel:
    """A table: one row for each label set, one column for each query."""
    queries = [query for _, query in columns]
    names = {f"Value #{chr(ord('A') + place)}": name for place, (name, _) in enumerate(columns)}
    if len(columns) == 1:
        names = {"Value": columns[0][0]}
    panel = table.Panel().title(title).description(text).span(span).height(10).datasource(DATASOURCE)
    panel.targets(_targets(queries, instant=True, form="table")).data_links(list(links))
    panel.with_transformation(models.DataTransformerConfig("merge", options={}))
    gone: dict[str, Any] = dict.fromkeys(("Time", *hidden), True)
    panel.with_transformation(
        models.DataTransformerConfig("organize", options={"excludeByName": gone, "renameByName": names})
    )
    for name, unit in (units or {}).items():
        panel.override_by_name(name, [models.DynamicConfigValue("unit", unit)])
    return panel


def distribution(title: str, text: str, query: Query, span: int = HALF) -> heatmap.Panel:
    """A histogram over time, its buckets as rows."""
    panel = heatmap.Panel().title(title).description(text).span(span).height(8).datasource(DATASOURCE)
    panel.color(heatmap.HeatmapColorOptions().mode(heatmap_models.HeatmapColorMode.SCHEME).scheme("Blues"))
    return panel.targets(_targets([query], form="heatmap"))


def alert_list(title: str, text: str) -> build.Panel:
    """Alerts of ours that fire now, from Prometheus or Grafana."""
    options = {
        "alertName": "Rubricd",
        "viewMode": "list",
        "groupMode": "default",
        "maxItems": 50,
        "sortOrder": 1,
        "stateFilter": {"firing": True, "pending": True, "noData": False, "normal": False, "error": True},
    }
    return build.Panel().type("alertlist").title(title).description(text).span(HALF).height(8).options(options)


def _values(name: str, query: str, label: str) -> build.QueryVariable:
    """A variable with the values of a label, several at once, all of them at first. `.*` also takes in what lacks the label."""
    variable = build.QueryVariable(name).label(label).query({"query": query, "refId": f"variable-{name}"})
    variable.datasource(DATASOURCE).refresh(models.VariableRefresh.ON_TIME_RANGE_CHANGED)
    variable.sort(models.VariableSort.ALPHABETICAL_ASC).multi(True).include_all(True).all_value(".*")
    return variable.current(models.VariableOption(selected=True, text="All", value="$__all"))


def _window() -> build.QueryVariable:
    query = "label_values(rubricd_pass_rate_ratio, window)"
    variable = build.QueryVariable("window").label("Window").query({"query": query, "refId": "variable-window"})
    variable.datasource(DATASOURCE).refresh(models.VariableRefresh.ON_TIME_RANGE_CHANGED)
    return variable.current(models.VariableOption(selected=True, text="1h", value="1h"))


def variables(*names: str) -> list[Any]:
    """The variables of a dashboard by name; the data source and rubricd's own URL always."""
    known = {
        "monitor": _values("monitor", "label_values(rubricd_monitor_info, monitor)", "Monitor"),
        "rubric": _values("rubric", 'label_values(rubricd_verdicts_total{monitor=~"$monitor"}, rubric)', "Rubric"),
        "agent": _values("agent", 'label_values(rubricd_verdicts_total{monitor=~"$monitor"}, agent)', "Agent"),
        "environment": _values("environment", "label_values(rubricd_invocations_total, environment)", "Environment"),
        "judge": _values("judge", "label_values(rubricd_judge_up, judge)", "Judge"),
        "collector": _values("collector", "label_values(rubricd_spans_received_total, collector)", "Collector"),
        "window": _window(),
    }
    server = build.TextBoxVariable("server").label("rubricd").default_value("http://localhost:8464")
    source = build.DatasourceVariable("ds").label("Prometheus").type("prometheus")
    return [source, *(known[name] for name in names), server.description("URL of rubricd, for links to invocations")]


def dashboard(uid: str, title: str, text: str, names: Sequence[str]) -> build.Dashboard:
    """An empty dashboard of ours; the others are one click away, with the same time and variables."""
    made = build.Dashboard(title).uid(uid).description(text).tags(["rubricd"]).time("now-24h", "now").refresh("1m")
    made.readonly().tooltip(models.DashboardCursorSync.CROSSHAIR).timezone("browser")
    others = build.DashboardLink("rubricd").type(models.DashboardLinkType.DASHBOARDS).tags(["rubricd"])
    made.link(others.as_dropdown(True).include_vars(True).keep_time(True))
    return made.variables(variables(*names))


def row(made: build.Dashboard, title: str, *panels: Any) -> None:
    """A row with its panels."""
    made.with_row(build.Row(title))
    for panel in panels:
        made.with_panel(panel)


def numbered(made: build.Dashboard) -> models.Dashboard:
    """The dashboard with an id for every panel, in their order: links to panels must not move without reason."""
    built = made.build()
    for number, panel in enumerate(built.panels or [], 1):
        panel.id_val = number
        if isinstance(panel, models.Panel) and panel.options is None:
            panel.options = {}
    return built
