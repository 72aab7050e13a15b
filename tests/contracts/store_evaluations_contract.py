"""The queue of evaluations, and their results."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest

from monitor.model.run import Evaluation, JournalPosition, PendingCount, Query, RubricRef
from monitor.model.tallies import TallyName
from monitor.model.verdict import Criterion, ErrorType, Outcome
from monitor.store.protocol import Store
from tests.contracts.store_material import (
    BOOKING,
    T0,
    TONE,
    draw_and_claim,
    failure_of,
    figures,
    invocation,
    number_of,
    request,
    settlement,
    take_all,
    verdict_of,
)


class EvaluationsContract:
    """What a store promises of evaluations and verdicts."""

    def test_claims_come_oldest_run_first_and_by_u(self, store: Store) -> None:
        """Within a monitor the order is the run's tick, then the sampling number."""
        for n in range(6):
            store.save_traces([settlement(invocation(str(n)))])
            if n in (2, 5):
                store.execute_run(request(tick=T0 + 60 * (n + 1)), take_all)
        claimed = store.claim_evaluations(10, T0 + 1_000, 60)
        first = sorted((invocation(str(n)).id for n in range(3)), key=number_of)
        second = sorted((invocation(str(n)).id for n in range(3, 6)), key=number_of)
        assert [e.invocation.id for e in claimed] == [*first, *second]
        assert [e.number for e in claimed] == [number_of(e.invocation.id) for e in claimed]

    def test_a_claim_has_all_that_a_judge_needs(self, store: Store) -> None:
        """The invocation as stored, the rubric version and judge that it was drawn for, its probability."""
        (booking, tone) = draw_and_claim(store, invocation(), rubrics=(BOOKING, TONE))
        assert (booking.rubric, tone.rubric) == (BOOKING, TONE)
        assert booking.invocation == invocation()
        assert (booking.monitor, booking.inclusion_probability, booking.revision, booking.attempts) == ("m", 0.5, 1, 0)
        assert booking.created_at == T0 + 60

    def test_monitors_take_turns(self, store: Store) -> None:
        """A monitor with a long queue does not keep another waiting, and who is first changes."""
        for monitor, count in (("busy", 20), ("calm", 2), ("quiet", 2)):
            store.save_traces([settlement(invocation(f"{monitor}{n}"), monitors=(monitor,)) for n in range(count)])
            store.execute_run(request(monitor), take_all)
        assert Counter(e.monitor for e in store.claim_evaluations(6, T0 + 61, 60)) == {"busy": 2, "calm": 2, "quiet": 2}
        store.save_traces([settlement(invocation(f"more{n}"), monitors=("calm", "quiet")) for n in range(5)])
        store.execute_run(request("calm", T0 + 70), take_all)
        store.execute_run(request("quiet", T0 + 70), take_all)
        assert {store.claim_evaluations(1, T0 + 71, 60)[0].monitor for _ in range(6)} == {"busy", "calm", "quiet"}

    def test_claims_never_overlap(self, store: Store, open_again: Callable[[], Store]) -> None:
        """Threads and processes that claim at the same time never get the same evaluation."""
        store.save_traces([settlement(invocation(str(n))) for n in range(120)])
        store.execute_run(request(), take_all)
        claimed: list[int] = []

        def claim(which: Store) -> None:
            while found := which.claim_evaluations(7, T0 + 61, 60):
                claimed.extend(e.id for e in found)

        stores = [store, open_again(), store, open_again()]
        threads = [threading.Thread(target=claim, args=(which,)) for which in stores]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(claimed) == len(set(claimed)) == 120

    def test_a_lease_that_ran_out_frees_the_claim(self, store: Store) -> None:
        """A claim whose owner did not come back can be had again after its lease, not before, with one attempt more."""
        (old,) = draw_and_claim(store, invocation())
        assert store.claim_evaluations(10, T0 + 120.9, 60) == ()
        (new,) = store.claim_evaluations(10, T0 + 121, 60)
        assert (new.id, new.attempts) == (old.id, 1)
        store.postpone_evaluation(old, T0 + 500)
        store.release_evaluations([old])
        assert store.claim_evaluations(10, T0 + 122, 60) == ()
        store.finish_evaluations([(new, verdict_of(new)), (old, verdict_of(old, Outcome.FAIL))])
        assert figures(store, TallyName.VERDICTS) == {
            ("restaurant-bot", "1.4", "production", "m", "booking", BOOKING.version, "pass"): 1
        }

    def test_postponed_evaluations_wait_and_count_attempts(self, store: Store) -> None:
        """A postponed evaluation comes back at its time with one attempt more."""
        (evaluation,) = draw_and_claim(store, invocation())
        store.postpone_evaluation(evaluation, T0 + 90)
        assert store.claim_evaluations(10, T0 + 89, 60) == ()
        (again,) = store.claim_evaluations(10, T0 + 90, 60)
        assert (again.id, again.attempts) == (evaluation.id, 1)
        store.postpone_evaluation(again, 0)
        assert store.claim_evaluations(10, T0 + 91, 60)[0].attempts == 2

    def test_released_evaluations_are_as_they_were(self, store: Store) -> None:
        """A drain gives claims back at once, without an attempt."""
        evaluations = draw_and_claim(store, invocation("a"), invocation("b"))
        store.release_evaluations(evaluations)
        again = store.claim_evaluations(10, T0 + 62, 60)
        assert [(e.id, e.attempts) for e in again] == [(e.id, 0) for e in evaluations]

    def test_claims_of_a_killed_process_come_back_at_once(self, store: Store) -> None:
        """Releasing all claims gives back what was claimed, with one attempt more, and leaves postponed evaluations at their time."""
        postponed, held = draw_and_claim(store, invocation("a"), invocation("b"))
        store.postpone_evaluation(postponed, T0 + 500)
        assert store.release_all_claims() == 1
        assert [(e.id, e.attempts) for e in store.claim_evaluations(10, T0 + 62, 60)] == [(held.id, 1)]
        assert postponed.id in {e.id for e in store.claim_evaluations(10, T0 + 500, 60)}

    def test_evaluations_of_paused_judges_stay(self, store: Store) -> None:
        """While a judge is paused only the evaluations of others are given out."""
        store.save_traces([settlement(invocation())])
        other = RubricRef("other", "cccccccccccc", "second")
        store.execute_run(request(rubrics=(BOOKING, TONE, other)), take_all)
        found = store.claim_evaluations(10, T0 + 61, 60, paused_judges={"default"})
        assert {e.rubric.rubric for e in found} == {"tone", "other"}
        assert [e.rubric.rubric for e in store.claim_evaluations(10, T0 + 61, 60)] == ["booking"]

    def test_pending_is_counted_by_monitor(self, store: Store) -> None:
        """Waiting and claimed evaluations count, finished and failed ones do not."""
        store.save_traces([settlement(invocation(str(n)), monitors=("m", "n")) for n in range(4)])
        store.execute_run(request("m"), take_all)
        store.execute_run(request("n", T0 + 70), take_all)
        ours = [e for e in store.claim_evaluations(5, T0 + 71, 60) if e.monitor == "m"]
        store.finish_evaluations([(ours[0], verdict_of(ours[0])), (ours[1], failure_of(ours[1]))])
        assert list(store.pending(T0 + 72)) == [PendingCount("m", 2, T0 + 60), PendingCount("n", 4, T0 + 70)]

    def test_a_verdict_is_stored_and_counted_once(self, store: Store) -> None:
        """However often the same result is handed in, there is one verdict and one count."""
        (evaluation,) = draw_and_claim(store, invocation())
        result = (evaluation, verdict_of(evaluation, Outcome.FAIL))
        store.finish_evaluations([result])
        store.finish_evaluations([result, result])
        store.finish_evaluations([(evaluation, verdict_of(evaluation, Outcome.PASS))])
        (verdict,) = store.list_verdicts(Query()).items
        assert verdict["verdict"] == "fail"
        key = ("restaurant-bot", "1.4", "production", "m", "booking", BOOKING.version)
        assert figures(store, TallyName.VERDICTS) == {(*key, "fail"): 1}
        assert figures(store, TallyName.VERDICTS_REVISED) == {}
        assert store.claim_evaluations(10, T0 + 999, 60) == ()

    def test_a_later_revision_replaces_and_counts_as_revised(self, store: Store) -> None:
        """The counter keeps the first verdict, the verdict is the latest, and the change is counted from and to."""
        (first,) = draw_and_claim(store, invocation())
        store.finish_evaluations([(first, verdict_of(first, Outcome.FAIL))])
        store.save_traces([settlement(invocation(revision=2), consumed=JournalPosition(1, 200), rejudge=True)])
        (second,) = store.claim_evaluations(10, T0 + 300, 60)
        result = (second, verdict_of(second, Outcome.PASS, judged_at=T0 + 301))
        store.finish_evaluations([result])
        store.finish_evaluations([result])
        store.finish_evaluations([(first, verdict_of(first, Outcome.FAIL))])
        (verdict,) = store.list_verdicts(Query()).items
        assert (verdict["verdict"], verdict["revision"]) == ("pass", 2)
        assert [key[-1] for key in figures(store, TallyName.VERDICTS)] == ["fail"]
        assert figures(store, TallyName.VERDICTS_REVISED) == {("fail", "m", "booking", "pass"): 1}
        assert [one.outcome for one in store.judged("m", 0, T0 * 2)] == ["pass"]

    def test_a_failed_rejudgement_leaves_the_verdict(self, store: Store) -> None:
        """When judging again fails, the earlier verdict still stands and the failure is counted."""
        (first,) = draw_and_claim(store, invocation())
        store.finish_evaluations([(first, verdict_of(first))])
        store.save_traces([settlement(invocation(revision=2), consumed=JournalPosition(1, 200), rejudge=True)])
        (second,) = store.claim_evaluations(10, T0 + 300, 60)
        store.finish_evaluations([(second, failure_of(second))])
        assert [v["verdict"] for v in store.list_verdicts(Query()).items] == ["pass"]
        assert figures(store, TallyName.EVALUATION_ERRORS) == {("m", "timeout", "booking"): 1}
        assert store.unscored("m", 0, T0 * 2) == []

    def test_a_failed_evaluation_is_an_error_and_no_verdict(self, store: Store) -> None:
        """A failure is kept with its reason, never as a verdict, and counted once; it carries no content."""
        (evaluation,) = draw_and_claim(store, invocation())
        result = (evaluation, failure_of(evaluation, ErrorType.UNPARSEABLE))
        store.finish_evaluations([result])
        store.finish_evaluations([result])
        assert store.list_verdicts(Query()).items == ()
        (item,) = store.list_evaluations(Query(state="error")).items
        assert item["error"] == {"type": "unparseable", "message": "no answer within 60 s"}
        assert (item["failed"]["verdict"], item["failed"]["explanation"]) == (None, "")
        assert (item["failed"]["invocation_id"], item["failed"]["judge"]) == (evaluation.invocation.id, "default")
        assert figures(store, TallyName.EVALUATION_ERRORS) == {("m", "unparseable", "booking"): 1}
        assert figures(store, TallyName.VERDICTS) == {}
        assert store.claim_evaluations(10, T0 + 999, 60) == ()

    def test_a_success_after_a_failure_is_the_first_verdict(self, store: Store) -> None:
        """Two workers had the same evaluation, one failed and one succeeded: the verdict counts, once, and is not a revision."""
        (evaluation,) = draw_and_claim(store, invocation())
        store.finish_evaluations([(evaluation, failure_of(evaluation))])
        store.finish_evaluations([(evaluation, verdict_of(evaluation))])
        store.finish_evaluations([(evaluation, failure_of(evaluation))])
        assert sum(figures(store, TallyName.VERDICTS).values()) == 1
        assert figures(store, TallyName.VERDICTS_REVISED) == {}
        assert [item["state"] for item in store.list_evaluations(Query()).items] == ["done"]

    def test_unknown_evaluations_are_ignored(self, store: Store) -> None:
        """A result for an evaluation that is gone, or of another key, changes nothing."""
        (evaluation,) = draw_and_claim(store, invocation())
        strangers = [
            replace(evaluation, id=evaluation.id + 1_000),
            replace(evaluation, rubric=TONE),
            replace(evaluation, monitor="x"),
        ]
        store.finish_evaluations([(one, verdict_of(one)) for one in strangers])
        assert store.list_verdicts(Query()).items == ()
        assert figures(store, TallyName.VERDICTS) == {}

    @pytest.mark.parametrize(
        ("score", "score_range", "le", "value"),
        [
            (0.72, (0.0, 1.0), "0.8", 0.72),
            (0.3, (0.0, 1.0), "0.3", 0.3),
            (4, (1.0, 5.0), "0.8", 0.75),
            (1, (1, 5), "0.1", 0.0),
        ],
    )
    def test_scores_are_counted_on_the_scale_of_0_to_1(
        self, store: Store, score: float, score_range: tuple[float, float], le: str, value: float
    ) -> None:
        """A score falls into one bucket by where it lies in its range, and adds to the sum."""
        (evaluation,) = draw_and_claim(store, invocation())
        store.finish_evaluations([(evaluation, verdict_of(evaluation, score=score, score_range=score_range))])
        assert figures(store, TallyName.SCORE_BUCKET) == {("restaurant-bot", le, "m", "booking"): 1}
        assert sum(figures(store, TallyName.SCORE_SUM).values()) == pytest.approx(value)

    def test_dimensions_are_counted_on_their_own_scale(self, store: Store) -> None:
        """Applicable dimensions with a weight are counted; what does not apply, and yes/no properties, are not."""
        (evaluation,) = draw_and_claim(store, invocation())
        criteria = (
            Criterion("policy", 4, True, 9),
            Criterion("quality", None, False, 5),
            Criterion("numbered_list", 1.0, True, None),
        )
        store.finish_evaluations([(evaluation, verdict_of(evaluation, criteria=criteria))])
        assert figures(store, TallyName.DIMENSION_SCORE_BUCKET) == {
            ("restaurant-bot", "policy", "4.0", "m", "booking"): 1
        }
        assert figures(store, TallyName.DIMENSION_SCORE_SUM) == {("restaurant-bot", "policy", "m", "booking"): 4}

    def test_unjudgeable_is_counted_with_its_reason(self, store: Store) -> None:
        """An unjudgeable verdict is a verdict, and counted by what was lacking."""
        (evaluation,) = draw_and_claim(store, invocation())
        lacking = verdict_of(evaluation, Outcome.UNJUDGEABLE, score=None, unjudgeable_reason="missing:tool_definitions")
        store.finish_evaluations([(evaluation, lacking)])
        assert figures(store, TallyName.UNJUDGEABLE) == {
            ("restaurant-bot", "m", "missing:tool_definitions", "booking"): 1
        }
        assert figures(store, TallyName.SCORE_BUCKET) == {}
        assert store.list_verdicts(Query()).items[0]["unjudgeable_reason"] == "missing:tool_definitions"

    def test_many_threads_finish_at_once(self, store: Store) -> None:
        """Results handed in by many threads are all there, each counted once."""
        evaluations = draw_and_claim(store, *(invocation(str(n)) for n in range(60)))

        def finish(mine: list[Evaluation]) -> None:
            for evaluation in mine:
                store.finish_evaluations([(evaluation, verdict_of(evaluation))])

        threads = [threading.Thread(target=finish, args=(evaluations[start::6],)) for start in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sum(figures(store, TallyName.VERDICTS).values()) == 60
        assert len(store.list_verdicts(Query()).items) == 60
