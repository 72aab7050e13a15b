"""Versions of rubrics: what changes them, what does not, and judging from a stored definition."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

import pytest

from monitor.resources import config_folder
from monitor.rubrics.library import RubricLibrary
from monitor.rubrics.version import (
    JudgeParameters,
    UnusableDefinition,
    definition,
    from_definition,
    parameters_from,
    rubric_version,
)
from monitor.settings.tree import JudgeSettings
from tests.support.judging import invocation, rubric

SHIPPED = RubricLibrary.shipped(config_folder() / "rubrics")
JUDGE = JudgeSettings(model="gpt-4.1-mini")
BASE = """
name: booking
kind: weighted
dimensions:
  - {id: a, weight: 5, description: "One."}
  - {id: b, description: "Two."}
"""


def version(text: str, judge: JudgeSettings | None = JUDGE) -> str:
    return rubric_version(rubric(text), judge)


SAME = [
    "# a comment" + BASE,
    BASE + "description: for people\nowner: team\n",
    BASE + "threshold: 0.5\nveto: false\nnum_samples: 1\nprompt: 1\n",
    BASE + "pass_threshold: 0.50\n",
    BASE.replace("weight: 5", "weight: 5.0"),
    BASE.replace('{id: b, description: "Two."}', '{description: "Two.", weight: 1, id: b}'),
    'dimensions: [{id: b, description: "Two."}, {id: a, weight: 5, description: "One."}]\nkind: weighted\nname: booking',
]

OTHER = [
    BASE.replace("booking", "booking_2"),
    BASE.replace("weight: 5", "weight: 6"),
    BASE.replace("One.", "One!"),
    BASE.replace("id: a", "id: c"),
    BASE + "threshold: 0.6",
    BASE + "veto: true",
    BASE + "normalisation: min_max",
    BASE + "num_samples: 3",
    BASE + "requires: [user_input]",
    BASE + "instructions: be strict",
]


@pytest.mark.parametrize("text", SAME)
def test_what_is_no_meaning_changes_nothing(text: str) -> None:
    """Comments, order, description, owner, defaults written out and other spellings of a number keep the version."""
    assert version(text) == version(BASE)


@pytest.mark.parametrize("text", OTHER)
def test_every_change_of_meaning_is_a_new_version(text: str) -> None:
    """Whatever a verdict depends on changes the version."""
    assert version(text) != version(BASE)


@pytest.mark.parametrize(
    "judge",
    [
        JudgeSettings(model="gpt-4.1"),
        JudgeSettings(model="gpt-4.1-mini", temperature=0.5),
        JudgeSettings(model="gpt-4.1-mini", max_tokens=500),
    ],
)
def test_the_judge_is_part_of_the_version(judge: JudgeSettings) -> None:
    """Another model and other parameters start anew; where the judge is reached and how fast does not."""
    assert version(BASE, judge) != version(BASE)
    moved = JudgeSettings(model="gpt-4.1-mini", base_url="http://elsewhere/v1", timeout="5s", max_concurrency=2)  # type: ignore[arg-type]
    assert version(BASE, moved) == version(BASE)


def test_a_deterministic_rubric_has_no_judge_in_it() -> None:
    """The version of a check is the same whoever would judge."""
    text = "{name: x, kind: check, expect: {no_error: true}}"
    assert version(text, None) == version(text, JUDGE)


def test_twelve_hex_of_sha256_over_canonical_json() -> None:
    """The version is what anyone can compute from the stored definition: SHA-256 over its canonical JSON."""
    made = rubric("{name: x, kind: check, expect: {no_error: true, max_latency: 90500ms}, owner: me}")
    text = (
        '{"judge":null,"mapping":null,"meaning":{"expect":{"max_latency":"90.5s","no_error":true},'
        '"kind":"check","name":"x"},"prompt":null}'
    )
    assert rubric_version(made, None) == hashlib.sha256(text.encode()).hexdigest()[:12]
    assert re.fullmatch("[0-9a-f]{12}", rubric_version(made, None))


@pytest.mark.parametrize("name", [item.name for item in SHIPPED])
def test_a_stored_definition_is_the_rubric(name: str) -> None:
    """From the stored JSON comes the same rubric with the same version, so pending evaluations outlive a reload or restart."""
    made = SHIPPED.get(name)
    stored: Any = json.loads(json.dumps(definition(made, JUDGE)))
    again = from_definition(stored)
    assert again == made
    assert rubric_version(again, JUDGE) == rubric_version(made, JUDGE)
    assert parameters_from(stored) == (JudgeParameters("gpt-4.1-mini") if made.judged else None)


def test_a_guided_rubric_is_stored_with_its_levels() -> None:
    """The definition of a rubric with a guide needs the guide no more."""
    from monitor.rubrics.files import read_text

    (read,) = read_text("{name: g, kind: graded, guide: intent_resolution}", "r.yaml", SHIPPED.guides)
    assert from_definition(json.loads(json.dumps(definition(read.rubric, JUDGE)))) == read.rubric


def test_the_stored_judge_has_all_its_parameters() -> None:
    """Model, temperature, token limit and Azure deployment come back from the definition."""
    judge = JudgeSettings.model_validate(
        {
            "model": "m",
            "temperature": 0.2,
            "max_tokens": 900,
            "azure": {"endpoint": "https://x", "api_version": "1", "deployment": "d"},
        }
    )
    assert parameters_from(definition(rubric(BASE), judge)) == JudgeParameters("m", 0.2, 900, "d")


@pytest.mark.parametrize(
    "stored",
    [{}, {"meaning": {"kind": "oracle"}}, {"meaning": {"kind": "check", "name": "x"}}, {"meaning": None}],
)
def test_a_definition_that_cannot_be_read(stored: dict[str, Any]) -> None:
    """A damaged definition, or one of a newer program, is refused and not guessed."""
    with pytest.raises(UnusableDefinition):
        from_definition(stored)


PINNED = {
    "final_answer_present": "548ed0e4e5ed",
    "no_tool_errors": "f17851657f06",
    "run_succeeded": "f7a80bfec4d6",
    "tool_calls_known": "91e08c8442c5",
    "no_repeated_tool_calls": "31ccc896cb73",
}


@pytest.mark.parametrize("name", PINNED)
def test_shipped_versions_do_not_move(name: str) -> None:
    """The version of a shipped rubric changes only when someone means it to: series of every user would start anew."""
    assert rubric_version(SHIPPED.get(name), None) == PINNED[name]


def test_a_judge_of_the_definition_judges_the_same() -> None:
    """A deterministic rubric from its definition gives the same judgement."""
    made = SHIPPED.get("run_succeeded")
    again = from_definition(definition(made, None))
    item = invocation(error="boom")
    assert again.behaviour.judge(again.spec, item) == made.behaviour.judge(made.spec, item)  # type: ignore[attr-defined]
