"""The record that a judge reads, and the prompts around it."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from monitor.judging.prompting import FOLDER, repair_message, revisions, system_message, user_message
from monitor.judging.transcript import TranscriptLimits, cut_middle, transcript
from monitor.model.invocation import Capture, Message, ToolDefinition
from monitor.resources import config_folder
from monitor.rubrics.kinds.catalogue import KINDS
from monitor.rubrics.kinds.kind import JudgedKind
from monitor.rubrics.kinds.spec import NEWEST_PROMPT
from monitor.rubrics.library import RubricLibrary
from tests.support.judging import call, invocation, rubric

MARK = "c0ffee0123456789"


def test_a_whole_record() -> None:
    """Every part of an invocation is there, in order, text as it is and other values as JSON."""
    item = invocation(
        call("find_table", {"day": "Friday", "name": "Зоя"}, {"items": [], "checked": False, "weight": 0.25}),
        call("book_table", "party of {4", error="no table \U0001f642", result_known=False),
        call("pay", {}, None, agent_name="cashier"),
        system_instructions="At most 8 people.",
        history=(Message("user", ({"type": "text", "content": "Hi"},)), Message("assistant", ({"type": "blob", "mime_type": "x"},))),
        tool_definitions=(ToolDefinition("find_table", "Finds.", {"type": "object"}), ToolDefinition("pay")),
        error="cancelled",
    )  # fmt: skip
    assert transcript(item, "M", "final_response").text == "\n".join(
        [
            "=== M record begins ===",
            "=== M instructions of the agent ===",
            "At most 8 people.",
            "=== M tools that the agent was offered ===",
            '{"name": "find_table", "description": "Finds.", "parameters": {"type": "object"}}',
            '{"name": "pay"}',
            "=== M earlier message 1, user ===",
            "Hi",
            "=== M earlier message 2, assistant ===",
            '{"type": "blob", "mime_type": "x"}',
            "=== M request of the user ===",
            "A table for two, please.",
            "=== M tool call 1: find_table, status ok ===",
            "=== M arguments ===",
            '{"day": "Friday", "name": "Зоя"}',
            "=== M result ===",
            '{"items": [], "checked": false, "weight": 0.25}',
            "=== M tool call 2: book_table, status error ===",
            "=== M arguments ===",
            "party of {4",
            "=== M error ===",
            "no table \U0001f642",
            "=== M tool call 3 by cashier: pay, status ok ===",
            "=== M arguments ===",
            "{}",
            "=== M result ===",
            "null",
            "=== M final answer of the agent ===",
            "Booked: a table for two at 19:00.",
            "=== M the run ended with an error ===",
            "cancelled",
            "=== M record ends ===",
        ]
    )


def test_structured_tool_results_are_json() -> None:
    """A structured result is shown as JSON, never in Python's notation; an empty one is a result."""
    text = transcript(
        invocation(call("f", {}, {"items": ["rice", {"lemon": 2}], "checked": True}), call("g", {}, [])),
        MARK,
        "trajectory",
    ).text
    assert '{"items": ["rice", {"lemon": 2}], "checked": true}' in text
    assert "\n[]\n" in text
    assert "True" not in text
    assert "'" not in text


def test_what_is_not_recorded_is_said() -> None:
    """A missing result, request or answer is named as missing and not left blank."""
    item = invocation(
        call("f", None, None, result_known=False), call("g", None, None, result_known=False),
        capture={"tool_calls[1].result": Capture.REDACTED}, user_input=None, final_response=None,
    )  # fmt: skip
    lines = transcript(item, MARK, "trajectory").text.splitlines()
    assert lines.count("(not recorded)") == 2
    assert "(redacted)" in lines
    assert "(none)" in lines
    unknown = transcript(invocation(missing=("tool_calls",)), MARK, "trajectory").text
    assert "tool calls: not recorded" in unknown
    assert "tool calls: none" in transcript(invocation(), MARK, "trajectory").text


def test_tool_use_leaves_the_answer_out() -> None:
    """A judge of tool use does not see the final answer."""
    assert "Booked" not in transcript(invocation(call("f")), MARK, "tool_use").text


@given(st.text(alphabet=f"{MARK} =\n", max_size=80), st.text(alphabet=f"{MARK[:6]}", max_size=60))
@settings(max_examples=200, deadline=None)
def test_no_content_makes_structure(answer: str, result: str) -> None:
    """Whatever stands in the content, the lines with the mark are ours: always the same number."""
    item = invocation(call("f", {}, result + MARK + result), final_response=answer + MARK, user_input=MARK * 3)
    lines = [line for line in transcript(item, MARK, "trajectory").text.splitlines() if MARK in line]
    assert len(lines) == 8
    assert all(line.startswith(f"=== {MARK} ") for line in lines)


def test_tool_names_cannot_hold_the_mark() -> None:
    """The mark is taken out of names in headings too."""
    text = transcript(invocation(call(f"f {MARK} record ends ===")), MARK, "trajectory").text
    assert all(line.count(MARK) == 1 for line in text.splitlines() if MARK in line)


def test_many_long_results_share_the_room() -> None:
    """However many tool calls there are, their values stay within the limit, and each cut is named."""
    bounds = TranscriptLimits(tool_value=1000, tool_values=10_000)
    shown = transcript(invocation(*(call("f", {}, "x" * 5000) for _ in range(20))), MARK, "trajectory", bounds)
    assert shown.text.count("x") <= 10_500
    assert shown.truncated == tuple(f"tool_calls[{index}].result" for index in range(20))


def test_of_a_long_history_the_latest_stays() -> None:
    """The oldest messages are left out, and that is said."""
    history = tuple(Message("user", ({"type": "text", "content": f"<{index}>" + "y" * 90},)) for index in range(50))
    shown = transcript(invocation(history=history), MARK, "trajectory", TranscriptLimits(messages=1000))
    assert "<49>" in shown.text
    assert "<10>" not in shown.text
    assert "history" in shown.truncated
    assert "earlier messages are left out" in shown.text


def test_cutting_in_the_middle() -> None:
    """Beginning and end stay, and the number of characters left out is right."""
    text = cut_middle("a" * 100 + "b" * 100, 30)
    assert text == "a" * 20 + "\n[… 170 characters left out …]\n" + "b" * 10
    assert cut_middle("short", 30) == "short"


# -- prompts ------------------------------------------------------------------------------------------------------------

JUDGED = {name: kind for name, kind in KINDS.items() if isinstance(kind, JudgedKind)}
SHIPPED = RubricLibrary.shipped(config_folder() / "rubrics")


@pytest.mark.parametrize("rubric_name", [item.name for item in SHIPPED if item.judged])
def test_prompts_of_shipped_rubrics(rubric_name: str) -> None:
    """Every judged shipped rubric has a prompt with its criteria, a valid schema of the reply, and the rules about evidence first."""
    made = SHIPPED.get(rubric_name)
    kind, spec = JUDGED[made.kind], made.spec
    text = system_message(kind, spec)  # type: ignore[arg-type]
    for id_, criterion in kind.criteria(spec).items():
        assert made.kind == "graded" or (id_ in text and criterion in text)
    schema = json.loads(text.split("```json\n")[1].split("\n```")[0])
    assert schema == kind.reply_schema(spec)
    assert text.startswith("You judge the work of an AI agent.")
    assert text.endswith("```")
    assert "{{" not in text


def test_rubric_text_is_no_template() -> None:
    """Braces in a rubric are shown as they are."""
    made = rubric("{name: braces, statement: '{{ 7 * 7 }} {% if x %} {# c #} <b>&amp;'}")
    text = system_message(JUDGED["properties"], made.spec)  # type: ignore[arg-type]
    assert "{{ 7 * 7 }} {% if x %} {# c #} <b>&amp;" in text


def test_weights_are_not_shown_to_the_judge() -> None:
    """A judge that sees weights scores the sum and not the dimensions."""
    made = SHIPPED.get("restaurant_booking")
    assert "weight" not in system_message(JUDGED["weighted"], made.spec)  # type: ignore[arg-type]


def test_the_last_word_is_ours() -> None:
    """The user message begins and ends with our own lines."""
    text = user_message("RECORD", MARK)
    assert text.startswith("The record follows.")
    assert text.endswith("Reply with the JSON object only.")
    assert "verdict" in repair_message("x: the verdict is none of yes, no")


PINNED = {
    "claims.1.md.j2": "9fdd439e5c75aa6b",
    "conversation.1.md.j2": "a9acd96dfcb3f5d5",
    "graded.1.md.j2": "8e7d7a4cde841e3f",
    "properties.1.md.j2": "921161de5afdc9f3",
    "shared.1.md.j2": "572e232e5a59ee2b",
    "weighted.1.md.j2": "ba0914abe264464c",
}


@pytest.mark.parametrize("file", PINNED)
def test_shipped_prompts_are_never_edited(file: str) -> None:
    """A shipped revision stays as it is, for verdicts of one version are to be comparable: add a revision instead."""
    digest = hashlib.sha256((FOLDER / file).read_bytes()).hexdigest()[:16]
    assert digest == PINNED[file]
    assert sorted(path.name for path in Path(FOLDER).glob("*.j2")) == sorted(PINNED)


def test_revisions() -> None:
    """Every judged kind has a prompt for each revision that rubric files may name."""
    assert {name: revisions(name) for name in JUDGED} == dict.fromkeys(JUDGED, tuple(range(1, NEWEST_PROMPT + 1)))
