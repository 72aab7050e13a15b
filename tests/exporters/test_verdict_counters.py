"""Counters out of tallies: when label sets appear, when they count, when they leave, and what is folded."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from monitor.clock import ManualClock
from monitor.model.tallies import TallyName, bucket, rescaled
from monitor.model.verdict import ErrorType, NotSelected, Outcome
from tests.exporters.figures import Exporter, FigureStore, Seen, watched

DAY = 86400.0


@pytest.fixture
def store() -> FigureStore:
    return FigureStore(ManualClock())


def _pass(store: FigureStore, agent: str, version: str = "", monitor: str = "m", rubric: str = "tone") -> None:
    store.judge(monitor, Seen(agent, store.clock.now(), Outcome.PASS, rubric, agent_version=version))


def test_label_set_is_seen_at_zero_before_it_counts(store: FigureStore) -> None:
    """A label set shows 0 for every verdict until it has existed for zero_for, however early it counted; then what it counted."""
    exporter = Exporter(store, watched("tone"), zero_for="2m")
    _pass(store, "a")
    assert exporter.values("verdicts_total", "verdict") == dict.fromkeys(Outcome, 0.0)
    store.clock.advance(110)
    assert exporter.values("verdicts_total", "verdict")["pass"] == 0.0
    store.clock.advance(10)
    assert exporter.values("verdicts_total", "verdict") == dict.fromkeys(Outcome, 0.0) | {"pass": 1.0}


def test_what_is_known_beforehand_starts_at_zero(store: FigureStore) -> None:
    """Before anything happened the monitor's counters stand at 0 for every reason, and no pass rate stands there at all."""
    exporter = Exporter(store, watched("tone", "facts"))
    assert exporter.values("not_selected_total", "reason") == dict.fromkeys(NotSelected, 0.0)
    assert exporter.values("evaluation_errors_total", "reason") == dict.fromkeys(ErrorType, 0.0)
    assert exporter.values("selected_total", "monitor") == {"m": 0.0}
    assert exporter.values("runs_total", "outcome") == {"done": 0.0, "failed": 0.0, "missed": 0.0}
    assert exporter.values("verdicts_revised_total", "from", "to")["pass", "fail"] == 0.0
    page = exporter.scrape()
    assert not [name for name in page if name.startswith("rubricd_pass_rate") or name == "rubricd_verdicts_total"]


def test_silent_label_sets_leave(store: FigureStore) -> None:
    """A label set leaves the page expire_after after its last verdict; monitors' own counters stay."""
    exporter = Exporter(store, watched("tone"), expire_after="7d")
    _pass(store, "a")
    store.clock.advance(3 * DAY)
    _pass(store, "b")
    store.clock.advance(4 * DAY + 60)
    assert exporter.values("verdicts_total", "agent") == {"b": 1.0}
    store.clock.advance(3 * DAY)
    assert exporter.values("verdicts_total", "agent") == {}
    assert exporter.values("selected_total", "monitor") == {"m": 0.0}


def test_histograms_are_cumulative(store: FigureStore) -> None:
    """Scores become cumulative buckets with count and sum, rescaled by their range; bounds are inclusive."""
    exporter = Exporter(store, watched("tone"))
    for score, score_range in ((0.3, (0.0, 1.0)), (0.31, (0.0, 1.0)), (4.0, (1.0, 5.0)), (5.0, (1.0, 5.0))):
        value = rescaled(score, score_range)
        bounds = tuple(f"{tenth / 10:.1f}" for tenth in range(1, 11))
        store.count(TallyName.SCORE_BUCKET, le=bucket(value, bounds), monitor="m", rubric="tone", agent="a")
        store.count(TallyName.SCORE_SUM, value, monitor="m", rubric="tone", agent="a")
    buckets = exporter.values("score_bucket", "le")
    assert buckets == {
        "0.1": 0, "0.2": 0, "0.3": 1, "0.4": 2, "0.5": 2, "0.6": 2, "0.7": 2, "0.8": 3, "0.9": 3, "1.0": 4, "+Inf": 4,
    }  # fmt: skip
    assert exporter.values("score_count", "agent") == {"a": 4.0}
    assert exporter.values("score_sum", "agent")["a"] == pytest.approx(0.3 + 0.31 + 0.75 + 1.0)


def test_newest_versions_are_told_apart(store: FigureStore) -> None:
    """Of each agent the newest versions stand alone, older ones share `other`; agents do not take each other's places."""
    exporter = Exporter(store, watched("tone"), agent_versions=2)
    for version in ("1", "2", "3", "4"):
        _pass(store, "a", version)
        store.clock.advance(60)
    _pass(store, "b", "1")
    found = exporter.values("verdicts_total", "agent", "agent_version")
    assert found == {("a", "3"): 1.0, ("a", "4"): 1.0, ("a", "other"): 2.0, ("b", "1"): 1.0}
    folded = exporter.values("series_folded_total", "metric")
    assert folded["rubricd_verdicts_total"] == folded["rubricd_pass_rate_ratio"] == 2.0


def test_rates_of_folded_versions_are_estimated_together(store: FigureStore) -> None:
    """Versions that share `other` have one pass rate over all their invocations, in the same label set as their counters."""
    exporter = Exporter(store, watched("tone", windows=(3600.0,)), agent_versions=1)
    for version, outcome in (("1", Outcome.PASS), ("2", Outcome.FAIL), ("2", Outcome.FAIL), ("3", Outcome.PASS)):
        store.judge("m", Seen("a", store.clock.now(), outcome, agent_version=version))
        store.clock.advance(1)
    assert exporter.values("pass_rate_ratio", "agent_version") == {"other": pytest.approx(1 / 3), "3": 1.0}
    assert exporter.values("effective_samples", "agent_version") == {"other": 3.0, "3": 1.0}


def test_a_new_version_is_no_burst_of_old_verdicts(store: FigureStore) -> None:
    """When a version moves into `other`, what it had shown alone does not count again, also after a restart; what comes later does."""
    exporter = Exporter(store, watched("tone"), agent_versions=1)
    for _ in range(100):
        _pass(store, "a", "1")
    assert exporter.values("verdicts_total", "agent_version") == {"1": 100.0}
    _pass(store, "a", "2")
    assert exporter.values("verdicts_total", "agent_version") == {"other": 0.0, "2": 1.0}
    _pass(store, "a", "1")
    assert exporter.values("verdicts_total", "agent_version") == {"other": 1.0, "2": 1.0}
    restarted = Exporter(store, watched("tone"), agent_versions=1)
    assert restarted.values("verdicts_total", "agent_version") == {"other": 1.0, "2": 1.0}
    _pass(store, "a", "3")
    assert restarted.values("verdicts_total", "agent_version") == {"other": 1.0, "3": 1.0}


def test_restart_changes_nothing(store: FigureStore) -> None:
    """Another process over the same store shows the same counters, also which label sets are folded."""
    exporter = Exporter(store, watched("tone"), max_series_per_metric=40, agent_versions=2)
    for number in range(30):
        _pass(store, f"agent-{number % 17}", str(number % 4))
        store.clock.advance(1)
    before = exporter.scrape()["rubricd_verdicts_total"]
    assert len(before) <= 40
    assert sum(before.values()) == 30
    store.leases.clear()
    assert (
        Exporter(store, watched("tone"), max_series_per_metric=40, agent_versions=2).scrape()["rubricd_verdicts_total"]
        == before
    )


def test_labels_without_end(store: FigureStore, shared: Path) -> None:
    """Thousands of agent names give a bounded page with every verdict on it, and the same load again gives the same series."""
    case = json.loads((shared / "cases/public-reports/labels-without-end.steps.json").read_text())
    rubrics, limit = ("tone", "facts"), case["configure"]["max_agents"] + 1
    exporter = Exporter(store, watched(*rubrics, windows=(3600.0,)), max_series_per_metric=limit)

    def load() -> None:
        for number in range(5000):
            agent = f"agent-{number}"
            store.count(TallyName.INVOCATIONS, agent=agent, settled_by="root_ended")
            for rubric in rubrics:
                _pass(store, agent, rubric=rubric)
                store.count(TallyName.SCORE_BUCKET, le="1.0", monitor="m", rubric=rubric, agent=agent)
            store.clock.advance(0.01)

    load()
    first = exporter.scrape()
    series = [(name, labels) for name, values in first.items() for labels in values]
    agents = {dict(labels)["agent"] for _, labels in series if "agent" in dict(labels)}
    assert len(series) <= case["expect"]["series_of_ours_at_most"]
    assert len(agents) <= case["expect"]["agents_on_the_page_at_most"]
    assert sum(first["rubricd_verdicts_total"].values()) == 10_000
    assert sum(first["rubricd_invocations_total"].values()) == 5000
    assert max(first["rubricd_series_folded_total"].values()) > 4000
    load()
    second = exporter.scrape()
    assert {name: set(values) for name, values in second.items()} == {
        name: set(values) for name, values in first.items()
    }


def test_a_silent_agent_frees_its_place(store: FigureStore) -> None:
    """When agents that stood alone have been silent for long, new agents stand alone; those in `other` stay there and it never goes back."""
    exporter = Exporter(store, watched("tone"), max_series_per_metric=12, expire_after="7d")
    for agent in ("a", "b", "c", "d"):
        _pass(store, agent)
        store.clock.advance(1)
    assert exporter.values("verdicts_total", "agent") == {"a": 1.0, "b": 1.0, "other": 2.0}
    store.clock.advance(5 * DAY)
    _pass(store, "b")
    _pass(store, "d")
    store.clock.advance(3 * DAY)
    _pass(store, "e")
    assert exporter.values("verdicts_total", "agent") == {"b": 2.0, "e": 1.0, "other": 3.0}


def test_numbers_of_things_that_are_gone(store: FigureStore, shared: Path) -> None:
    """The page shows what is configured and known now: rubrics that a reload took away are gone, counters included, and come back as they were."""
    assert (shared / "cases/public-reports/numbers-of-things-that-are-gone.steps.json").is_file()
    exporter = Exporter(store, watched("tone", "facts", windows=(3600.0,)))
    for rubric in ("tone", "facts"):
        for agent in ("a", "b"):
            _pass(store, agent, rubric=rubric)
    assert len(exporter.scrape()["rubricd_pass_rate_ratio"]) == 4
    exporter.monitors[:] = [watched("facts", windows=(3600.0,))]
    page = exporter.scrape()
    left = {dict(labels)["rubric"] for values in page.values() for labels in values if "rubric" in dict(labels)}
    assert left == {"facts"}
    store.clock.advance(3600)
    store.judge("m", Seen("a", store.clock.now(), rubric="facts", rubric_version="bbbbbbbbbbbb"))
    assert exporter.values("pass_rate_ratio", "agent", "rubric_version") == {("a", "bbbbbbbbbbbb"): 1.0}
    restarted = Exporter(store, watched("tone", "facts", windows=(3600.0,)))
    assert restarted.values("pass_rate_ratio", "agent") == {"a": 1.0}
    assert restarted.values("verdicts_total", "rubric") == {"tone": 2.0, "facts": 3.0}


def test_same_metric_registered_again(store: FigureStore, shared: Path) -> None:
    """Rubric names that look like metric names are only label values: two processes, a reload to and fro, no error."""
    case = json.loads((shared / "cases/public-reports/same-metric-registered-again.config.json").read_text())
    names = [rubric["name"] for rubric in case["rubrics"] if "expect" not in rubric]
    for _ in range(2):
        exporter = Exporter(store, watched(*names))
        for name in names:
            _pass(store, "a", rubric=name)
        assert set(exporter.values("verdicts_total", "rubric")) == set(names)
        exporter.monitors[:] = [watched(*names[1:])]
        assert set(exporter.values("verdicts_total", "rubric")) == set(names[1:])
        exporter.monitors[:] = [watched(*names)]
        assert set(exporter.values("verdicts_total", "rubric")) == set(names)
        store.leases.clear()
    with pytest.raises(ValueError, match="Duplicated"):
        exporter.registry.register(exporter.collector)
