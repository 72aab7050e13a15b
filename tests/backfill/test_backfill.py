"""Backfills over a real store: what is drawn, once whatever happens, within a budget of its own, behind what is live."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from scipy.stats import binomtest

from monitor.backfill import BackfillRefused, Backfills
from monitor.clock import ManualClock
from monitor.commands.backfill import _print_preview
from monitor.history import Rereading
from monitor.model.backfill import BACKFILL_TICK, Backfill, BackfillAsked, BackfillStatus
from monitor.model.origin import waits_as
from monitor.model.run import Evaluation, Query
from monitor.model.verdict import NotSelected, Outcome
from monitor.scheduling.runner import ScheduledMonitor
from monitor.settings.tree import MonitorSettings, Sample
from monitor.store.sqlite import SqliteStore
from tests.contracts.store_material import (
    BOOKING,
    T0,
    TONE,
    failure_of,
    figures,
    invocation,
    leave_all,
    request,
    settlement,
    take_all,
    verdict_of,
)

SECOND = 10**9
SETTINGS = MonitorSettings(rubrics={"booking": {}}, sample=Sample(rate=1.0, max_per_hour=1))  # type: ignore[dict-item]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    opened = SqliteStore(tmp_path)
    yield opened
    opened.close()


class Bench:
    """Backfills of one monitor `m` whose rubrics and judge can be changed."""

    def __init__(self, store: SqliteStore) -> None:
        self.store, self.clock = store, ManualClock(T0 + 100_000)
        self.monitor = ScheduledMonitor(SETTINGS, (BOOKING,), needs_judge=True)
        self.left: float | None = None
        self.rereading: Rereading | None = None
        budget = SimpleNamespace(remaining_ratio=lambda now: self.left)
        self.judges: dict[str, Any] = {"default": SimpleNamespace(budget=budget)}
        self.backfills = self.made()

    def made(self) -> Backfills:
        """As after a start of the process."""
        return Backfills(self.store, self.clock, lambda: {"m": self.monitor}, lambda: self.judges, self.rereading)

    def history(self, count: int, monitors: tuple[str, ...] = ()) -> None:
        """Invocations one second apart from T0 on; `monitors` are to consider them."""
        for n in range(count):
            one = invocation(f"h{n}", ended_at=int(T0) * SECOND + n * SECOND)
            self.store.save_traces([settlement(one, monitors=monitors)])

    def judge(self, limit: int = 1000, outcome: Outcome = Outcome.PASS) -> list[Evaluation]:
        """Judge what is pending."""
        claimed = list(self.store.claim_evaluations(limit, self.clock.now(), 60))
        self.store.finish_evaluations([(one, verdict_of(one, outcome)) for one in claimed])
        return claimed

    def asked(self, **changes: Any) -> BackfillAsked:
        """All of the history."""
        return BackfillAsked("m", T0 - 10, T0 + 50_000, **changes)

    def run(self, steps: int = 100) -> list[Evaluation]:
        """Step and judge until nothing runs."""
        judged: list[Evaluation] = []
        while steps and self.backfills.step():
            judged += self.judge()
            steps -= 1
        return judged

    def standing(self) -> dict[str, Any]:
        """The newest backfill."""
        return self.backfills.all()[0]


@pytest.fixture
def bench(store: SqliteStore) -> Bench:
    return Bench(store)


def test_history_that_was_never_considered_is_drawn_once(bench: Bench) -> None:
    """Every invocation of the time is drawn with the monitor's rate, judged once, and counted as selected."""
    bench.history(120)
    begun = bench.backfills.begin(bench.asked())
    judged = bench.run()
    assert len(judged) == len({one.invocation.id for one in judged}) == begun.expected == 120
    assert {one.inclusion_probability for one in judged} == {0.25}  # the upstream probability: rate is 1
    standing = bench.standing()
    assert (standing["status"], standing["judged"], standing["drawn"]) == ("done", 120, 120)
    assert standing["tokens"] == 120 * 740
    assert figures(bench.store, "selected_total") == {("m",): 120.0}
    bench.backfills.begin(bench.asked())
    assert not bench.run()
    assert bench.standing()["drawn"] == 0


def test_a_death_between_two_steps_draws_nobody_twice(bench: Bench) -> None:
    """The step was stored, its note was not: the next process goes over the same once more without effect."""
    bench.history(120)
    bench.backfills.begin(bench.asked())
    saved = bench.store.state("backfills")
    bench.backfills.step()
    bench.store.set_state("backfills", saved)
    bench.backfills = bench.made()
    assert len({one.id for one in bench.run()}) == 120
    assert bench.standing()["status"] == "done"


def test_what_is_live_is_left_to_its_run_and_judged_first(bench: Bench) -> None:
    """An invocation that waits for the monitor's next run is not touched; evaluations of a run are claimed before those of a backfill."""
    bench.history(3)
    bench.store.save_traces([settlement(invocation("live", ended_at=int(T0 + 20) * SECOND))])
    bench.backfills.begin(bench.asked())
    bench.backfills.step()
    assert bench.store.pending(0)[0].count == 3
    bench.store.execute_run(request(), take_all)
    first = bench.store.claim_evaluations(1, bench.clock.now(), 60)
    assert first[0].invocation.id == invocation("live").id


def test_rubrics_added_later_are_judged_with_the_draw_that_was(bench: Bench) -> None:
    """Drawn invocations get the versions they lack, with the probability that they were drawn with; those not drawn stay so."""
    bench.history(4, monitors=("m",))
    bench.store.execute_run(request(), take_all)
    bench.judge()
    bench.monitor = replace(bench.monitor, rubrics=(BOOKING, TONE))
    assert bench.backfills.preview(bench.asked())["evaluations"] == 4
    bench.backfills.begin(bench.asked())
    judged = bench.run()
    assert {one.rubric.rubric for one in judged} == {"tone"}
    assert {one.inclusion_probability for one in judged} == {0.5}
    assert len(judged) == 4


@pytest.mark.parametrize(
    ("reason", "count"), [(NotSelected.MISSED, 3), (NotSelected.SAMPLED_OUT, 0), (NotSelected.OVER_CAP, 0)]
)
def test_only_what_nobody_looked_at_is_drawn_anew(bench: Bench, reason: NotSelected, count: int) -> None:
    """Missed ticks are made good; who was drawn from and left out stays left out: a second draw would have another probability."""
    bench.history(3, monitors=("m",))
    bench.store.execute_run(request(), leave_all(reason))
    bench.backfills.begin(bench.asked())
    assert len(bench.run()) == count


def test_the_time_bounds_what_is_looked_at(bench: Bench) -> None:
    """By the invocation's end: since is in, until is not."""
    bench.history(10)
    bench.backfills.begin(BackfillAsked("m", T0 + 2, T0 + 5))
    ends = sorted(one.invocation.ended_at // SECOND - int(T0) for one in bench.run())
    assert ends == [2, 3, 4]


def test_its_budget_ends_it_and_says_so(bench: Bench) -> None:
    """When max_tokens is used up no more is drawn; what was pending is judged."""
    bench.history(200)
    bench.backfills.begin(bench.asked(max_tokens=740 * 60))
    assert len(bench.run()) == 100  # two steps of 50: the first left the budget unspent
    standing = bench.standing()
    assert (standing["status"], standing["tokens"]) == ("over_budget", 74_000)
    assert "max_tokens" in standing["message"]


def test_half_of_the_judges_day_is_kept_for_what_is_live(bench: Bench) -> None:
    """It waits while less than half is left, and goes on with the next day."""
    bench.history(5)
    bench.backfills.begin(bench.asked())
    bench.left = 0.4
    assert not bench.run(steps=3)
    assert "is kept for what is live" in bench.standing()["message"]
    bench.left = 1.0
    assert len(bench.run()) == 5
    assert bench.standing()["message"] is None


def test_a_limit_lowers_the_rate_and_the_probability_is_known(bench: Bench) -> None:
    """About so many are drawn, each with limit / matching."""
    bench.history(400)
    begun = bench.backfills.begin(bench.asked(limit=100))
    assert begun.rate == 0.25
    judged = bench.run()
    assert 60 < len(judged) < 140
    assert {one.inclusion_probability for one in judged} == {0.25 * 0.25}


def test_errors_are_judged_again_and_their_success_is_the_first_verdict(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    """`errors` takes up failed evaluations of the time, and nothing else."""
    bench.history(6, monitors=("m",))
    bench.store.execute_run(request(), take_all)
    claimed = bench.store.claim_evaluations(100, bench.clock.now(), 60)
    results = [(one, failure_of(one) if n < 4 else verdict_of(one)) for n, one in enumerate(claimed)]
    bench.store.finish_evaluations(results)
    preview = bench.backfills.preview(bench.asked(errors=True))
    assert (preview["evaluations"], preview["drawn"], preview["interval_width"]) == (4, 0, None)
    _print_preview(preview | {"level": "conversation"})
    assert capsys.readouterr().out.splitlines() == [
        "4 evaluations of conversations that ended then have failed and can be judged again",
        "4 would be judged again: about 2,960 tokens, about 0.01 USD",
    ]
    bench.backfills.begin(bench.asked(errors=True))
    assert len(bench.run()) == 4
    assert bench.standing()["judged"] == 4
    assert len(bench.store.list_verdicts(Query()).items) == 6
    assert sum(figures(bench.store, "verdicts_total").values()) == 6


def test_a_preview_changes_nothing_and_counts_what_would_be(bench: Bench) -> None:
    """How many, tokens and USD by what verdicts cost lately, and the interval's width (Wilson at 90 %, by SciPy)."""
    bench.history(100)
    first = bench.backfills.preview(bench.asked())
    assert (first["matched"], first["drawn"], first["evaluations"]) == (100, 100, 100)
    assert first["tokens"] is None
    assert first["usd"] is None
    interval = binomtest(90, 100).proportion_ci(method="wilson")
    assert first["interval_width"] == pytest.approx(interval.high - interval.low, abs=1e-4)
    assert not bench.store.pending(0)
    bench.backfills.begin(BackfillAsked("m", T0, T0 + 10))
    bench.run()
    second = bench.backfills.preview(bench.asked())
    assert (second["drawn"], second["tokens"], second["usd"]) == (90, 90 * 740, 0.18)


def test_content_that_is_gone_is_counted_and_not_judged(bench: Bench) -> None:
    """Without content there is nothing to judge: no evaluation, no zero."""
    bench.history(5)
    bench.store.drop_unwanted_content()
    preview = bench.backfills.preview(bench.asked())
    assert (preview["without_content"], preview["drawn"]) == (5, 0)


def test_backfilled_history_is_no_evidence_of_a_regression_now(bench: Bench) -> None:
    """Verdicts of the past enter pass rates of their time, not the log that alarms go by."""
    bench.history(5)
    bench.backfills.begin(bench.asked())
    bench.judge()
    while bench.backfills.step():
        bench.judge(outcome=Outcome.FAIL)
    assert len(bench.store.judged("m", T0, T0 + 100)) == 5
    assert not bench.store.verdict_log(0, 100)


def test_what_cannot_be_is_refused(bench: Bench) -> None:
    """An unknown monitor, rubrics without a judge, a time that ends before it begins."""
    with pytest.raises(BackfillRefused, match="no monitor is called 'n'; they are m"):
        bench.backfills.begin(BackfillAsked("n", T0, T0 + 1))
    with pytest.raises(BackfillRefused, match="not later"):
        bench.backfills.begin(BackfillAsked("m", T0, T0))
    bench.monitor = replace(bench.monitor, rubrics=())
    with pytest.raises(BackfillRefused, match="wait for a judge"):
        bench.backfills.begin(bench.asked())


def test_a_monitor_that_is_gone_fails_the_backfill(bench: Bench) -> None:
    """It does not stand in the way of the others."""
    bench.history(3)
    bench.backfills.begin(bench.asked())
    rubrics, bench.monitor = bench.monitor, replace(bench.monitor, rubrics=())
    bench.backfills.step()
    assert bench.standing()["status"] == "failed"
    bench.monitor = rubrics
    bench.backfills.begin(bench.asked())
    assert len(bench.run()) == 3


async def test_a_collector_that_is_gone_fails_the_backfill(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """It does not stand in the way of the others, and what was read for it waits no more, also when the process dies at that moment."""
    histories: dict[str, Any] = {"tempo": SimpleNamespace(earlier_seconds=60.0)}
    bench.rereading = Rereading(lambda: histories, lambda _: 0)
    bench.backfills = bench.made()
    begun = bench.backfills.begin(bench.asked(collector="tempo"))
    bench.store.save_traces([settlement(invocation("read"), monitors=(waits_as(begun.id),))])
    histories.clear()
    with monkeypatch.context() as patched:
        patched.setattr(bench.backfills, "_keep", lambda _: 1 / 0)
        with suppress(ZeroDivisionError):
            await bench.backfills.read_on()
    assert bench.store.oldest_waiting(waits_as(begun.id)) is None
    await bench.backfills.read_on()
    assert bench.standing()["status"] == "failed"
    assert bench.backfills.step() is False


def test_it_is_kept_as_json_whatever_a_newer_version_adds() -> None:
    """Every field comes back; unknown keys are left out."""
    one = Backfill("backfill-3", 3, "m", 1.0, 2.0, 3.0, 0.5, position=(4, 5), batch=(6, 7), status=BackfillStatus.DONE)
    assert Backfill.from_json({**one.as_json(), "newer": 1}) == one
    assert one.tick == BACKFILL_TICK + 3


def test_complete_conversations_are_drawn_for_a_monitor_of_them(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    """A monitor of conversations scores those that are stored, not their turns; what a source is read for again it cannot take."""
    for n, talk in enumerate(("a", "b", "a")):
        one = invocation(f"h{n}", conversation_id=talk, ended_at=int(T0) * SECOND + n * SECOND)
        bench.store.save_traces([settlement(one, monitors=(), conversation_monitors=("other",))])
    bench.store.complete_conversations(T0 + 50, ("other",), T0 + 60)
    bench.monitor = replace(bench.monitor, settings=SETTINGS.model_copy(update={"level": "conversation"}))
    _print_preview(bench.backfills.preview(bench.asked()))
    assert "2 conversations ended then, 2 match and were not considered yet" in capsys.readouterr().out
    bench.backfills.begin(bench.asked())
    assert sorted(one.invocation.id for one in bench.run()) == ["conversation:a", "conversation:b"]
    with pytest.raises(BackfillRefused):
        bench.backfills.begin(bench.asked(collector="tempo"))


def test_a_backfill_is_cancelled(bench: Bench) -> None:
    """It draws nothing more, also when a step was under way; what was drawn is judged, the next one goes on, and what has ended stays."""
    bench.history(120)
    first = bench.backfills.begin(bench.asked())
    second = bench.backfills.begin(bench.asked())
    bench.backfills.step()
    drawn = bench.store.pending(0)[0].count
    under_way = bench.backfills._running()
    assert under_way is not None
    cancelled = bench.backfills.cancel(first.id)
    assert cancelled is not None
    assert cancelled["status"] == "cancelled"
    bench.backfills._keep(under_way)  # the step that was under way comes to its end
    assert bench.backfills.all()[1]["status"] == "cancelled"
    assert len(bench.judge()) == drawn
    assert len(bench.run()) == 120 - drawn
    assert [one["status"] for one in bench.backfills.all()] == ["done", "cancelled"]
    done = bench.backfills.cancel(second.id)
    assert done is not None
    assert done["status"] == "done"
    assert bench.backfills.cancel("backfill-77") is None


def test_failed_evaluations_are_not_limited(bench: Bench) -> None:
    """`errors` draws nothing that a limit could lower, so both together are refused."""
    with pytest.raises(BackfillRefused, match="goes without `limit`"):
        bench.backfills.preview(bench.asked(errors=True, limit=5))
