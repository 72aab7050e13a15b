"""Votes of several samples against google-adk's vectors, and when further samples can change nothing."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from monitor.model.verdict import Outcome
from monitor.rubrics.kinds import votes
from monitor.rubrics.kinds.kind import Answer, Sample
from monitor.rubrics.kinds.properties import Properties, PropertiesSpec
from tests.support.judging import rubric


def answers(*values: Any) -> list[Answer]:
    return [Answer("a", value, f"s{index}") for index, value in enumerate(values)]


@pytest.mark.parametrize("vector", ["adk-061", "adk-064"])
def test_majority(shared: Path, vector: str) -> None:
    """The vote and the explanation that is kept are google-adk's."""
    item = {v["id"]: v for v in json.loads((shared / "vectors" / "evaluators.json").read_text())}[vector]
    given = [None if score is None else bool(score) for score in item["input"]["scores"]]
    counted = votes.statement(answers(*given))
    assert counted.answer.value == bool(item["expected"]["score"])
    assert counted.answer.explanation == item["expected"]["rationale_kept"]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ((True, False), False),
        ((True, True, False, False), False),
        ((True, None, None), True),
        ((None, None), None),
        ((False,), False),
    ],
)
def test_ties_fail_and_not_applicable_does_not_vote(given: tuple[bool | None, ...], expected: bool | None) -> None:
    """A tie is no; `not_applicable` decides only when every sample says it."""
    assert votes.statement(answers(*given)).answer.value is expected


@pytest.mark.parametrize("wanted", [1, 2, 3, 4, 5])
def test_settled_never_stops_too_early(wanted: int) -> None:
    """Whenever the vote is called settled, every way of going on gives the same answer (all courses tried)."""
    for course in itertools.product([True, False, None], repeat=wanted):
        final = {count: set[Any]() for count in range(1, wanted + 1)}
        for count in range(1, wanted + 1):
            for rest in itertools.product([True, False, None], repeat=wanted - count):
                final[count].add(votes.statement(answers(*course[:count], *rest)).answer.value)
            samples: list[Sample] = [{"a": answer} for answer in answers(*course[:count])]
            if votes.settled(samples, wanted):
                assert len(final[count]) == 1, (course, count)


@pytest.mark.parametrize("wanted", [3, 4, 5])
def test_settled_grades_never_stop_too_early(wanted: int) -> None:
    """The same for grades: the lower median can no longer move."""
    for course in itertools.product([1, 3, 5], repeat=wanted):
        for count in range(1, wanted):
            if votes.settled([{"a": answer} for answer in answers(*course[:count])], wanted):
                kept = {
                    votes.grade(answers(*course[:count], *rest)).answer.value
                    for rest in itertools.product([1, 3, 5, None], repeat=wanted - count)
                }
                assert len(kept) == 1, (course, count)


def test_three_of_five_are_enough() -> None:
    """Three equal answers settle five, two do not; of four, two times no settle."""
    assert votes.settled([{"a": a} for a in answers(True, True, True)], 5)
    assert not votes.settled([{"a": a} for a in answers(True, True)], 5)
    assert votes.settled([{"a": a} for a in answers(False, False)], 4)


FIVE = rubric("""
name: facts
kind: properties
threshold: 0.5
num_samples: 5
properties: [{id: ra, text: one}, {id: rb, text: two}]
""")


def combined(*samples: tuple[bool | None, bool | None]) -> Any:
    made = [{"ra": Answer("ra", ra, "why"), "rb": Answer("rb", rb, "why")} for ra, rb in samples]
    return Properties().combine(FIVE.spec, made)  # type: ignore[arg-type]


def test_share_of_yes_among_applicable() -> None:
    """The score is yes over applicable, with the votes of each property, and passes at the threshold itself."""
    result = combined((True, True), (False, True), (True, True), (True, True), (False, True))
    assert (result.outcome, result.score) == (Outcome.PASS, 1.0)
    assert result.criteria[0].votes == {"yes": 3, "no": 2}
    assert combined((False, True)).outcome is Outcome.PASS
    assert combined((False, True)).criteria[0].votes is None
    half = combined((None, False))
    assert (half.outcome, half.score, half.criteria[0].applicable) == (Outcome.FAIL, 0.0, False)
    assert combined((None, None)).outcome is Outcome.NOT_APPLICABLE


def test_explanation_names_the_broken_properties() -> None:
    """A failing verdict says which properties do not hold and why."""
    assert "rb: why" in combined((True, False)).explanation


def test_all_properties_must_hold_by_default() -> None:
    """Without a threshold one broken property fails the rubric."""
    spec = PropertiesSpec.model_validate({"name": "x", "properties": [{"id": "a", "text": "t"}]})
    assert Properties().threshold(spec) == 1.0
