"""What the pages ask a store: answers by filter, what criteria scored, what dialects lack."""

from __future__ import annotations

import json
from typing import Any

import pytest

from monitor.model.browsing import AnswerQuery, CriterionScore
from monitor.model.invocation import Capture, Completeness, SettledBy
from monitor.model.labels import HumanLabel, Label, LabelDraw
from monitor.model.run import RubricRef
from monitor.model.verdict import Criterion, Outcome
from monitor.store.protocol import InvalidCursor, Store
from tests.contracts.store_material import (
    BOOKING,
    SECRET,
    T0,
    draw_and_claim,
    failure_of,
    invocation,
    settlement,
    verdict_of,
)

ANSWERS = RubricRef("answers", "cccccccccccc", None)
GRADES = RubricRef("grades", "dddddddddddd", "default")


def at(name: str, second: float, **changes: Any) -> Any:
    """An invocation that ended so many seconds after T0."""
    return invocation(name, ended_at=int((T0 + second) * 1e9), **changes)


def names(store: Store, **query: Any) -> list[str]:
    """The invocations of a listing by their names, page by page."""
    known = {invocation(name).id: name for name in "abcdef"}
    found, cursor = [], None
    while True:
        page = store.list_answers(AnswerQuery(**query, limit=2, cursor=cursor))
        found += [known[item["id"]] for item in page.items]
        cursor = page.next_cursor
        if cursor is None:
            return found


class BrowsingContract:
    """What a store promises of what the pages ask."""

    def test_answers_of_invocations(self, store: Store) -> None:
        """Without a filter of verdicts there is one item for each invocation, newest first, with every evaluation of it."""
        evaluations = draw_and_claim(store, at("a", 1), at("b", 2), at("c", 3), rubrics=(BOOKING, ANSWERS))
        first = next(e for e in evaluations if e.invocation.id == invocation("a").id and e.rubric == BOOKING)
        second = next(e for e in evaluations if e.invocation.id == invocation("a").id and e.rubric == ANSWERS)
        store.finish_evaluations([(first, verdict_of(first, Outcome.FAIL)), (second, failure_of(second))])
        assert names(store) == ["c", "b", "a"]
        *_, item = store.list_answers(AnswerQuery()).items
        assert (item["agent"], item["agent_version"], item["environment"]) == ("restaurant-bot", "1.4", "production")
        assert (item["user_input"], item["final_response"]) == (SECRET, "Your table is booked.")
        assert (item["ended_at"], item["revision"], item["has_error"]) == (T0 + 1, 1, False)
        assert item["tools"] == ["find_table", "book_table", "book_table"]
        assert [(one["rubric"], one["state"], one["verdict"]) for one in item["verdicts"]] == [
            ("answers", "error", None),
            ("booking", "done", "fail"),
        ]
        assert item["matched"] is item["explanation"] is None
        assert json.loads(json.dumps(item)) == item

    def test_answers_by_label_conversation_and_time(self, store: Store) -> None:
        """By agent, version, environment, conversation, and the time of the end in [since, until); labels nobody has find nothing."""
        store.save_traces(
            [
                settlement(at("a", 1, agent_version="1.5")),
                settlement(at("b", 2, agent_name=None, service="shop", conversation_id="other")),
                settlement(at("c", 3, environment=None)),
            ]
        )
        assert names(store, trace_id=invocation("c").trace_id) == ["c"]
        assert names(store, agent="shop") == names(store, conversation_id="other") == ["b"]
        assert names(store, agent_version="1.5") == ["a"]
        assert names(store, environment="production") == ["b", "a"]
        assert names(store, since=T0 + 1, until=T0 + 3) == ["b", "a"]
        assert names(store, agent="nobody") == names(store, agent="shop", agent_version="1.5") == []

    def test_answers_of_verdicts(self, store: Store) -> None:
        """With a filter of verdicts there is one item for each verdict, with the one that matched and what it says."""
        evaluations = draw_and_claim(store, at("a", 1), at("b", 2), at("c", 3), rubrics=(BOOKING, ANSWERS))
        for evaluation in evaluations:
            failed = evaluation.rubric == ANSWERS or evaluation.invocation.id == invocation("b").id
            outcome = Outcome.FAIL if failed else Outcome.PASS
            store.finish_evaluations([(evaluation, verdict_of(evaluation, outcome))])
        assert names(store, verdict="fail", rubric="booking") == ["b"]
        assert names(store, verdict="pass") == ["c", "a"]
        assert sorted(names(store, verdict="fail")) == ["a", "b", "b", "c"]
        assert names(store, rubric_version=BOOKING.version, until=T0 + 3) == ["b", "a"]
        assert names(store, monitor="other") == names(store, verdict="unjudgeable") == []
        (item,) = store.list_answers(AnswerQuery(verdict="fail", rubric="booking")).items
        assert (item["matched"]["rubric"], item["matched"]["score"]) == ("booking", 0.72)
        assert item["explanation"] == f"because of {SECRET}"
        assert len(item["verdicts"]) == 2

    def test_answers_by_criterion(self, store: Store) -> None:
        """A criterion finds the verdicts in which it applied and fell short: below 5 for dimensions, else below the rubric's best."""
        evaluations = draw_and_claim(store, *(at(name, n) for n, name in enumerate("abc")))
        scores = {"a": (5, True), "b": (4, True), "c": (None, False)}
        for evaluation in evaluations:
            name = next(name for name in "abc" if invocation(name).id == evaluation.invocation.id)
            score, applicable = scores[name]
            criteria = (Criterion("policy", score, applicable, 9), Criterion("plain", 1 if name == "a" else 0, True))
            store.finish_evaluations([(evaluation, verdict_of(evaluation, criteria=criteria))])
        assert names(store, criterion="policy") == ["b"]
        assert names(store, criterion="plain") == ["c", "b"]
        assert names(store, criterion="other") == []

    def test_answers_are_cut(self, store: Store) -> None:
        """Long texts are shown by their beginning, also where what is stored is cut in the middle of an escape; erased ones not at all."""
        long = "\u00e9\\\n" * 400_000
        store.save_traces(
            [
                settlement(at("a", 1, user_input=long, system_instructions=None)),
                settlement(at("b", 2, user_input="short", final_response=long)),
                settlement(at("c", 3, system_instructions=long)),
                settlement(at("d", 4)),
            ]
        )
        store.forget(trace_id=invocation("d").trace_id)
        d, c, b, a = store.list_answers(AnswerQuery()).items
        assert (a["user_input"], a["final_response"]) == (long[:400], None)
        assert (b["user_input"], b["final_response"]) == ("short", long[:400])
        assert (c["user_input"], c["has_content"]) == (None, True)
        assert (d["user_input"], d["has_content"]) == (None, False)

    def test_a_foreign_cursor_of_answers_is_refused(self, store: Store) -> None:
        """A cursor of another kind of listing is an error."""
        with pytest.raises(InvalidCursor, match="next_cursor"):
            store.list_answers(AnswerQuery(cursor="W10"))

    def test_criteria_are_counted(self, store: Store) -> None:
        """Equal scores are counted together, of the newest verdicts of a time; the best of a scale is known."""
        evaluations = draw_and_claim(store, *(at(name, n) for n, name in enumerate("abc")), rubrics=(GRADES,))
        for evaluation in evaluations:
            low = evaluation.invocation.id == invocation("a").id
            criteria = (Criterion("grade", 2 if low else 4, True), Criterion("policy", None, False, 9))
            outcome = Outcome.FAIL if low else Outcome.PASS
            verdict = verdict_of(evaluation, outcome, criteria=criteria, score_range=(1.0, 5.0))
            store.finish_evaluations([(evaluation, verdict)])
        policy = CriterionScore("policy", None, False, 9, 5.0)
        found = {one.verdict: one for one in store.criteria_counts("m", T0, T0 + 10, 100)}
        assert found["pass"].count == 2
        assert found["pass"].scores == (CriterionScore("grade", 4, True, None, 5.0), policy)
        assert (found["fail"].rubric, found["fail"].count, found["fail"].scores[0].score) == ("grades", 1, 2)
        assert sum(one.count for one in store.criteria_counts("m", T0 + 1, T0 + 10, 100)) == 2
        assert sum(one.count for one in store.criteria_counts("m", T0, T0 + 10, 2)) == 2
        assert store.criteria_counts("other", T0, T0 + 10, 100) == []

    def test_dialects_are_counted(self, store: Store) -> None:
        """By collector, agent and dialect of the newest invocations: how many lacked which field, and how many a value for which reason."""
        gaps = Completeness(
            SettledBy.IDLE,
            ("tool_definitions",),
            {"tool_calls[0].result": Capture.REDACTED, "tool_calls[1].result": Capture.REDACTED},
        )
        whole = Completeness(SettledBy.ROOT_ENDED)
        store.save_traces(
            [
                settlement(at("a", 1, completeness=gaps)),
                settlement(at("b", 2, completeness=whole)),
                settlement(at("c", 3, convention="openinference", completeness=whole)),
            ]
        )
        first, second = store.dialects(10)
        assert (first.collector, first.convention, first.count) == ("otlp", "gen_ai", 2)
        assert first.agent == second.agent == invocation("a").label_agent
        assert (dict(first.missing), dict(first.capture)) == ({"tool_definitions": 1}, {"redacted": 1})
        assert (second.convention, second.count, dict(second.missing)) == ("openinference", 1, {})
        assert [one.convention for one in store.dialects(1)] == ["openinference"]

    def test_open_draws(self, store: Store) -> None:
        """Draws come in their order until this person has labelled them or their content is gone; others' labels do not matter."""
        evaluations = draw_and_claim(store, *(at(name, n) for n, name in enumerate("abc")))
        store.finish_evaluations([(evaluation, verdict_of(evaluation)) for evaluation in evaluations])
        draws = [
            LabelDraw(f"d-{n}", invocation(name).id, "m", "booking", BOOKING.version, "pass", 0.5, 0.5, T0 + 200)
            for n, name in ((9, "a"), (10, "b"), (11, "c"))
        ]
        store.save_label_draws(draws)
        store.forget(trace_id=invocation("c").trace_id)
        assert list(store.open_draws("ada", T0)) == draws[:2]
        store.save_labels([HumanLabel(invocation("a").id, "booking", Label.FAIL, "ada", "d-9")], T0 + 300)
        assert list(store.open_draws("ada", T0)) == draws[1:2]
        assert list(store.open_draws("bo", T0)) == draws[:2]
        assert store.open_draws("ada", T0 + 201) == []
        assert (store.label_draw("d-9"), store.label_draw("other")) == (draws[0], None)
