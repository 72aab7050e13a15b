"""The arithmetic of weighted rubrics against the published and computed vectors of Foundry's rubric evaluator."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from monitor.model.verdict import Criterion, Judgement, Outcome
from monitor.rubrics.kinds.kind import Answer
from monitor.rubrics.kinds.weighted import Weighted, WeightedSpec, judgement


@pytest.fixture
def vectors(shared: Path) -> dict[str, Any]:
    return {item["id"]: item for item in json.loads((shared / "vectors" / "evaluators.json").read_text())}


def judged(dimensions: list[dict[str, Any]], **other: Any) -> Judgement:
    spec = WeightedSpec.model_validate(
        {
            "name": "w",
            "dimensions": [{"id": d["id"], "weight": d["weight"], "description": "x"} for d in dimensions],
            **{key: value for key, value in other.items() if value is not None},
        }
    )
    return judgement(
        spec,
        [Criterion(d["id"], d["score"] if d["applicable"] else None, d["applicable"], d["weight"]) for d in dimensions],
    )


PLAIN = [
    "fdy-001",
    "fdy-003",
    "fdy-007",
    "fdy-008",
    "fdy-010",
    "fdy-011",
    "fdy-013",
    "fdy-014",
    "fdy-015",
    "fdy-018",
    "fdy-019",
]


@pytest.mark.parametrize("vector", [*PLAIN, "fdy-021", "fdy-022"])
def test_score_and_label(vectors: dict[str, Any], vector: str) -> None:
    """Weighted mean over five of the applicable dimensions, passing at the threshold itself, exact also where floats are not."""
    given, expected = vectors[vector]["input"], vectors[vector]["expected"]
    result = judged(given["dimensions"], threshold=given.get("pass_threshold"))
    assert result.score == pytest.approx(expected["score"], abs=1e-10)
    label = expected.get("label", expected.get("label_at_0.5_div5"))
    if label is not None:
        assert result.outcome == Outcome(label)
    if "raw_mean" in expected:
        assert result.details["raw_mean"] == pytest.approx(expected["raw_mean"], abs=1e-10)


@pytest.mark.parametrize(("vector", "key"), [("fdy-002", "min_max_would_be"), ("fdy-010", "min_max"), ("fdy-013", "min_max"), ("fdy-016", "min_max")])  # fmt: skip
def test_min_max(vectors: dict[str, Any], vector: str, key: str) -> None:
    """The other normalisation, (mean - 1) / 4."""
    given, expected = vectors[vector]["input"], vectors[vector]["expected"]
    result = judged(given["dimensions"], normalisation="min_max")
    assert result.score == pytest.approx(expected[key], abs=1e-10)
    assert result.details["normalisation"] == "min_max"


def test_normalisations_differ_in_the_verdict(vectors: dict[str, Any]) -> None:
    """A raw mean between 2.5 and 3 passes at 0.5 of the maximum and fails by min-max."""
    dimensions = vectors["fdy-016"]["input"]["dimensions"]
    assert judged(dimensions).outcome is Outcome.PASS
    assert judged(dimensions, normalisation="min_max").outcome is Outcome.FAIL


def test_veto(vectors: dict[str, Any]) -> None:
    """With `veto` any applicable dimension scored 1 fails whatever the score; one that does not apply vetoes nothing."""
    dimensions = vectors["fdy-017"]["input"]["dimensions"]
    result = judged(dimensions, veto=True)
    assert (result.outcome, result.score) == (Outcome.FAIL, pytest.approx(0.95))
    assert result.details["veto"] == ["d3"]
    assert "d3 [1]" in result.explanation
    assert judged(dimensions).outcome is Outcome.PASS
    assert judged(vectors["fdy-018"]["input"]["dimensions"], veto=True).outcome is Outcome.PASS


def test_every_two_decimal_threshold_is_reached() -> None:
    """All sums and weights up to 60: a score that lies on a two-decimal threshold passes it (dividing twice misses 81 of them)."""
    missed = 0
    for weight in range(1, 61):
        for total in range(weight, 5 * weight + 1):
            if total * 20 % weight:
                continue
            threshold = total * 20 // weight
            high, rest = divmod(total - weight, 4)
            parts = [(5, high), (1 + rest, 1)] if high < weight else [(5, weight)]
            parts.append((1, weight - sum(w for _, w in parts)))
            dimensions = [
                {"id": f"d{i}", "score": score, "weight": w, "applicable": True}
                for i, (score, w) in enumerate(parts)
                if w > 0
            ]
            result = judged(dimensions, threshold=threshold / 100)
            missed += result.outcome is not Outcome.PASS
    assert missed == 0


def test_fractional_weights_are_exact() -> None:
    """Weights such as 0.1 and 0.2 are taken as written, so that the threshold is reached (floats give 0.5599999999999999)."""
    dimensions = [
        {"id": "a", "score": 3, "weight": 0.4, "applicable": True},
        {"id": "b", "score": 2, "weight": 0.1, "applicable": True},
    ]
    assert judged(dimensions, threshold=0.56).outcome is Outcome.PASS


def test_none_applicable_has_no_score() -> None:
    """Without an applicable dimension there is no score, and the verdict is not_applicable."""
    result = judged([{"id": "a", "score": None, "weight": 1, "applicable": False}])
    assert (result.outcome, result.score) == (Outcome.NOT_APPLICABLE, None)


def test_explanation_names_what_decided() -> None:
    """The explanation names the dimensions with most weight on the side of the verdict, not the others."""
    dimensions = [
        {"id": "heavy", "score": 1, "weight": 9, "applicable": True},
        {"id": "light", "score": 5, "weight": 2, "applicable": True},
    ]
    assert judged(dimensions).explanation.startswith("Held down by heavy [1]")
    assert "light" not in judged(dimensions).explanation


def test_several_samples_take_the_lower_median() -> None:
    """Of several scores the lower median counts, those that found the dimension not applicable do not vote."""
    spec = WeightedSpec.model_validate({"name": "w", "num_samples": 4, "dimensions": [{"id": "a", "description": "x"}]})

    def combined(*scores: int | None) -> Criterion:
        return Weighted().combine(spec, [{"a": Answer("a", score, f"r{score}")} for score in scores]).criteria[0]

    assert combined(5, 2, 4, 3).score == 3
    assert combined(5, None, None, 4).score == 4
    assert combined(5, None, None, 4).votes == {"5": 1, "4": 1, "not_applicable": 2}
    assert combined(None, None).applicable is False
    assert combined(5, 5, 2).explanation == "r5"
