"""Runs: each invocation is considered once by each monitor, in one transaction with what comes of it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from monitor.model.run import Candidate, Decision, Query, RunPlan, Stratum
from monitor.model.tallies import TallyName
from monitor.model.verdict import NotSelected
from monitor.store.protocol import Store
from tests.contracts.store_material import (
    BOOKING,
    T0,
    TONE,
    figures,
    invocation,
    leave_all,
    number_of,
    request,
    settlement,
    take_all,
    take_below,
    verdict_of,
)


def halve(
    strata: Sequence[Stratum], drawn: Sequence[Decision], taken_up: object
) -> tuple[Sequence[Stratum], Sequence[Decision]]:
    """A fake recomputation: those not taken up are over budget, all probabilities are halved."""
    assert isinstance(taken_up, (set, frozenset))
    changed = [
        replace(
            d,
            inclusion_probability=d.inclusion_probability / 2,
            drawn=d.invocation_id in taken_up,
            reason=None if d.invocation_id in taken_up else NotSelected.OVER_BUDGET,
        )
        for d in drawn
    ]
    return [replace(s, cap=len(taken_up), drawn=len(taken_up)) for s in strata], changed


class RunsContract:
    """What a store promises of runs."""

    def test_a_run_gets_what_settled_before_its_tick_in_order(self, store: Store) -> None:
        """Candidates come by (settled_at, id), with all that selection looks at; what settles later waits for the next run."""
        late, early, same = invocation("a"), invocation("b"), invocation("c")
        store.save_traces(
            [
                settlement(late, settled_at=T0 + 60),
                settlement(early, settled_at=T0 + 10, kept_below=0.5),
                settlement(same, settled_at=T0 + 10),
            ]
        )
        seen: list[Candidate] = []

        def decide(candidates: Sequence[Candidate], carry: float) -> RunPlan:
            seen.extend(candidates)
            assert carry == 0.0
            return take_all(candidates, carry)

        store.execute_run(request(), decide)
        assert [c.invocation_id for c in seen] == sorted([early.id, same.id])
        found = next(c for c in seen if c.invocation_id == early.id)
        assert found == Candidate(
            invocation_id=early.id,
            trace_id=early.trace_id,
            conversation_id="conversation-1",
            agent_name="restaurant-bot",
            agent_version="1.4",
            environment="production",
            service="bookings",
            model="gpt-4.1-mini",
            operation="invoke_agent",
            collector="otlp",
            settled_by="root_ended",
            tools=("find_table", "book_table", "book_table"),
            has_error=False,
            attributes={"tenant": "gold", "n": 7, "flags": [True, "x"]},
            ended_at=pytest.approx(T0 + 5),
            settled_at=T0 + 10,
            upstream_probability=0.25,
            kept_below=0.5,
        )
        again = store.execute_run(request(tick=T0 + 61), take_all)
        assert again is not None
        assert again.considered == 1

    def test_what_commits_late_is_not_skipped(self, store: Store) -> None:
        """An invocation stored after a run, with a settling before it, is taken by the next run."""
        store.save_traces([settlement(invocation("a"))])
        store.execute_run(request(), take_all)
        store.save_traces([settlement(invocation("b"), settled_at=T0 + 1)])
        run = store.execute_run(request(tick=T0 + 120), take_all)
        assert run is not None
        assert run.considered == 1

    def test_an_end_after_the_settling_is_the_settling(self, store: Store) -> None:
        """An agent whose clock is ahead does not put its invocations into the future."""
        store.save_traces([settlement(invocation(ended_at=int((T0 + 9_000) * 1e9)))])
        seen: list[Candidate] = []
        store.execute_run(request(), lambda c, carry: seen.extend(c) or take_all(c, carry))  # type: ignore[func-returns-value]
        assert seen[0].ended_at == T0 + 30

    def test_a_tick_is_run_once(self, store: Store, open_again: Callable[[], Store]) -> None:
        """The same tick again, also by another process, changes nothing."""
        store.save_traces([settlement(invocation("a"))])
        first = store.execute_run(request(), take_all)
        store.save_traces([settlement(invocation("b"))])
        assert open_again().execute_run(request(), take_all) is None
        assert store.miss_run(request()) is None
        store.fail_run(request(), "late")
        assert store.last_run("m") == first
        assert store.oldest_waiting("m") == T0 + 30

    def test_two_runs_at_once_share_no_invocation(self, store: Store, open_again: Callable[[], Store]) -> None:
        """Two processes running different ticks of one monitor at the same time consider each invocation once."""
        store.save_traces([settlement(invocation(str(n))) for n in range(40)])
        other = open_again()
        considered: list[str] = []

        def decide(candidates: Sequence[Candidate], carry: float) -> RunPlan:
            considered.extend(c.invocation_id for c in candidates)
            return take_all(candidates, carry)

        threads = [
            threading.Thread(target=which.execute_run, args=(request(tick=T0 + 60 + n), decide))
            for n, which in enumerate([store, other, store, other])
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(considered) == sorted(invocation(str(n)).id for n in range(40))

    def test_each_monitor_considers_for_itself(self, store: Store) -> None:
        """A run of one monitor leaves the others' work alone; a monitor that the settlement did not name has none."""
        store.save_traces([settlement(invocation(), monitors=("m", "n"))])
        store.execute_run(request("m"), take_all)
        assert store.oldest_waiting("m") is None
        assert store.oldest_waiting("n") == T0 + 30
        run = store.execute_run(request("x"), take_all)
        assert run is not None
        assert run.considered == 0

    def test_the_run_is_recorded(self, store: Store) -> None:
        """What the run did, its strata and its carry come back."""
        store.save_traces([settlement(invocation("a")), settlement(invocation("b"))])
        run = store.execute_run(request(rubrics=(BOOKING, TONE), started_at=T0 + 63), take_all)
        assert run is not None
        assert (run.outcome, run.considered, run.drawn, run.evaluations, run.carry) == ("done", 2, 2, 4, 1.5)
        assert run.strata == (Stratum("all", 2, 0.5, None, 2, 0.5),)
        assert (run.tick, run.started_at, run.finished_at) == (T0 + 60, T0 + 63, T0 + 63)
        assert store.last_run("m") == run
        assert store.last_run("other") is None

    def test_the_carry_goes_to_the_next_run(self, store: Store) -> None:
        """Each run gets what the newest completed run before it left, over missed and failed ticks."""
        carries: list[float] = []
        decide = lambda candidates, carry: carries.append(carry) or RunPlan((), carry + 2.0)  # type: ignore[func-returns-value]  # noqa: E731
        store.execute_run(request(tick=T0 + 60), decide)
        store.miss_run(request(tick=T0 + 120))
        store.fail_run(request(tick=T0 + 180), "broken")
        store.execute_run(request(tick=T0 + 240), decide)
        assert carries == [0.0, 2.0]

    def test_candidates_without_a_decision_wait(self, store: Store) -> None:
        """What the draw said nothing of comes back in the next run."""
        store.save_traces([settlement(invocation("a")), settlement(invocation("b"))])
        first = store.execute_run(request(), lambda c, carry: take_all(c[:1], carry))
        second = store.execute_run(request(tick=T0 + 120), take_all)
        assert first is not None
        assert second is not None
        assert (first.considered, second.considered) == (1, 1)

    def test_a_draw_that_raises_leaves_nothing(self, store: Store) -> None:
        """An error in the draw undoes the run and passes through; the tick can be run again."""
        store.save_traces([settlement(invocation())])

        def broken(candidates: Sequence[Candidate], carry: float) -> RunPlan:
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            store.execute_run(request(), broken)
        stranger = Decision("nobody", True, None, 0.1, 1.0)
        with pytest.raises(ValueError, match="no candidates"):
            store.execute_run(request(), lambda c, carry: RunPlan((stranger,)))
        assert store.last_run("m") is None
        run = store.execute_run(request(), take_all)
        assert run is not None
        assert run.considered == 1

    def test_a_failed_tick_is_recorded_and_may_be_run_again(self, store: Store) -> None:
        """A failure is the newest run, but not the newest completed one, and its candidates stay unconsidered."""
        store.save_traces([settlement(invocation())])
        done = store.execute_run(request(tick=T0 + 1), take_all)
        store.fail_run(request(), "no space left")
        store.fail_run(request(), "no space left")
        failed = store.last_run("m")
        assert failed is not None
        assert (failed.outcome, failed.tick, failed.error) == ("failed", T0 + 60, "no space left")
        assert store.last_run("m", completed=True) == done
        run = store.execute_run(request(), take_all)
        assert run is not None
        assert (run.outcome, run.considered) == ("done", 1)
        assert figures(store, TallyName.RUNS) == {("m", "done"): 2, ("m", "failed"): 2}

    def test_a_missed_tick_counts_what_it_would_have_taken(self, store: Store) -> None:
        """What only a missed tick would have taken is considered, not selected, reason missed; the rest waits."""
        store.save_traces([settlement(invocation("a")), settlement(invocation("b"), settled_at=T0 + 90)])
        run = store.miss_run(request())
        assert run is not None
        assert (run.outcome, run.considered, run.drawn) == ("missed", 1, 0)
        assert figures(store, TallyName.NOT_SELECTED) == {("m", "missed"): 1}
        assert store.oldest_waiting("m") == T0 + 90
        assert store.last_run("m", completed=True) == run

    def test_draws_are_counted_by_reason(self, store: Store) -> None:
        """Selected and not selected add up to what was considered."""
        store.save_traces([settlement(invocation(str(n))) for n in range(20)])
        run = store.execute_run(request(), take_below(0.5))
        assert run is not None
        expected = sum(number_of(invocation(str(n)).id) < 0.5 for n in range(20))
        assert 0 < expected < 20
        assert run.drawn == expected
        assert figures(store, TallyName.SELECTED) == {("m",): expected}
        assert figures(store, TallyName.NOT_SELECTED) == {("m", "sampled_out"): 20 - expected}

    def test_decisions_explain(self, store: Store) -> None:
        """Per invocation and monitor: drawn with its evaluations, not selected with the reason, or waiting."""
        one = invocation()
        store.save_traces([settlement(one, monitors=("m", "n", "o"))])
        store.execute_run(request("m", rubrics=(BOOKING, TONE)), take_all)
        store.execute_run(request("n"), leave_all(NotSelected.FILTERED, "environment"))
        (evaluation, _) = store.claim_evaluations(10, T0 + 61, 60)
        store.finish_evaluations([(evaluation, verdict_of(evaluation))])
        drawn, filtered, waiting = store.decisions(one.trace_id)
        assert (drawn["monitor"], drawn["decision"], drawn["reason"], drawn["stratum"]) == ("m", "drawn", None, "all")
        assert (drawn["u"], drawn["inclusion_probability"]) == (number_of(one.id), 0.5)
        assert [(e["rubric"], e["state"], e["verdict"]) for e in drawn["evaluations"]] == [
            ("booking", "done", "pass"),
            ("tone", "pending", None),
        ]
        assert (filtered["decision"], filtered["reason"], filtered["detail"]) == (
            "not_selected",
            "filtered",
            "environment",
        )
        assert (filtered["evaluations"], filtered["tick"]) == ([], drawn["tick"])
        assert (waiting["monitor"], waiting["decision"], waiting["u"]) == ("o", "waiting", None)

    def test_retired_monitors_wait_for_nothing(self, store: Store) -> None:
        """What waits for a monitor that is no more is dropped, and no longer keeps content; pending evaluations stay."""
        one = invocation()
        store.save_traces([settlement(one, monitors=("m", "gone"))])
        store.execute_run(request("gone"), leave_all(NotSelected.FILTERED))
        store.save_traces([settlement(invocation("b"), monitors=("m", "gone"))])
        assert store.retire_monitors(["m"]) == 1
        assert store.oldest_waiting("gone") is None
        assert store.oldest_waiting("m") == T0 + 30
        assert store.drop_unwanted_content() == 0
        store.execute_run(request("m"), leave_all(NotSelected.SAMPLED_OUT))
        assert store.drop_unwanted_content() == 2

    def test_what_was_tried_is_taken_up(self, store: Store) -> None:
        """A postponed evaluation and an expired claim are no reason to give an invocation up; one released in a drain is."""
        store.save_traces([settlement(invocation(str(n))) for n in range(4)])
        store.execute_run(request(), take_all)
        postponed, expired, released = store.claim_evaluations(3, T0 + 61, 60)
        store.postpone_evaluation(postponed, T0 + 9_000)
        store.release_evaluations([released])
        assert store.cut_run("m", T0 + 60, halve, T0 + 8_000) == 2
        left = {item["invocation_id"] for item in store.list_evaluations(Query()).items}
        assert left == {postponed.invocation.id, expired.invocation.id}

    def test_a_cut_run_gives_up_what_nobody_began(self, store: Store) -> None:
        """Unclaimed invocations of the run become over_budget; the others keep all their evaluations with the new probability."""
        store.save_traces([settlement(invocation(str(n))) for n in range(6)])
        store.execute_run(request(rubrics=(BOOKING, replace(TONE, judge="default"))), take_all)
        begun = store.claim_evaluations(3, T0 + 61, 60)
        store.finish_evaluations([(begun[0], verdict_of(begun[0]))])
        store.postpone_evaluation(begun[1], T0 + 90)
        taken = {e.invocation.id for e in begun}
        assert store.cut_run("m", T0 + 60, halve, T0 + 70) == 6 - len(taken)
        assert store.cut_run("m", T0 + 60, halve, T0 + 70) == 0
        assert figures(store, TallyName.NOT_SELECTED) == {("m", "over_budget"): 6 - len(taken)}
        left = {item["invocation_id"] for item in store.list_evaluations(Query()).items}
        assert left == taken
        assert {item["inclusion_probability"] for item in store.list_evaluations(Query()).items} == {0.25}
        assert [v["inclusion_probability"] for v in store.list_verdicts(Query()).items] == [0.25]
        run = store.last_run("m")
        assert run is not None
        assert (run.drawn, run.evaluations, run.strata[0].cap) == (len(taken), 2 * len(taken), len(taken))
        given_up = next(n for n in range(6) if invocation(str(n)).id not in taken)
        (decision,) = store.decisions(invocation(str(given_up)).trace_id)
        assert (decision["decision"], decision["reason"]) == ("not_selected", "over_budget")
        assert store.drop_unwanted_content() == 6 - len(taken)

    def test_a_cut_leaves_rubrics_without_a_judge_as_they_are(self, store: Store) -> None:
        """What no judge is asked for keeps all that was drawn, with its probability, judged or not; only the judged rubrics are cut, and have a
        probability of their own. A backfill does not judge what was given up; a new revision does not either.
        """
        names = [str(n) for n in range(6)]
        store.save_traces([settlement(invocation(name)) for name in names])
        store.execute_run(request(rubrics=(BOOKING, TONE)), take_all)
        looked = store.claim_evaluations(4, T0 + 61, 60, paused_judges={"default"})
        store.finish_evaluations([(one, verdict_of(one)) for one in looked])
        begun = store.claim_evaluations(2, T0 + 61, 60, paused_judges={""})[:2]
        asked = [one for one in begun if one.rubric.rubric == "booking"]
        assert store.cut_run("m", T0 + 60, halve, T0 + 70) == 6 - len(asked)
        assert store.cut_run("m", T0 + 60, halve, T0 + 70) == 0
        assert figures(store, TallyName.NOT_SELECTED) == {("m", "over_budget"): 6 - len(asked)}
        left = store.list_evaluations(Query(limit=100)).items
        assert {(one["rubric"], one["inclusion_probability"]) for one in left} == {("tone", 0.5), ("booking", 0.25)}
        assert sum(one["rubric"] == "tone" for one in left) == 6
        assert {one["invocation_id"] for one in left if one["rubric"] == "booking"} == {e.invocation.id for e in asked}
        store.finish_evaluations([(asked[0], verdict_of(asked[0]))])
        weights = {(row.rubric, 1 / row.inclusion_probability, row.heaviest) for row in store.verdict_log(0, 100)}
        assert weights == {("tone", 2.0, 2.0), ("booking", 4.0, 4.0)}
        run = store.last_run("m")
        assert run is not None
        assert (run.drawn, run.evaluations, run.strata[0].cap) == (6, 6 + len(asked), None)
        shown = [store.decisions(invocation(name).trace_id)[0] for name in names]
        assert {(one["decision"], one["inclusion_probability"]) for one in shown} == {("drawn", 0.5)}
        assert sum(one["detail"] == "given up, over_budget: booking" for one in shown) == 6 - len(asked)
        page = store.backfill_step(
            request(tick=T0 + 9e9, rubrics=(BOOKING, TONE)), (0, T0 + 1e6), None, 100, lambda _: RunPlan(())
        )
        assert page.evaluations == 0
        assert store.drop_unwanted_content() == 0

    def test_a_cut_for_one_judge_leaves_the_other(self, store: Store) -> None:
        """Rubrics of other judges go on; what loses its last rubric was not drawn after all."""
        other = replace(TONE, judge="other")
        store.save_traces([settlement(invocation(str(n))) for n in range(4)])
        store.execute_run(request(rubrics=(BOOKING, other)), take_all)
        (first,) = store.claim_evaluations(1, T0 + 61, 60, paused_judges={"other"})
        assert store.cut_run("m", T0 + 60, halve, T0 + 70, ["default"]) == 3
        rubrics = [one["rubric"] for one in store.list_evaluations(Query()).items]
        assert (rubrics.count("booking"), rubrics.count("tone")) == (1, 4)
        assert store.cut_run("m", T0 + 60, halve, T0 + 80, ["other"]) == 4
        (left,) = store.list_evaluations(Query()).items
        assert (left["invocation_id"], left["rubric"]) == (first.invocation.id, "booking")
        reasons = [store.decisions(invocation(str(n)).trace_id)[0]["reason"] for n in range(4)]
        assert sorted(reasons, key=str) == [None, "over_budget", "over_budget", "over_budget"]
        run = store.last_run("m")
        assert run is not None
        assert (run.drawn, run.evaluations) == (1, 1)

    def test_backfills_are_not_cut(self, store: Store) -> None:
        """Only runs have pending ticks: a backfill is paced by itself and waits for the next day."""
        store.save_traces([settlement(invocation())])
        store.miss_run(request())
        asked = request(tick=T0 + 9e9)
        store.backfill_step(asked, (0, T0 + 1e6), None, 100, lambda found: take_all(found, 0.0))
        assert store.list_evaluations(Query(state="pending")).items
        assert store.pending_ticks("m") == []
