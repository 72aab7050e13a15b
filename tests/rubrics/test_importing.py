"""Imports from google-adk, Foundry and azure-ai-evaluation."""

from __future__ import annotations

from typing import Any

import pytest

from monitor.model.verdict import ErrorType, Outcome
from monitor.rubrics.importing.adk import from_adk
from monitor.rubrics.importing.azure import results, rows_of
from monitor.rubrics.importing.foundry import from_foundry
from monitor.rubrics.importing.imported import NotImportable
from monitor.rubrics.kinds.catalogue import KINDS
from monitor.rubrics.rubric import rubric_from


def rubric(id_: str, text: str, **other: Any) -> dict[str, Any]:
    return {"rubric_id": id_, "rubric_content": {"text_property": text}, **other}


def test_an_eval_config() -> None:
    """Criteria with rubrics become rubrics of the same scope, threshold and samples; what cannot be taken over is said by name."""
    found = from_adk({
        "criteria": {
            "rubric_based_final_response_quality_v1": {"threshold": 0.8, "judge_model_options": {"num_samples": 3}, "rubrics": [rubric("short", "Is short.")]},
            "rubric_based_tool_use_quality_v1": {"threshold": 1.0, "rubrics": [rubric("first", "Searches first."), rubric("geo", "Looks up\n\nthe place.")]},
            "hallucinations_v1": {"threshold": 0.9},
            "tool_trajectory_avg_score": 1.0,
            "safety_v1": 0.8,
        }
    })  # fmt: skip
    assert [
        (one["name"], one["kind"], one.get("about"), one["threshold"], one.get("num_samples"))
        for one in found.documents
    ] == [
        ("rubric_based_final_response_quality_v1", "properties", "final_response", 0.8, 3),
        ("rubric_based_tool_use_quality_v1", "properties", "tool_use", 1.0, 5),
        ("hallucinations_v1", "claims", None, 0.9, None),
    ]
    assert found.documents[1]["properties"][1] == {"id": "geo", "text": "Looks up\n\nthe place."}
    assert [remark.partition(":")[0] for remark in found.remarks[:2]] == ["tool_trajectory_avg_score", "safety_v1"]


def test_camel_case_and_lists() -> None:
    """Keys in camel case, a criterion alone and a bare list of rubrics are read alike."""
    camel = {"rubricId": "short", "rubricContent": {"textProperty": "Is short."}}
    plain = from_adk(
        {"threshold": 0.5, "rubrics": [rubric("short", "Is short.")], "judgeModelOptions": {"numSamples": 1}}
    )
    assert from_adk({"threshold": 0.5, "rubrics": [camel], "judgeModelOptions": {"numSamples": 1}}) == plain
    assert from_adk([camel]).documents[0]["properties"] == [{"id": "short", "text": "Is short."}]


def test_rubrics_of_cases() -> None:
    """Rubrics of eval cases and turns are sorted by their type, each once; one without a known type is said, not silently lost."""
    data = {"eval_cases": [
        {"rubrics": [rubric("a", "A.", type="FINAL_RESPONSE_QUALITY")], "conversation": [{"rubrics": [rubric("b", "B.", type="TOOL_USE_QUALITY"), rubric("c", "C.")]}]},
        {"rubrics": [rubric("a", "A.", type="FINAL_RESPONSE_QUALITY")], "conversation": []},
    ]}  # fmt: skip
    found = from_adk(data)
    assert {one["about"]: [item["id"] for item in one["properties"]] for one in found.documents} == {
        "final_response": ["a"],
        "tool_use": ["b"],
    }
    assert any("type None" in remark for remark in found.remarks)


@pytest.mark.parametrize(
    "data",
    [7, {}, {"rubrics": []}, {"rubrics": [{"rubric_id": "a"}]}, {"rubrics": [rubric("a", "x"), rubric("a", "y")]}, {"threshold": 7, "rubrics": [rubric("a", "x")]}],
)  # fmt: skip
def test_what_is_not_adk(data: Any) -> None:
    """Anything else is refused with what was looked for, also a repeated id and an impossible threshold."""
    with pytest.raises(NotImportable):
        from_adk(data)


def test_a_foundry_evaluator() -> None:
    """Dimensions with weights and applicability, the veto, and aliases of older pages; wrapped or bare."""
    dimensions = [
        {"id": "policy", "description": "Rules.", "weight": 9},
        {"dimension_id": "tone", "description": "Tone.", "weight": 2},
        {"rubric_id": "general_quality", "description": "All in all.", "weight": 5, "always_applicable": True},
    ]
    found = from_foundry({"name": "builtin.booking", "description": "For bookings.", "definition": {"type": "rubric", "dimensions": dimensions, "pass_threshold": 0.6}})  # fmt: skip
    (document,) = found.documents
    assert (document["name"], document["threshold"], document["veto"], document["description"]) == (
        "booking",
        0.6,
        True,
        "For bookings.",
    )
    made = rubric_from(KINDS["weighted"].spec.model_validate(dict(document)))
    assert [(item.id, item.weight, item.always_applicable) for item in made.spec.dimensions] == [("policy", 9, False), ("tone", 2, False), ("general_quality", 5, True)]  # type: ignore[attr-defined]  # fmt: skip
    assert "min_max" in found.remarks[0]
    assert from_foundry({"dimensions": dimensions}).documents[0]["threshold"] == 0.5


@pytest.mark.parametrize(
    "data",
    [[], 5, {"dimensions": []}, {"dimensions": [{"id": "a"}]}, {"dimensions": [{"id": "a", "description": "x", "weight": True}]}, {"dimensions": [{"id": "a", "description": "x", "weight": 0}]}],
)  # fmt: skip
def test_what_is_not_foundry(data: Any) -> None:
    """A file without dimensions, or with broken ones, is refused; an empty list holds no rubric."""
    if data == []:
        assert from_foundry(data).documents == ()
        return
    with pytest.raises(NotImportable):
        from_foundry(data)


ROW = {
    "inputs.query": "q",
    "outputs.coherence.coherence": 4.0,
    "outputs.coherence.coherence_score": 4.0,
    "outputs.coherence.coherence_passed": True,
    "outputs.coherence.coherence_result": "pass",
    "outputs.coherence.coherence_status": "completed",
    "outputs.coherence.coherence_threshold": 3,
    "outputs.coherence.coherence_reason": "flows",
    "outputs.task_adherence.task_adherence_score": 1.0,
    "outputs.task_adherence.task_adherence_result": "pass",
    "outputs.task_adherence.task_adherence_threshold": 3,
    "outputs.fluency.gpt_fluency": 2.0,
    "outputs.fluency.fluency_result": "fail",
    "outputs.fluency.fluency_threshold": 3,
    "outputs.protected_material.protected_material_label": "true",
}


def test_azure_rows() -> None:
    """Rows of a results file, both generations of keys in one; a threshold of 3 on a scale of 0 and 1 is not taken at its word."""
    found = {one.evaluator: one for one in results(rows_of({"rows": [ROW], "metrics": {}})[0])}
    assert (found["coherence"].outcome, found["coherence"].score, found["coherence"].reason) == (
        Outcome.PASS,
        4.0,
        "flows",
    )
    assert found["task_adherence"].outcome is Outcome.PASS
    assert (found["fluency"].outcome, found["fluency"].score) == (Outcome.FAIL, 2.0)
    assert found["protected_material"].error is ErrorType.UNPARSEABLE


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"coherence_score": 9.0}, ErrorType.OUT_OF_RANGE),
        ({"coherence_score": float("nan")}, ErrorType.UNPARSEABLE),
        ({"coherence_result": "unknown"}, ErrorType.UNPARSEABLE),
        ({"coherence_result": "fail"}, ErrorType.UNPARSEABLE),
        ({"coherence_passed": 0.5}, ErrorType.UNPARSEABLE),
        ({"coherence_status": "error"}, ErrorType.EVALUATOR_FAILED),
    ],
)
def test_azure_faults(changes: dict[str, Any], error: ErrorType) -> None:
    """Scores off the scale, NaN, `unknown`, labels that contradict their score, means with a stray label: errors, neither pass nor fail."""
    row = {"coherence_score": 4.0, "coherence_result": "pass", "coherence_threshold": 3, **changes}
    (one,) = results(row)
    assert (one.outcome, one.error) == (None, error)
