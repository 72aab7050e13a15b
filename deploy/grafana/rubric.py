"""A rubric in detail: band, evidence, dimensions, versions, and what could not be judged."""

from __future__ import annotations

from grafana_foundation_sdk.builders.dashboard import Dashboard

from deploy.grafana.panels import (
    RATIO,
    SCOPE,
    SECONDS,
    WHOLE,
    Query,
    band,
    cells,
    dashboard,
    distribution,
    failing_invocations,
    lines,
    row,
)

WINDOW = f'{SCOPE},window="$window"'
VERSIONED = "monitor, rubric, agent, environment, agent_version"
AGENT = 'monitor=~"$monitor",rubric=~"$rubric",agent=~"$agent"'
NAME = "{{agent}} {{agent_version}} {{rubric}}"
FAILING = (failing_invocations(),)


def rubric() -> Dashboard:
    """Why a pass rate is what it is."""
    made = dashboard(
        "rubricd-rubric",
        "rubricd: rubric in detail",
        "One rubric: pass rate with band, evidence of a regression, dimensions, versions, and what could not be judged.",
        ("monitor", "rubric", "agent", "environment", "window"),
    )
    row(made, "Pass rate", _rate(), *_evidence())
    row(made, "Dimensions and scores", *_scores())
    row(made, "Versions", *_versions())
    row(made, "Not scored", *_unscored())
    return made


def _rate() -> object:
    rate, lower, upper = (
        f"max by ({VERSIONED}) (rubricd_pass_rate_{name}ratio{{{WINDOW}}})" for name in ("", "lower_", "upper_")
    )
    panel = lines(
        "Pass rate with band", "Estimate, 95 % bounds and objective; one band for each version of each agent.",
        Query(rate, NAME), Query(lower, f"lower {NAME}"), Query(upper, f"upper {NAME}"),
        Query('max by (monitor, rubric) (rubricd_objective_ratio{monitor=~"$monitor",rubric=~"$rubric"})', "objective {{rubric}}"),
        unit=RATIO, span=WHOLE, links=FAILING,
    )  # fmt: skip
    return band(panel, "/^lower .*/", "/^upper .*/")


def _evidence() -> tuple[object, ...]:
    by = "monitor, rubric, agent, environment"
    name = "{{agent}} {{rubric}}"
    return (
        lines("Evidence of a regression", "Logarithm of the evidence, and what an alarm takes; the alarm stands while the state is 1.",
              Query(f"max by ({by}) (rubricd_regression_log_evidence{{{SCOPE}}})", f"evidence {name}"),
              Query(f"max by ({by}) (rubricd_regression_log_threshold{{{SCOPE}}})", f"an alarm takes {name}"),
              Query(f"max by ({by}) (rubricd_regression{{{SCOPE}}})", f"alarm {name}"), links=FAILING),
        lines("Samples", "Judged invocations of the window, as many equal draws as tell as much.",
              Query(f"sum by ({VERSIONED}) (rubricd_effective_samples{{{WINDOW}}})", NAME)),
        lines("Corrected for errors of the judge", "Pass rate corrected by people's labels, where there are enough.",
              Query(f"max by ({by}) (rubricd_pass_rate_corrected_ratio{{{WINDOW}}})", name), unit=RATIO),
        cells("Regressions that stand", "How long ago each has most likely begun.",
              [("begun before", Query(f"time() - min by ({by}) (rubricd_regression_started_timestamp_seconds{{{SCOPE}}})"))],
              units={"begun before": SECONDS}, links=FAILING, span=12),
    )  # fmt: skip


def _scores() -> tuple[object, ...]:
    by, span = "monitor, rubric, agent, dimension", "[$__range]"
    mean = (
        f"sum by ({by}) (increase(rubricd_dimension_score_sum{{{AGENT}}}{span}))"
        f" / (sum by ({by}) (increase(rubricd_dimension_score_count{{{AGENT}}}{span})) > 0)"
    )
    worst = (
        f'sum by ({by}) (increase(rubricd_dimension_score_bucket{{{AGENT},le="2.0"}}{span}))'
        f" / (sum by ({by}) (increase(rubricd_dimension_score_count{{{AGENT}}}{span})) > 0)"
    )
    return (
        cells("Dimensions", "Mean score of each dimension in the time range, and how often it got 2 or less.",
              [("mean", Query(mean)), ("2 or less", Query(worst))], units={"2 or less": RATIO}, links=FAILING, span=12),
        distribution("Scores", "Scores of verdicts, rescaled to 0 to 1.",
                     Query(f"sum by (le) (increase(rubricd_score_bucket{{{AGENT}}}[$__rate_interval]))", "{{le}}")),
    )  # fmt: skip


def _versions() -> tuple[object, ...]:
    by, span = "monitor, rubric, rubric_version, agent, agent_version, environment", "[$__range]"
    failed = f'sum by ({by}) (increase(rubricd_verdicts_total{{{SCOPE},verdict="fail"}}{span}))'
    judged = f'sum by ({by}) (increase(rubricd_verdicts_total{{{SCOPE},verdict=~"pass|fail"}}{span}))'
    return (
        cells("Versions of agent and rubric", "Failures and judged invocations of the time range by version, as counted (not weighted).",
              [("failed", Query(failed)), ("judged", Query(judged)), ("failure share", Query(f"{failed} / ({judged} > 0)"))],
              units={"failure share": RATIO}, links=FAILING, span=WHOLE),
        cells("Rubrics in force", "Version, kind and judge of each rubric.", [("in force", Query('rubricd_rubric_info{rubric=~"$rubric"}'))],
              hidden=("__name__", "instance", "job"), span=WHOLE),
    )  # fmt: skip


def _unscored() -> tuple[object, ...]:
    verdicts = (
        f"sum by (monitor, rubric, agent, verdict) (increase(rubricd_verdicts_total{{{SCOPE}}}[$__rate_interval]))"
    )
    unjudgeable = (
        f"sum by (monitor, rubric, agent, reason) (increase(rubricd_unjudgeable_total{{{AGENT}}}[$__rate_interval]))"
    )
    bounds = tuple(
        Query(
            f"min by (monitor, rubric, agent) (rubricd_pass_rate_{name}_ratio{{{WINDOW}}})",
            f"{text} {{{{agent}}}} {{{{rubric}}}}",
        )
        for name, text in (("worst", "all failed"), ("best", "all passed"))
    )
    revised = 'sum by (from, to) (increase(rubricd_verdicts_revised_total{monitor=~"$monitor",rubric=~"$rubric"}[$__rate_interval]))'
    return (
        lines("Verdicts", "All verdicts by kind.", Query(verdicts, "{{verdict}} {{agent}} {{rubric}}", exemplars=True)),
        lines("Unjudgeable", "What the telemetry lacked.", Query(unjudgeable, "{{reason}} {{agent}}"), links=(failing_invocations("unjudgeable"),)),
        lines("If all unscored had failed or passed", "The pass rate's range over what was not scored.", *bounds, unit=RATIO),
        lines("Verdicts replaced", "Re-judged after late spans.", Query(revised, "{{from}} to {{to}}")),
    )  # fmt: skip
