"""The page over the SQLite store: what runs and verdicts leave behind is what Prometheus sees."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from monitor.clock import ManualClock
from monitor.model.invocation import Invocation
from monitor.model.verdict import NotSelected, Outcome
from monitor.model.watched import WatchedMonitor, WatchedRubric
from monitor.store.sqlite import SqliteStore
from tests.contracts.store_material import (
    BOOKING,
    T0,
    failure_of,
    invocation,
    leave_all,
    request,
    settlement,
    take_all,
    verdict_of,
)
from tests.exporters.figures import Exporter, FigureStore

WATCHED = WatchedMonitor(
    "m", (WatchedRubric(BOOKING.rubric, BOOKING.version, "weighted", "default"),), windows=(3600.0,)
)


class Stored:
    """A store in a folder, runs a minute apart, and the page over it."""

    def __init__(self, folder: Path) -> None:
        self.store = SqliteStore(folder)
        self.clock = ManualClock(T0 + 60)

    def page(self, **settings: object) -> Exporter:
        """A process over the store; one after the other, so the lease passes on."""
        self.store.release_lease("export", "a")
        return Exporter(_with_clock(self.store, self.clock), WATCHED, **settings)

    def run(self, *invocations: Invocation, outcomes: tuple[Outcome | None, ...] = (Outcome.PASS,)) -> None:
        """Settle them, draw them all, judge them in turn with the outcomes (None: the evaluation fails)."""
        self.clock.advance(60)
        now = self.clock.now()
        self.store.save_traces([settlement(one, settled_at=now - 1) for one in invocations])
        self.store.execute_run(request(tick=now), take_all)
        claimed = sorted(self.store.claim_evaluations(100, now, 60), key=lambda claim: claim.invocation.id)
        for place, evaluation in enumerate(claimed):
            outcome = outcomes[place % len(outcomes)]
            judged = verdict_of(evaluation, outcome) if outcome else failure_of(evaluation)
            self.store.finish_evaluations([(evaluation, judged)])


def _with_clock(store: SqliteStore, clock: ManualClock) -> FigureStore:
    """The store with the clock that tests of the page turn."""
    store.clock = clock  # type: ignore[attr-defined]
    return cast(FigureStore, store)


@pytest.fixture
def stored(tmp_path: Path) -> Iterator[Stored]:
    found = Stored(tmp_path)
    yield found
    found.store.close()


def test_a_run_on_the_page(stored: Stored) -> None:
    """Selection, verdicts, errors, scores, coverage and the last success of a run stand on the page."""
    outcomes = (Outcome.PASS, Outcome.PASS, Outcome.FAIL, Outcome.UNJUDGEABLE, None)
    stored.run(*(invocation(str(number)) for number in range(10)), outcomes=outcomes)
    done = stored.clock.now()
    stored.clock.advance(60)
    stored.store.save_traces([settlement(invocation("left out"), settled_at=stored.clock.now() - 1)])
    stored.store.execute_run(request(tick=stored.clock.now()), leave_all(NotSelected.SAMPLED_OUT))
    page = stored.page()
    assert page.values("verdicts_total", "verdict") == {"pass": 4, "fail": 2, "not_applicable": 0, "unjudgeable": 2}
    assert page.values("selected_total", "monitor") == {"m": 10}
    assert page.values("not_selected_total", "reason")["sampled_out"] == 1
    assert page.values("evaluation_errors_total", "reason")["timeout"] == 2
    assert page.values("runs_total", "outcome") == {"done": 2, "failed": 0, "missed": 0}
    assert page.values("run_last_success_timestamp_seconds", "monitor")["m"] == pytest.approx(done + 60, abs=1)
    assert page.values("pass_rate_ratio", "agent") == {"restaurant-bot": pytest.approx(4 / 6)}
    assert page.values("pass_rate_worst_ratio", "agent") == {"restaurant-bot": pytest.approx(4 / 10)}
    assert page.values("pass_rate_best_ratio", "agent") == {"restaurant-bot": pytest.approx(8 / 10)}
    assert page.values("estimate_reliable", "agent") == {"restaurant-bot": 0.0}
    assert page.values("effective_samples", "agent") == {"restaurant-bot": pytest.approx(6)}
    assert page.values("coverage_ratio", "agent") == {"restaurant-bot": pytest.approx(6 / 11)}
    assert page.values("invocations_total", "agent", "settled_by") == {("restaurant-bot", "root_ended"): 11}
    counts = page.values("score_count", "rubric")
    assert counts["booking"] >= 6
    assert page.values("score_bucket", "le")["0.8"] == counts["booking"]
    assert page.values("score_bucket", "le")["0.7"] == 0
    assert page.values("dimension_score_count", "dimension")["policy"] == counts["booking"]


def test_zeroes_come_before_counts(stored: Stored) -> None:
    """From the draw of its first invocation a label set stands at 0 for every verdict."""
    stored.store.save_traces([settlement(invocation("a"))])
    stored.store.execute_run(request(), take_all)
    page = stored.page(zero_for="2m")
    assert page.values("verdicts_total", "agent", "verdict") == {
        ("restaurant-bot", outcome.value): 0.0 for outcome in Outcome
    }
    assert page.values("evaluations_pending", "monitor") == {"m": 1.0}


def test_history_of_folded_versions_is_kept(stored: Stored) -> None:
    """What a version had shown before newer ones took its place is kept in the store: no restart counts it again."""
    page = stored.page(agent_versions=1)
    stored.run(*(invocation(str(number), agent_version="1") for number in range(5)))
    assert page.values("verdicts_total", "agent_version") == {"1": 5.0}
    stored.run(invocation("new", agent_version="2"))
    assert page.values("verdicts_total", "agent_version") == {"other": 0.0, "2": 1.0}
    stored.run(invocation("late", agent_version="1"))
    for process in (page, stored.page(agent_versions=1)):
        process.store.release_lease("export", "a")
        assert process.values("verdicts_total", "agent_version") == {"other": 1.0, "2": 1.0}


def test_a_page_that_remembers_is_the_page_of_a_new_process(stored: Stored) -> None:
    """What is kept from one scrape to the next never shows: after each run both formats are those of a process that has just begun."""
    kept = stored.page()
    for number, outcomes in enumerate(
        ((Outcome.PASS,), (Outcome.PASS, Outcome.FAIL), (Outcome.FAIL,), (Outcome.PASS,))
    ):
        stored.run(invocation(f"{number}"), invocation(f"{number}b", agent_name="other-bot"), outcomes=outcomes)
        stored.clock.advance(2.0)
        fresh = stored.page()
        for accept in ("", "application/openmetrics-text"):
            assert kept.exposition.page(accept) == fresh.exposition.page(accept), number
