"""Judges: whether they work, how they agree, and what they cost."""

from __future__ import annotations

from grafana_foundation_sdk.builders.dashboard import Dashboard

from deploy.grafana.panels import (
    COUNT,
    DOLLARS,
    PER_SECOND,
    RATIO,
    SECONDS,
    Query,
    dashboard,
    figure,
    lines,
    row,
)

JUDGE = 'judge=~"$judge"'
RUBRICS = 'monitor=~"$monitor",rubric=~"$rubric"'
RATE = "[$__rate_interval]"


def judge() -> Dashboard:
    """The instrument and its price."""
    made = dashboard(
        "rubricd-judge",
        "rubricd: judge health and cost",
        "Judges: calls, errors, latency, agreement, tokens, cost and what is left of the day's budget.",
        ("monitor", "rubric", "judge"),
    )
    row(made, "Now", *_figures())
    row(made, "Health", *_health())
    row(made, "Trust", *_trust())
    row(made, "Cost", *_cost())
    return made


def _figures() -> tuple[object, ...]:
    return (
        figure("Paused", "Judges that wait for somebody to change something.", Query(f"count(rubricd_judge_up{{{JUDGE}}} == 0) or vector(0)"),
               bad_above=1),
        figure("Budget left", "The smallest share of today's budgets (UTC) that is left.",
               Query(f"min(rubricd_judge_budget_remaining_ratio{{{JUDGE}}})"), RATIO),
        figure("Cost", "Spent in the time range, where prices are configured.",
               Query(f"sum(increase(rubricd_judge_cost_usd_total{{{JUDGE}}}[$__range]))"), DOLLARS),
        figure("Failed evaluations", "Evaluations that failed for good in the time range.",
               Query(f"sum(increase(rubricd_evaluation_errors_total{{{RUBRICS}}}[$__range]))"), COUNT, bad_above=1),
    )  # fmt: skip


def _health() -> tuple[object, ...]:
    buckets = f"sum by (le, judge) (rate(rubricd_judge_request_duration_seconds_bucket{{{JUDGE}}}{RATE}))"
    errors = f"sum by (monitor, rubric) (increase(rubricd_evaluation_errors_total{{{RUBRICS}}}{RATE}))"
    verdicts = f"sum by (monitor, rubric) (increase(rubricd_verdicts_total{{{RUBRICS}}}{RATE}))"
    return (
        lines("Calls", "Calls by outcome.",
              Query(f"sum by (judge, model, outcome) (rate(rubricd_judge_requests_total{{{JUDGE}}}{RATE}))", "{{judge}} {{model}} {{outcome}}"),
              unit=PER_SECOND),
        lines("Latency", "Duration of one call.", Query(f"histogram_quantile(0.5, {buckets})", "{{judge}} median"),
              Query(f"histogram_quantile(0.95, {buckets})", "{{judge}} 95 %"), unit=SECONDS),
        lines("Failed evaluations by reason", "Evaluations that failed for good.",
              Query(f"sum by (rubric, reason) (increase(rubricd_evaluation_errors_total{{{RUBRICS}}}{RATE}))", "{{rubric}} {{reason}}")),
        lines("Failed share", "Failed evaluations among all that ended.", Query(f"{errors} / ({errors} + {verdicts} > 0)", "{{monitor}} {{rubric}}"),
              unit=RATIO),
    )  # fmt: skip


def _trust() -> tuple[object, ...]:
    agreement = f'min by (rubric, judge, against) (rubricd_judge_agreement_ratio{{{JUDGE},rubric=~"$rubric"}})'
    return (
        lines("Agreement", "With the golden set, with itself when asked again, and with people.",
              Query(agreement, "{{rubric}} {{judge}} {{against}}"), unit=RATIO),
        lines("Flagged verdicts", "Verdicts that a person may want to look at: the record speaks to the judge, evidence was not found in it, votes disagree.",
              Query(f'sum by (judge, rubric, flag) (increase(rubricd_judge_flags_total{{{JUDGE},rubric=~"$rubric"}}{RATE}))', "{{flag}} {{rubric}}")),
        lines("Up", "1 while the judge works, 0 while it is paused.", Query(f"min by (judge) (rubricd_judge_up{{{JUDGE}}})", "{{judge}}")),
    )  # fmt: skip


def _cost() -> tuple[object, ...]:
    return (
        lines("Tokens", "Tokens by kind.", Query(f"sum by (judge, type) (rate(rubricd_judge_tokens_total{{{JUDGE}}}{RATE}))", "{{judge}} {{type}}"),
              unit=PER_SECOND),
        lines("Cost", "USD per hour.", Query(f"3600 * sum by (judge, model) (rate(rubricd_judge_cost_usd_total{{{JUDGE}}}{RATE}))", "{{judge}} {{model}}"),
              unit=DOLLARS),
        lines("Budget left", "Share of today's budget (UTC).",
              Query(f"min by (judge) (rubricd_judge_budget_remaining_ratio{{{JUDGE}}})", "{{judge}}"), unit=RATIO),
        lines("Budget left of monitors", "Share of today's budget (UTC) of monitors that have one of their own.",
              Query('min by (monitor) (rubricd_monitor_budget_remaining_ratio{monitor=~"$monitor"})', "{{monitor}}"), unit=RATIO),
    )  # fmt: skip
