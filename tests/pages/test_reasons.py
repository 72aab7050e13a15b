"""Why nothing is judged: the sentences that the overview shows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from monitor.model.run import Tally
from monitor.server.pages.reasons import MonitorCounts, counts, why_nothing

ACTIVE: Mapping[str, Any] = {"name": "m", "state": "active", "select": {"agent": "resturant-*"}, "next_run": "soon"}
SEEN = {"order-support": 100, "restaurant-booking": 312}


def test_a_glob_that_matches_nobody() -> None:
    """A glob without any agent is named with the counts and the agent that it may have meant."""
    known = MonitorCounts(0, {"filtered": 412}, seen=SEEN)
    assert why_nothing(ACTIVE, known, 0) == [
        "0 of 412 settled invocations matched agent glob `resturant-*`; nearest seen `restaurant-booking`."
    ]


def test_globs_that_match_are_not_blamed() -> None:
    """Where the glob matches, or only excludes, the counts by reason are told instead."""
    for globs in ("restaurant-*", ["!order-support"], None):
        status = {**ACTIVE, "select": {"agent": globs}}
        known = MonitorCounts(0, {"filtered": 400, "sampled_out": 12}, seen=SEEN)
        assert why_nothing(status, known, 0) == [
            "400 of 412 settled invocations did not match `select`.",
            "12 of 412 settled invocations were sampled out by `sample.rate`.",
        ]


@pytest.mark.parametrize(
    ("status", "known", "open_traces", "told"),
    [
        ({"state": "waiting_for_judge", "waiting_for_judge": ["tone"]}, MonitorCounts(), 0, "tone waits for a judge"),
        ({}, MonitorCounts(), 0, "No invocation has settled yet"),
        ({}, MonitorCounts(), 7, "7 traces are open"),
        ({}, MonitorCounts(seen=SEEN), 0, "it begins with those that settle after it was added"),
        ({"pending": 3}, MonitorCounts(3, errors={"timeout": 2}), 0, "3 evaluations wait"),
        ({}, MonitorCounts(3, errors={"timeout": 2}), 0, "2 evaluations failed: timeout."),
        ({}, MonitorCounts(3, verdicts={"unjudgeable": 3}, unjudgeable={"no_answer": 3}), 0, "3 of 3 verdicts: unjudgeable, no_answer."),
        ({}, MonitorCounts(3, verdicts={"not_applicable": 3}), 0, "the rubric does not apply"),
        ({}, MonitorCounts(3, verdicts={"pass": 3}), 0, "A longer window shows them"),
    ],
)  # fmt: skip
def test_other_reasons(status: dict[str, Any], known: MonitorCounts, open_traces: int, told: str) -> None:
    """Each state of a monitor without judged invocations has its own sentence."""
    found = why_nothing({"name": "m", "state": "active", **status}, known, open_traces)
    assert any(told in sentence for sentence in found), found


def test_counts_come_from_the_tallies() -> None:
    """Only the monitor's own tallies are counted, and agents of all invocations."""

    def tally(metric: str, value: float, **labels: str) -> Tally:
        return Tally(metric, labels, value, 0.0, 0.0)

    tallies = [
        tally("selected_total", 5, monitor="m"),
        tally("selected_total", 50, monitor="other"),
        tally("not_selected_total", 7, monitor="m", reason="filtered"),
        tally("verdicts_total", 2, monitor="m", rubric="a", verdict="pass"),
        tally("verdicts_total", 3, monitor="m", rubric="b", verdict="pass"),
        tally("verdicts_total", 0, monitor="m", rubric="b", verdict="fail"),
        tally("unjudgeable_total", 1, monitor="m", rubric="b", agent="x", reason="no_answer"),
        tally("evaluation_errors_total", 4, monitor="m", rubric="b", reason="timeout"),
        tally("invocations_total", 9, agent="x", agent_version="", environment="", settled_by="idle"),
    ]
    assert counts(tallies, "m") == MonitorCounts(
        5, {"filtered": 7}, {"pass": 5}, {"no_answer": 1}, {"timeout": 4}, {"x": 9}
    )
    assert counts(tallies, "m").considered == 12
