"""The log of first verdicts, and what detection keeps."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from monitor.model.evidence import RegressionState, SeriesKey
from monitor.model.run import Candidate, Decision, RunPlan
from monitor.model.verdict import Outcome
from monitor.store.protocol import Store
from tests.contracts.store_material import (
    BOOKING,
    T0,
    TONE,
    draw_and_claim,
    failure_of,
    invocation,
    number_of,
    request,
    settlement,
    verdict_of,
)

SERIES = SeriesKey("m", "booking", "restaurant-bot", "production")


class RegressionsContract:
    """What a store promises of regressions."""

    def test_the_log_has_first_verdicts_in_the_order_of_storing(self, store: Store) -> None:
        """Passes and failures are logged as they come; other verdicts and failed evaluations never."""
        a, b, c, d = draw_and_claim(store, *(invocation(name, conversation_id=None) for name in "abcd"))
        store.finish_evaluations([(c, verdict_of(c, Outcome.FAIL)), (a, verdict_of(a, Outcome.NOT_APPLICABLE))])
        store.finish_evaluations([(d, failure_of(d)), (b, verdict_of(b))])
        rows = store.verdict_log(0, 10)
        assert [(row.invocation_id, row.passed) for row in rows] == [(c.invocation.id, False), (b.invocation.id, True)]
        assert [row.invocation_id for row in store.verdict_log(rows[0].seq, 10)] == [b.invocation.id]
        assert len(store.verdict_log(0, 1)) == 1
        row = rows[0]
        assert row.series == SERIES and (row.rubric_version, row.agent_version) == (BOOKING.version, "1.4")
        assert (row.inclusion_probability, row.heaviest, row.turn) == (0.5, 2.0, 1)
        assert row.judged_at == T0 + 100 and row.trace_id == c.invocation.trace_id

    def test_what_is_judged_again_is_not_logged_again(self, store: Store, open_again: Callable[[], Store]) -> None:
        """A repeat, a later revision with another verdict, and a restart leave the log as it was."""
        (first,) = draw_and_claim(store, invocation())
        store.finish_evaluations([(first, verdict_of(first))])
        before = store.verdict_log(0, 10)
        store.finish_evaluations([(first, verdict_of(first, Outcome.FAIL))])
        changed = invocation(revision=2, final_response="Another answer.")
        store.save_traces([settlement(changed, digest="d2", rejudge=True)])
        (second,) = store.claim_evaluations(10, T0 + 200, 60)
        store.finish_evaluations([(second, verdict_of(second, Outcome.FAIL))])
        again = open_again().verdict_log(0, 10)
        assert [(row.seq, row.passed) for row in again] == [(row.seq, True) for row in before]

    def test_turns_of_a_conversation_are_numbered(self, store: Store) -> None:
        """The turn counts logged verdicts of the same conversation and rubric."""
        named = [invocation(name, conversation_id=who) for name, who in [("a", "x"), ("b", "y"), ("c", "x")]]
        evaluations = draw_and_claim(store, *named, rubrics=(BOOKING, TONE))
        for evaluation in sorted(evaluations, key=lambda one: named.index(one.invocation)):
            store.finish_evaluations([(evaluation, verdict_of(evaluation))])
        turns = [(row.rubric, row.turn) for row in store.verdict_log(0, 10)]
        assert sorted(turns) == [("booking", 1), ("booking", 1), ("booking", 2), ("tone", 1), ("tone", 1), ("tone", 2)]

    def test_the_heaviest_weight_is_the_runs(self, store: Store) -> None:
        """A verdict knows the largest weight that its run drew of its agent, whatever has been judged of it."""
        store.save_traces([settlement(invocation(name)) for name in "abc"])
        store.save_traces([settlement(invocation("other", agent_name="other-bot"))])
        odds = {invocation("a").id: 1.0, invocation("b").id: 0.1, invocation("c").id: 0.5}

        def decide(candidates: object, carry: float) -> RunPlan:
            assert isinstance(candidates, list)
            return RunPlan(tuple(_drawn(one, odds.get(one.invocation_id, 0.01)) for one in candidates))

        store.execute_run(request(), decide)
        for evaluation in store.claim_evaluations(10, T0 + 61, 60):
            if evaluation.invocation.id == invocation("a").id:
                store.finish_evaluations([(evaluation, verdict_of(evaluation))])
        (row,) = store.verdict_log(0, 10)
        assert row.heaviest == pytest.approx(10.0)
        assert row.weight == pytest.approx(0.1)

    def test_criteria_of_a_series(self, store: Store) -> None:
        """Scores of applicable criteria come with their weights, of the asked series and time only."""
        one, two = draw_and_claim(store, invocation("a"), invocation("b", agent_name="other-bot"))
        store.finish_evaluations([(one, verdict_of(one)), (two, verdict_of(two))])
        (row,) = store.criterion_scores(SERIES, BOOKING.version, T0, T0 + 10)
        assert row.scores == (("policy", 5, 5),)
        assert store.criterion_scores(SERIES, BOOKING.version, T0 + 10, T0 + 20) == []

    def test_state_is_kept_whole_or_not_at_all(self, store: Store, open_again: Callable[[], Store]) -> None:
        """Cursor, series and alarms are kept together, once for each step of the cursor, also for another process."""
        assert store.regression_state() == RegressionState(0, {}, {})
        state = RegressionState(7, {"m": {"since": 1.0}}, {SERIES: {"judged": 3}})
        assert store.save_regression_state(0, state, {"x": {"id": "x", "opened_at": 5.0}})
        assert not store.save_regression_state(0, RegressionState(9, {}, {}), {"y": {"id": "y", "opened_at": 6.0}})
        assert open_again().regression_state() == state
        later = RegressionState(8, {}, {SeriesKey("m", "tone", "a", ""): {"judged": 1}})
        assert store.save_regression_state(7, later, {"z": {"id": "z", "opened_at": 9.0}})
        assert set(store.regression_state().series) == {SERIES, SeriesKey("m", "tone", "a", "")}
        assert [alarm["id"] for alarm in store.regressions()] == ["z", "x"]
        assert [alarm["id"] for alarm in store.regressions(1)] == ["z"]

    def test_the_log_ends_with_its_verdicts(self, store: Store) -> None:
        """Once verdicts are past their retention they leave the log, and new ones go on with higher numbers."""
        (first,) = draw_and_claim(store, invocation("a"))
        store.finish_evaluations([(first, verdict_of(first))])
        seq = store.verdict_log(0, 10)[0].seq
        store.expire(T0 + 1000, 100, 100, None)
        assert store.verdict_log(0, 10) == []
        store.save_traces([settlement(invocation("b"), settled_at=T0 + 1000)])
        store.execute_run(request(tick=T0 + 1060), lambda some, carry: RunPlan(tuple(_drawn(c, 0.5) for c in some)))
        (second,) = store.claim_evaluations(10, T0 + 1061, 60)
        store.finish_evaluations([(second, verdict_of(second))])
        assert store.verdict_log(0, 10)[0].seq > seq


def _drawn(candidate: Candidate, probability: float) -> Decision:
    return Decision(candidate.invocation_id, True, None, number_of(candidate.invocation_id), probability, "all")
