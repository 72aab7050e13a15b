"""Gauges of pass rates, queues and configuration."""

from __future__ import annotations

import pytest

from monitor.clock import ManualClock
from monitor.model.run import PendingCount, Tally
from monitor.model.tallies import TallyName
from monitor.model.verdict import Outcome
from monitor.model.watched import WatchedMonitor, WatchedRubric
from monitor.store.protocol import StoreUnwritable
from tests.exporters.figures import Exporter, FigureStore, Seen, watched


@pytest.fixture
def store() -> FigureStore:
    return FigureStore(ManualClock())


def test_windows_go_by_the_end_of_the_invocation(store: FigureStore) -> None:
    """An invocation is in every window that its end lies in, and in no other; windows are called 1h, 1d, 7d."""
    now = store.clock.now()
    store.judge("m", Seen("a", now - 60, Outcome.PASS))
    store.judge("m", Seen("a", now - 7200, Outcome.FAIL))
    store.judge("m", Seen("a", now - 3 * 86400, Outcome.FAIL))
    store.judge("m", Seen("a", now - 8 * 86400, Outcome.FAIL))
    exporter = Exporter(store, watched("tone"))
    assert exporter.values("pass_rate_ratio", "window") == {"1h": 1.0, "1d": 0.5, "7d": pytest.approx(1 / 3)}
    assert exporter.values("effective_samples", "window") == {"1h": 1.0, "1d": 2.0, "7d": 3.0}


def test_a_window_without_a_judged_invocation_has_no_series(store: FigureStore) -> None:
    """A window that passes without an invocation loses its series instead of repeating the last value or showing 0."""
    store.judge("m", Seen("a", store.clock.now()))
    store.clock.advance(1)
    exporter = Exporter(store, watched("tone"))
    assert exporter.values("pass_rate_ratio", "window") == {"1h": 1.0, "1d": 1.0, "7d": 1.0}
    store.clock.advance(3600)
    page = exporter.scrape()
    for name, values in page.items():
        assert not any(("window", "1h") in labels for labels in values), name
    assert exporter.values("pass_rate_ratio", "window") == {"1d": 1.0, "7d": 1.0}


def test_unscored_invocations_show_as_bounds(store: FigureStore) -> None:
    """Where all evaluations failed there is no rate; the worst and best case and `estimate_reliable` 0 say why."""
    for outcome in (None, Outcome.UNJUDGEABLE):
        store.judge("m", Seen("a", store.clock.now(), outcome))
    store.clock.advance(1)
    exporter = Exporter(store, watched("tone", windows=(3600.0,)))
    assert exporter.values("pass_rate_ratio", "agent") == {}
    assert exporter.values("pass_rate_lower_ratio", "agent") == {}
    assert exporter.values("pass_rate_worst_ratio", "agent") == {"a": 0.0}
    assert exporter.values("pass_rate_best_ratio", "agent") == {"a": 1.0}
    assert exporter.values("estimate_reliable", "agent") == {"a": 0.0}


def test_only_not_applicable_has_no_series(store: FigureStore) -> None:
    """Verdicts "not applicable" alone make no pass rate and no bounds."""
    store.judge("m", Seen("a", store.clock.now(), Outcome.NOT_APPLICABLE))
    store.clock.advance(1)
    page = Exporter(store, watched("tone")).scrape()
    assert not any(("window", "1h") in labels for values in page.values() for labels in values)


def test_coverage_is_judged_of_eligible(store: FigureStore) -> None:
    """Coverage is the share of the eligible invocations that have a verdict about the agent."""
    now = store.clock.now()
    for judged in (True, True, False, False, False, False, False, False):
        store.judge("m", Seen("a", now, judged=judged))
    store.judge("m", Seen("a", now, None))
    store.judge("m", Seen("a", now, Outcome.NOT_APPLICABLE))
    store.clock.advance(1)
    assert Exporter(store, watched("tone", windows=(60.0,))).values("coverage_ratio", "window") == {"1m": 0.3}


def test_weights_undo_the_sampling(store: FigureStore) -> None:
    """Invocations drawn with a small probability count for more."""
    now = store.clock.now()
    store.judge("m", Seen("a", now, Outcome.PASS, probability=0.1))
    store.judge("m", Seen("a", now, Outcome.FAIL, probability=1.0))
    store.clock.advance(1)
    rates = Exporter(store, watched("tone", windows=(60.0,)))
    assert rates.values("pass_rate_ratio", "agent")["a"] == pytest.approx(10 / 11)
    assert rates.values("effective_samples", "agent")["a"] == pytest.approx(121 / 101)


def test_queues(store: FigureStore) -> None:
    """Pending evaluations show their number and the age of the oldest; a monitor with none shows 0, one that is not configured nothing."""
    store.waiting = [PendingCount("m", 7, store.clock.now() - 59), PendingCount("gone", 1, None)]
    exporter = Exporter(store, watched("tone"), watched("tone", name="idle"))
    assert exporter.values("evaluations_pending", "monitor") == {"m": 7.0, "idle": 0.0}
    assert exporter.values("oldest_pending_seconds", "monitor")["m"] == pytest.approx(60, abs=2)
    assert exporter.values("oldest_pending_seconds", "monitor")["idle"] == 0.0


def test_last_success(store: FigureStore) -> None:
    """The time of the last run that was done stands there, no time before the first, and none of a monitor that is gone."""
    exporter = Exporter(store, watched("tone"))
    assert exporter.values("run_last_success_timestamp_seconds", "monitor") == {}
    for monitor in ("m", "gone"):
        store.count(TallyName.RUN_LAST_SUCCESS, 1_700_000_123.5, monitor=monitor)
    assert exporter.values("run_last_success_timestamp_seconds", "monitor") == {"m": 1_700_000_123.5}


def test_what_is_in_force(store: FigureStore) -> None:
    """Objectives, schedules, rubrics with their judge, and monitors with their labels stand there; a shadow rubric has no objective."""
    tone = WatchedRubric("tone", "aaaaaaaaaaaa", "graded", "default", "gpt-x", objective=0.9)
    shadow = WatchedRubric("tone_v2", "bbbbbbbbbbbb", "graded", "default", "gpt-x", objective=0.9, shadow=True)
    labels = {"team": "bookings", "pod": "p", "bad name": "x", "monitor": "other"}
    exporter = Exporter(
        store, WatchedMonitor("m", (tone, shadow), labels=labels, interval=86400.0, longest_gap=259200.0)
    )
    assert exporter.values("run_interval_seconds", "monitor") == {"m": 259200.0}
    assert exporter.values("objective_ratio", "monitor", "rubric") == {("m", "tone"): 0.9}
    assert set(exporter.values("rubric_info", "rubric", "rubric_version", "kind", "judge", "judge_model")) == {
        ("tone", "aaaaaaaaaaaa", "graded", "default", "gpt-x"),
        ("tone_v2", "bbbbbbbbbbbb", "graded", "default", "gpt-x"),
    }
    assert list(exporter.scrape()["rubricd_monitor_info"]) == [frozenset({("monitor", "m"), ("team", "bookings")})]
    assert "rubricd_build_info" in exporter.scrape()


def test_one_process_at_a_time(store: FigureStore) -> None:
    """Of two processes over one store only the holder of the lease shows the store's figures; the other takes over when it is gone."""
    store.judge("m", Seen("a", store.clock.now()))
    first, second = (Exporter(store, watched("tone"), owner=owner) for owner in "ab")
    assert first.values("export_leader") == {(): 1.0}
    page = second.scrape()
    assert set(page) == {"rubricd_export_leader", "rubricd_build_info"}
    assert page["rubricd_export_leader"] == {frozenset(): 0.0}
    for _ in range(5):
        store.clock.advance(first.lease.renew_seconds)
        assert first.lease.renew()
        assert second.values("export_leader") == {(): 0.0}
    store.clock.advance(31)
    assert second.values("verdicts_total", "agent") == {"a": 1.0}
    assert first.values("verdicts_total", "agent") == {}
    second.lease.release()
    assert second.values("export_leader") == {(): 0.0}
    assert first.values("verdicts_total", "agent") == {"a": 1.0}


def test_a_held_lease_ends_without_the_store(store: FigureStore) -> None:
    """A process that was stopped past its lease does not show figures on the strength of it."""
    first, second = (Exporter(store, watched("tone"), owner=owner) for owner in "ab")
    assert first.lease.renew()
    store.clock.advance(60)
    assert second.lease.renew()
    assert not first.lease.held()


def test_a_full_disk_leaves_the_figures_on_the_page(store: FigureStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the store cannot be written the holder of the lease goes on showing what can be read, and nobody else begins to."""
    store.judge("m", Seen("a", store.clock.now()))
    first, second = (Exporter(store, watched("tone"), owner=owner) for owner in "ab")
    assert first.values("export_leader") == {(): 1.0}
    assert second.values("export_leader") == {(): 0.0}

    def full(*_: object) -> bool:
        raise StoreUnwritable("the disk is full")

    monkeypatch.setattr(store, "acquire_lease", full)
    store.clock.advance(3600)
    assert first.values("verdicts_total", "agent") == {"a": 1.0}
    assert second.values("export_leader") == {(): 0.0}


def test_a_store_that_cannot_be_read_hides_nothing_else(store: FigureStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the store fails, the scrape succeeds without its figures, says so, and is whole again afterwards."""
    exporter = Exporter(store, watched("tone"))

    def broken() -> list[Tally]:
        raise OSError("disk gone")

    with monkeypatch.context() as patched:
        patched.setattr(store, "tallies", broken)
        assert set(exporter.scrape()) == {"rubricd_export_leader", "rubricd_build_info"}
        assert exporter.values("export_leader") == {(): 0.0}
    assert "rubricd_selected_total" in exporter.scrape()


def test_scrapes_share_a_reading(store: FigureStore) -> None:
    """Pages within a second are made of one reading of the store."""
    exporter = Exporter(store, watched("tone"))
    exporter.exposition.page()
    reads = store.reads
    for _ in range(10):
        exporter.exposition.page()
    assert store.reads == reads
    store.clock.advance(1.0)
    exporter.exposition.page()
    assert store.reads > reads
