"""The library of shipped and configured rubrics."""

from __future__ import annotations

from pathlib import Path

import pytest

from monitor.resources import config_folder
from monitor.rubrics.library import RubricLibrary, UnknownRubric
from monitor.settings.document import ConfigurationError, read_documents

SHIPPED = RubricLibrary.shipped(config_folder() / "rubrics")


def with_text(tmp_path: Path, text: str, inline: str = "{}") -> RubricLibrary:
    path = tmp_path / "own.yaml"
    path.write_text(text)
    (document,) = read_documents(inline, "rubricd.yaml")
    return SHIPPED.with_configured([path], document)


def test_shipped_rubrics_are_described() -> None:
    """Every shipped rubric is read and says what it is for; those of the default monitor need no judge."""
    assert all(rubric.description for rubric in SHIPPED)
    for name in (
        "final_answer_present",
        "no_tool_errors",
        "run_succeeded",
        "tool_calls_known",
        "no_repeated_tool_calls",
    ):
        assert not SHIPPED.get(name).judged
    assert SHIPPED.get("intent_resolution").threshold == 3
    assert SHIPPED.get("groundedness").requires == ("context",)
    assert {rubric.kind for rubric in SHIPPED} == {"weighted", "properties", "graded", "claims", "check"}


LIBRARY = {
    "intent_resolution": (1, 5, 3), "groundedness": (1, 5, 3), "groundedness_without_query": (1, 5, 3), "task_adherence": (0, 1, 1),
    "task_completion": (0, 1, 1), "tool_call_accuracy": (1, 5, 3), "tool_selection": (0, 1, 1), "tool_input_accuracy": (0, 1, 1),
    "tool_call_success": (0, 1, 1), "tool_output_utilization": (0, 1, 1), "relevance": (1, 5, 3), "coherence": (1, 5, 3),
    "fluency": (1, 5, 3), "response_completeness": (1, 5, 3), "retrieval": (1, 5, 3), "customer_satisfaction": (1, 5, 3),
}  # fmt: skip
"""Graded rubrics: scale and threshold, those of azure-ai-evaluation where it has the evaluator (reference/evaluators.md 5.1)."""


@pytest.mark.parametrize("name", LIBRARY)
def test_scales_of_the_library(name: str) -> None:
    """The shipped evaluators keep the scale and threshold that teams know, with a meaning for every level."""
    made = SHIPPED.get(name)
    low, high, threshold = LIBRARY[name]
    assert (made.behaviour.score_range(made.spec), made.threshold) == ((low, high), threshold)
    assert sorted(made.spec.levels) == list(range(low, high + 1))  # type: ignore[attr-defined]
    assert made.spec.instructions  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "name",
    ["final_response_quality", "tool_use_quality", "claims_supported", "instruction_following", "safety_general", "restaurant_booking",
     "support_case", "coding_task", "retrieval_answer"],
)  # fmt: skip
def test_other_rubrics_of_the_library(name: str) -> None:
    """The rubrics of other kinds and the packs are there, and ask a judge."""
    assert SHIPPED.get(name).judged


def test_packs_end_with_the_residual_dimension() -> None:
    """Weighted packs have one dimension of 8 to 10, others of 1 to 6, and end with general_quality, always applicable, as Foundry's do."""
    for made in SHIPPED:
        if made.kind == "weighted":
            weights = [item.weight for item in made.spec.dimensions]  # type: ignore[attr-defined]
            last = made.spec.dimensions[-1]  # type: ignore[attr-defined]
            assert (last.id, last.always_applicable) == ("general_quality", True)
            assert [weight for weight in weights if weight > 6] == [max(weights)]
            assert 8 <= max(weights) <= 10


def test_files_and_inline_rubrics(tmp_path: Path) -> None:
    """Rubrics come from files and from the configuration itself, beside the shipped ones."""
    library = with_text(tmp_path, "{name: mine, statement: x}", "rubrics: [{name: here, statement: y}]")
    assert library.get("mine").judged
    assert "here" in library
    assert len(library) == len(SHIPPED) + 2
    assert library.is_shipped("groundedness")
    assert not library.is_shipped("mine")
    assert "mine" not in SHIPPED


def test_names_that_only_look_alike(tmp_path: Path) -> None:
    """Names are values, not metric names: close ones live side by side."""
    names = ["tone", "tone_total", "tone-total", "Tone", "pass_rate", "__reserved", "9 lives"]
    library = with_text(tmp_path, "\n---\n".join(f"{{name: {name!r}, statement: x}}" for name in names))
    assert all(library.get(name).name == name for name in names)


def test_a_name_given_twice(tmp_path: Path) -> None:
    """A second rubric of one name is refused with the place of both, across files and the configuration."""
    with pytest.raises(ConfigurationError) as error:
        with_text(
            tmp_path,
            "name: tone\nstatement: x\n---\nname: tone\nstatement: y",
            "rubrics:\n- name: tone\n  statement: z",
        )
    first, second = (str(fault) for fault in error.value.faults)
    assert first.endswith(f"own.yaml:4: name: 'tone' is taken by the rubric at {tmp_path / 'own.yaml'}:1")
    assert second.startswith("rubricd.yaml:2: rubrics[0].name: 'tone' is taken")


def test_shadowing_a_shipped_rubric(tmp_path: Path) -> None:
    """A shipped rubric is shadowed only on purpose."""
    with pytest.raises(
        ConfigurationError, match="'groundedness' is a shipped rubric; choose another name, or add `override: true`"
    ):
        with_text(tmp_path, "{name: groundedness, statement: x}")
    library = with_text(tmp_path, "{name: groundedness, statement: x, override: true}")
    assert library.get("groundedness").kind == "properties"
    assert not library.is_shipped("groundedness")
    with pytest.raises(ConfigurationError, match="override: no shipped rubric is called 'mine'"):
        with_text(tmp_path, "{name: mine, statement: x, override: true}")


def test_unknown_names(tmp_path: Path) -> None:
    """A name that is not there is answered with the nearest one."""
    with pytest.raises(UnknownRubric, match="no rubric is called 'groundednes'; did you mean `groundedness`"):
        SHIPPED.get("groundednes")
    with pytest.raises(UnknownRubric, match="the rubrics are answer_manners"):
        SHIPPED.get("zzz")


def test_faults_of_all_files_together(tmp_path: Path) -> None:
    """Faults in a file and in the configuration are shown at once, and nothing is taken."""
    with pytest.raises(ConfigurationError) as error:
        with_text(tmp_path, "{name: a, kind: chek}", "rubrics: [{name: b}, 7]")
    assert len(error.value.faults) == 3
