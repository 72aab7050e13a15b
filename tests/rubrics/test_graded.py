"""Graded rubrics: which grades are taken, against azure-ai-evaluation's vectors of valid scores."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from monitor.model.verdict import ErrorType, Outcome
from monitor.rubrics.kinds.graded import Graded, GradedSpec
from monitor.rubrics.kinds.kind import Answer, ReplyFault
from tests.support.judging import rubric

INTENT = rubric("{name: intent, kind: graded, levels: {1: a, 2: b, 3: c, 4: d, 5: e}, threshold: 3}")


@pytest.fixture
def vectors(shared: Path) -> dict[str, Any]:
    return {item["id"]: item for item in json.loads((shared / "vectors" / "evaluators.json").read_text())}


def read(score: Any) -> Any:
    return Graded().read(INTENT.spec, {"evidence": [], "reasoning": "r", "score": score})  # type: ignore[arg-type]


@pytest.mark.parametrize("vector", [f"az-{number:03}" for number in (92, 93, 94, 95, 96, 97, 98, 101, 102)])
def test_valid_scores(vectors: dict[str, Any], vector: str) -> None:
    """A grade is a finite number on the scale, also as text; unlike there, a truth value is none."""
    score = vectors[vector]["input"]["score"]
    expected = vectors[vector]["expected"] and score is not True
    assert (not isinstance(read(score), ReplyFault)) == expected


@pytest.mark.parametrize(
    "vector", ["az-002", "az-003", "az-006", "az-007", "az-008", "az-010", "az-011", "az-013", "az-017"]
)
def test_intent_resolution(vectors: dict[str, Any], vector: str) -> None:
    """Pass from the threshold on, fail below it, and an error of the evaluation where the score is missing or off the scale."""
    given, expected = vectors[vector]["input"], vectors[vector]["expected"]
    score = given["llm_output"].get("score")
    sample = read(float("nan") if score == "NaN" else score)
    if "raises" in expected:
        assert isinstance(sample, ReplyFault)
        wanted = ErrorType.OUT_OF_RANGE if score in (0, 6) else ErrorType.UNPARSEABLE
        assert sample.type is wanted
        return
    spec = INTENT.spec.model_copy(update={"threshold": given["init"].get("threshold", 3)})
    result = Graded().combine(spec, [sample])  # type: ignore[arg-type]
    assert result.score == expected["intent_resolution_score"]
    assert (result.outcome is Outcome.PASS) == expected["intent_resolution_passed"]


def test_just_below_the_threshold() -> None:
    """2.9999 is on the scale and below 3."""
    result = Graded().combine(INTENT.spec, [read(2.9999)])  # type: ignore[arg-type]
    assert (result.outcome, result.score, result.score_range) == (Outcome.FAIL, 2.9999, (1.0, 5.0))


def test_not_applicable_only_where_allowed() -> None:
    """A grade may be `not_applicable` only in a rubric that says so."""
    assert isinstance(read("not_applicable"), ReplyFault)
    spec = GradedSpec.model_validate({"name": "x", "levels": {1: "a", 3: "b"}, "threshold": 2, "not_applicable": True})
    sample = Graded().read(spec, {"score": "N/A"})
    assert not isinstance(sample, ReplyFault)
    result = Graded().combine(spec, [sample])
    assert (result.outcome, result.score) == (Outcome.NOT_APPLICABLE, None)
    assert Graded().reply_schema(spec)["properties"]["score"]["anyOf"][0]["enum"] == [1, 2, 3]


def test_the_lower_median_of_several() -> None:
    """Of several grades the lower median counts, with the reasoning of a sample that gave it."""

    def combined(*grades: float) -> Any:
        samples = [{"grade": Answer("grade", grade, f"because {grade}")} for grade in grades]
        return Graded().combine(INTENT.spec, samples)  # type: ignore[arg-type]

    assert (combined(5, 3, 4).score, combined(5, 3, 4).explanation) == (4.0, "because 4")
    assert combined(2, 5).outcome is Outcome.FAIL
    assert combined(2, 5).criteria[0].votes == {"2": 1, "5": 1}


def test_wide_scales_do_not_list_every_grade() -> None:
    """The schema of a scale from 0 to 100 asks for a whole number."""
    spec = GradedSpec.model_validate({"name": "x", "levels": {0: "a", 100: "b"}, "threshold": 60})
    assert Graded().reply_schema(spec)["properties"]["score"] == {"type": "integer"}
