"""Labels, their draws, and repeated judgements."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from monitor.model.labels import Against, HumanLabel, JudgeCheck, Label, LabelDraw
from monitor.model.verdict import Outcome
from monitor.store.protocol import Store
from tests.contracts.store_material import BOOKING, T0, draw_and_claim, invocation, verdict_of

A, B = invocation("a").id, invocation("b").id


def judged(store: Store) -> None:
    """Invocation a passed and b failed."""
    for evaluation in draw_and_claim(store, invocation("a"), invocation("b")):
        outcome = Outcome.PASS if evaluation.invocation.id == A else Outcome.FAIL
        store.finish_evaluations([(evaluation, verdict_of(evaluation, outcome))])


def drawn(invocation_id: str, draw_id: str = "d-1", probability: float = 0.2) -> LabelDraw:
    """A draw of an invocation that the judge passed."""
    return LabelDraw(draw_id, invocation_id, "m", "booking", BOOKING.version, "pass", probability, 0.5, T0 + 200)


def check(key: str, round_: float = 0.0, verdict: str = "pass", at: float = T0 + 300) -> JudgeCheck:
    """A golden case that should pass."""
    return JudgeCheck(Against.GOLDEN, "booking", BOOKING.version, "default", key, "pass", verdict, round_, at)


class LabelsContract:
    """What a store promises of labels."""

    def test_a_drawn_label_stands_beside_the_verdict_of_its_draw(self, store: Store) -> None:
        """It has the verdict at the time of the draw and both probabilities multiplied; one that was not drawn has the newest verdict and none."""
        judged(store)
        store.save_label_draws([drawn(A)])
        given = [
            HumanLabel(A, "booking", Label.FAIL, "ada", "d-1", "quotes the guest"),
            HumanLabel(B, "booking", Label.PASS, "ada"),
        ]
        assert list(store.save_labels(given, T0 + 300)) == []
        first, second = store.labelled(T0)
        assert (first.invocation_id, first.verdict, first.label) == (A, "pass", Label.FAIL)
        assert (first.monitor, first.rubric_version) == ("m", BOOKING.version)
        assert first.probability == pytest.approx(0.1)
        assert first.comment == "quotes the guest"
        assert (second.verdict, second.probability) == ("fail", None)
        assert store.labelled(T0 + 301) == []

    def test_labels_about_nothing_are_refused_one_by_one(self, store: Store) -> None:
        """An unknown invocation, and a draw that drew something else, are told by their places; the others are kept."""
        judged(store)
        store.save_label_draws([drawn(A)])
        given = [
            HumanLabel("nobody", "booking", Label.PASS, "ada"),
            HumanLabel(B, "booking", Label.PASS, "ada", "d-1"),
            HumanLabel(A, "booking", Label.PASS, "ada", "d-1"),
            HumanLabel(A, "booking", Label.PASS, "ada", "d-9"),
        ]
        assert list(store.save_labels(given, T0 + 300)) == [0, 1, 3]
        assert len(store.labelled(T0)) == 1

    def test_a_later_label_of_the_same_person_replaces_the_earlier(self, store: Store) -> None:
        """Two people's labels both stay; one person's change of mind does not count twice, and a draw once named stays."""
        judged(store)
        store.save_label_draws([drawn(A)])
        store.save_labels([HumanLabel(A, "booking", Label.PASS, "ada", "d-1")], T0 + 300)
        store.save_labels(
            [HumanLabel(A, "booking", Label.FAIL, "ada"), HumanLabel(A, "booking", Label.PASS, "bo")], T0 + 301
        )
        found = {(row.labeler, row.label, row.probability) for row in store.labelled(T0)}
        assert found == {("ada", Label.FAIL, 0.1), ("bo", Label.PASS, None)}

    def test_comments_are_content(self, store: Store) -> None:
        """A comment goes when the invocation is forgotten; the label stays."""
        judged(store)
        store.save_labels([HumanLabel(A, "booking", Label.PASS, "ada", comment="quotes the guest")], T0 + 300)
        store.forget(trace_id=invocation("a").trace_id)
        (row,) = store.labelled(T0)
        assert (row.label, row.comment) == (Label.PASS, "")

    def test_repeated_judgements(self, store: Store, open_again: Callable[[], Store]) -> None:
        """They are kept by key and round; the same one again replaces the earlier, and time bounds the reading."""
        store.add_judge_checks([check("x", 1.0), check("x", 2.0, "fail", T0 + 301), check("x", 2.0, "pass", T0 + 302)])
        found = open_again().judge_checks(T0)
        assert [(one.round, one.verdict, one.agrees) for one in found] == [(1.0, "pass", True), (2.0, "pass", True)]
        assert [one.round for one in store.judge_checks(T0 + 301)] == [2.0]

    def test_retention_takes_labels_with_verdicts(self, store: Store) -> None:
        """Labels, draws and repeated judgements go with the retention of verdicts."""
        judged(store)
        store.save_label_draws([drawn(A)])
        store.save_labels([HumanLabel(A, "booking", Label.PASS, "ada", "d-1")], T0 + 300)
        store.add_judge_checks([check("x")])
        store.expire(T0 + 10_000, 100, 100, None)
        assert store.labelled(0) == [] and store.judge_checks(0) == []
