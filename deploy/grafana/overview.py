"""Overview by agent: pass rate with band, objective, samples, coverage, alarm state."""

from __future__ import annotations

from grafana_foundation_sdk.builders.dashboard import Dashboard

from deploy.grafana.panels import (
    COUNT,
    RATIO,
    SCOPE,
    Query,
    alert_list,
    cells,
    dashboard,
    failing_invocations,
    figure,
    lines,
    row,
    rubric_details,
)

BY = "monitor, rubric, agent, environment"
WINDOW = f'{SCOPE},window="$window"'
NAME = "{{agent}} {{rubric}}"
LINKS = (failing_invocations(), rubric_details())


def overview() -> Dashboard:
    """How well the agents do, and how sure that is."""
    made = dashboard(
        "rubricd-overview",
        "rubricd: overview by agent",
        "Pass rates of production agents with their bounds, objectives, samples and alarms.",
        ("monitor", "rubric", "agent", "environment", "window"),
    )
    row(made, "Now", *_figures())
    row(made, "Agents and rubrics", _table())
    row(made, "Over time", *_over_time())
    return made


def _figures() -> tuple[object, ...]:
    judged = f'sum(increase(rubricd_verdicts_total{{{SCOPE},verdict=~"pass|fail"}}[$__range]))'
    below = f"count(max by ({BY}) (rubricd_pass_rate_upper_ratio{{{WINDOW}}}) < on (monitor, rubric) group_left rubricd_objective_ratio) or vector(0)"
    return (
        figure("Regressions", "Alarms that stand: evidence has crossed the bound of the monitor.",
               Query(f"sum(rubricd_regression{{{SCOPE}}}) or vector(0)"), bad_above=1),
        figure("Surely below objective", "Agents and rubrics whose upper bound lies below the objective.", Query(below), bad_above=1),
        figure("Judged", "Invocations judged pass or fail in the time range.", Query(judged)),
        figure("Not reliable", "Estimates with more unscored invocations than the monitor puts up with.",
               Query(f"count(rubricd_estimate_reliable{{{WINDOW}}} == 0) or vector(0)"), bad_above=1),
    )  # fmt: skip


def _table() -> object:
    columns = [
        ("pass rate", Query(f"max by ({BY}) (rubricd_pass_rate_ratio{{{WINDOW}}})")),
        ("lower", Query(f"min by ({BY}) (rubricd_pass_rate_lower_ratio{{{WINDOW}}})")),
        ("upper", Query(f"max by ({BY}) (rubricd_pass_rate_upper_ratio{{{WINDOW}}})")),
        ("objective", Query(f"max by ({BY}) (rubricd_pass_rate_ratio{{{WINDOW}}}) * 0 + on (monitor, rubric) group_left rubricd_objective_ratio")),
        ("samples", Query(f"sum by ({BY}) (rubricd_effective_samples{{{WINDOW}}})")),
        ("coverage", Query(f"min by ({BY}) (rubricd_coverage_ratio{{{WINDOW}}})")),
        ("regression", Query(f"max by ({BY}) (rubricd_regression{{{SCOPE}}})")),
    ]  # fmt: skip
    units = dict.fromkeys(("pass rate", "lower", "upper", "objective", "coverage"), RATIO) | {"samples": COUNT}
    return cells(
        "Pass rates", "Pass rates of the window; where versions differ, the best rate with the widest bounds.", columns,
        units=units, links=LINKS,
    )  # fmt: skip


def _over_time() -> tuple[object, ...]:
    gauge = f"max by ({BY}) (rubricd_pass_rate_ratio{{{WINDOW}}})"
    failures = f'sum by ({BY}) (increase(rubricd_verdicts_total{{{SCOPE},verdict="fail"}}[$__rate_interval]))'
    judged = f'sum by ({BY}) (increase(rubricd_verdicts_total{{{SCOPE},verdict=~"pass|fail"}}[$__rate_interval]))'
    return (
        lines("Pass rate", "Estimated pass rate of the invocations that ended in the window.", Query(gauge, NAME), unit=RATIO, links=LINKS),
        lines("Failures", "Verdicts `fail`; the points are traces to look at.", Query(failures, NAME, exemplars=True), links=LINKS),
        lines("Judged", "Invocations with a verdict pass or fail.", Query(judged, NAME), links=LINKS),
        lines("Coverage", "Judged share of the eligible invocations of the window.",
              Query(f"min by ({BY}) (rubricd_coverage_ratio{{{WINDOW}}})", NAME), unit=RATIO),
        lines("Share of what was considered", "Drawn by monitors, and not drawn by reason.",
              Query('sum by (monitor) (increase(rubricd_selected_total{monitor=~"$monitor"}[$__rate_interval]))', "{{monitor}} drawn"),
              Query('sum by (monitor, reason) (increase(rubricd_not_selected_total{monitor=~"$monitor"}[$__rate_interval]))', "{{monitor}} {{reason}}")),
        alert_list("Alerts", "Alerts of rubricd that fire or are pending."),
    )  # fmt: skip
