"""Judging whole conversations: the record of all turns, what checks look at, what programs read."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.judging.looking import judge_deterministic
from monitor.judging.programs import run_program
from monitor.judging.prompting import system_message
from monitor.judging.redact import redacted
from monitor.judging.room import fair_share, kept_ends
from monitor.judging.transcript import TranscriptLimits, View, transcript
from monitor.model.invocation import Capture, Message, ToolDefinition
from monitor.model.verdict import Outcome
from monitor.rubrics.files import read_file
from monitor.settings.privacy import Redaction
from tests.judging.test_judge import judge, said
from tests.support.conversing import talk, turn
from tests.support.judging import call, rubric

ASK = turn(0, "A table for two.", "Which day?", system_instructions="At most 8 people.")
BOOK = turn(
    1, "Friday.", "Booked.", call("book_table", {"day": "Friday"}, {"id": 7}), system_instructions="At most 8 people."
)
LINES = [
    "=== M record begins ===",
    "=== M instructions of the agent ===",
    "At most 8 people.",
    "=== M tools that the agent was offered ===",
    '{"name": "book_table"}',
    "=== M turn 1 of 2 ===",
    "=== M request of the user ===",
    "A table for two.",
    "=== M tool calls: none ===",
    "=== M answer of the agent ===",
    "Which day?",
    "=== M turn 2 of 2 ===",
    "=== M request of the user ===",
    "Friday.",
    "=== M tool call 1: book_table, status ok ===",
    "=== M arguments ===",
    '{"day": "Friday"}',
    "=== M result ===",
    '{"id": 7}',
    "=== M final answer of the agent ===",
    "Booked.",
    "=== M record ends ===",
]


def test_a_whole_conversation() -> None:
    """Every turn is there in order, with its request, tool calls and answer; what is the same in all of them stands once."""
    assert transcript(talk(ASK, BOOK), "M").text == "\n".join(LINES)


def test_what_changes_between_turns_is_told() -> None:
    """Another agent, other instructions and an error stand at their turn; what came before the first turn stands before it."""
    handed = turn(1, "Cancel it.", None, agent_name="cashier", system_instructions="Refund.", error="gone")
    began = turn(0, "Hi", "Hello", history=(Message("user", ({"type": "text", "content": "earlier"},)),))
    text = transcript(talk(began, handed), "M").text
    assert "=== M turn 1 of 2, agent booking ===" in text
    assert "=== M turn 2 of 2, agent cashier ===\n=== M instructions, changed ===\nRefund." in text
    assert "=== M the turn ended with an error ===\ngone" in text
    assert text.index("earlier") < text.index("turn 1 of 2")


def test_the_last_answer_is_not_shown_where_tools_are_judged() -> None:
    """Earlier answers are: later requests refer to them. `hide` takes out all of them."""
    assert "Which day?" in transcript(talk(ASK, BOOK), "M", "tool_use").text
    assert "Booked." not in transcript(talk(ASK, BOOK), "M", "tool_use").text
    hidden = transcript(talk(ASK, BOOK), "M", View(hide=("final_response",))).text
    assert "Which day?" not in hidden
    assert "Booked." not in hidden


def test_long_turns_are_cut_to_their_share() -> None:
    """Short turns stay whole, long ones share what is left, and the record says what was cut."""
    limits = TranscriptLimits(turns=10_000)
    long = turn(1, "Read it.", "A" * 30_000, call("read", {}, "R" * 30_000))
    shown = transcript(talk(ASK, long, turn(2, "Thanks.", "Welcome.")), "M", limits=limits)
    assert len(shown.text) < 11_000
    assert {"turns[1].final_response", "turns[1].tool_calls[0].result"} <= set(shown.truncated)
    assert not any(path.startswith(("turns[0]", "turns[2]")) for path in shown.truncated)
    assert "Which day?" in shown.text
    assert "Welcome." in shown.text


def test_of_very_many_turns_the_first_and_last_are_shown() -> None:
    """The middle is left out with a mark that says which turns; the whole stays within its bound."""
    turns = [turn(place, f"question {place}.", "B" * 2_000) for place in range(300)]
    shown = transcript(talk(*turns), "M", limits=TranscriptLimits(turns=30_000))
    assert "turns" in shown.truncated
    assert len(shown.text) < 33_000
    assert "=== M turns 7 to 286 are left out ===" in shown.text
    assert "question 5." in shown.text
    assert "question 6." not in shown.text
    assert "question 299." in shown.text


def test_of_very_many_calls_the_first_and_last_are_shown() -> None:
    """A turn with hundreds of calls that is cut names how many of them are left out."""
    calls = [call("look", {"n": number}, "x" * 300) for number in range(400)]
    shown = transcript(talk(ASK, turn(1, "Look.", "Done.", *calls)), "M", limits=TranscriptLimits(turns=20_000))
    assert "turns[1].tool_calls" in shown.truncated
    assert '{"n": 0}' in shown.text
    assert '{"n": 399}' in shown.text
    assert len(shown.text) < 25_000


@given(st.lists(st.integers(0, 10_000), max_size=30), st.integers(1, 50_000))
def test_shares_fit_the_room(sizes: list[int], room: int) -> None:
    """Cut to the share all fit into the room, and nothing is cut that would fit."""
    share = fair_share(sizes, room)
    assert sum(min(size, share) for size in sizes) <= room
    if sum(sizes) <= room:
        assert all(size <= share for size in sizes)


@given(st.integers(1, 1_000), st.integers(1, 400))
def test_ends_that_are_kept(count: int, most: int) -> None:
    """All of few, else the first and the last of many, never more than there are."""
    first, last = kept_ends(count, most)
    assert first + last <= max(count, 1)
    assert (first + last == count) is (count <= most) or first + last == 2 == count


async def test_the_judge_is_told_that_it_is_a_conversation() -> None:
    """The system message of a conversation ends with what that means; one judge asked about both tells each its own."""
    made, client = judge(said("yes"), said("yes"), said("yes"))
    by = rubric("{name: polite, statement: The answer is polite.}")
    for item in (ASK, talk(ASK, BOOK), BOOK):
        assert (await made.evaluate(by, item)).outcome is Outcome.PASS
    told = ["whole conversation" in request.messages[0].content for request in client.requests]
    assert told == [False, True, False]
    assert "turn 2 of 2" in client.requests[1].messages[1].content


@pytest.mark.parametrize("about", ["final_response", "tool_use", "trajectory"])
def test_the_message_says_what_is_judged(about: str) -> None:
    """Of each thing that a rubric can be about it says what that is in a conversation."""
    by = rubric(f"{{name: x, about: {about}, statement: It is so.}}")
    told = system_message(by.behaviour, by.spec, conversation=True)  # type: ignore[arg-type]
    assert ("tool calls of all turns" in told) is (about == "tool_use")
    assert ("judged as one" in told) is (about == "trajectory")
    assert told.startswith(system_message(by.behaviour, by.spec))  # type: ignore[arg-type]


async def test_a_turn_without_its_content_makes_it_unjudgeable() -> None:
    """A conversation of which a turn in the middle was erased or redacted is not judged as if that had not been said."""
    made, client = judge()
    gone = turn(1, None, None, capture={"user_input": Capture.REDACTED, "final_response": Capture.REDACTED})  # type: ignore[arg-type]
    by = rubric("{name: polite, statement: The answer is polite.}")
    result = await made.evaluate(by, talk(ASK, gone, turn(2, "And?", "Done.")))
    assert (result.outcome, result.unjudgeable_reason) == (Outcome.UNJUDGEABLE, "redacted")
    assert client.requests == []


async def test_what_was_erased_at_the_beginning_is_left_out() -> None:
    """A conversation that goes on for longer than content is kept is judged from the first turn that is, and the record says so."""
    made, client = judge(said("yes"))
    erased = {"user_input": Capture.REDACTED, "final_response": Capture.REDACTED}
    gone = turn(0, None, None, capture=erased)  # type: ignore[arg-type]
    whole = talk(gone, BOOK)
    assert [one.user_input for one in whole.turns] == ["Friday."]
    assert talk(gone, gone).turns == (gone, gone)
    result = await made.evaluate(rubric("{name: polite, statement: The answer is polite.}"), whole)
    assert result.outcome is Outcome.PASS
    assert result.details["truncated"] == ["turns"]
    assert "earlier turns are left out" in client.requests[0].messages[1].content


def test_a_pseudonym_is_the_same_in_every_turn() -> None:
    """One person is one pseudonym over the whole conversation, and nothing of them is left anywhere."""
    hidden = redacted(
        talk(turn(0, "I am anna@example.org.", "Hi."), turn(1, "x@example.org?", "anna@example.org!")),
        Redaction(("email",)),
    )
    assert hidden.turns[0].user_input == "I am <EMAIL_1>."
    assert hidden.turns[1].final_response == "<EMAIL_1>!"
    assert "example.org" not in repr(hidden)


PAY = turn(2, "Pay.", "Paid.", call("pay", {"eur": 20}), call("pay", {"eur": 20}))
WHOLE = talk(ASK, BOOK, PAY)


@pytest.mark.parametrize(
    ("expect", "outcome"),
    [
        ("tool_called: [book_table, pay]", "pass"),
        ("tool_not_called: book_table", "fail"),
        ("tool_order: {mode: exact, calls: [book_table, pay, pay]}", "pass"),
        ("tool_arguments: {tool: pay, schema: {properties: {eur: {maximum: 10}}}}", "fail"),
        ("max_tool_calls: 2", "fail"),
        ("max_model_calls: 6", "pass"),
        ("max_tokens: 359", "fail"),
        ("max_tokens: 360", "pass"),
        ("max_latency: 3s", "pass"),
        ("required_text: Paid", "pass"),
        ("required_text: Booked", "fail"),
        ("forbidden_text: which day", "fail"),
        ("forbidden_regex: '^Nothing'", "pass"),
        ("max_repeated_tool_calls: 1", "fail"),
        ("known_tools: true", "pass"),
        ("no_error: true", "pass"),
        ("final_response_present: true", "pass"),
    ],
)  # fmt: skip
def test_checks_of_a_conversation(expect: str, outcome: str) -> None:
    """Tool calls, tokens and model calls are those of all turns; required is the last answer's; what is forbidden is so in every turn."""
    found = judge_deterministic(rubric(f"name: x\nkind: check\nexpect:\n  {expect}\n"), WHOLE)
    assert found.outcome == outcome


def test_a_check_names_the_turn() -> None:
    """What was wrong in one turn is said of that turn; a turn that cannot be told of makes it unjudgeable only where no other decides."""
    by = rubric("{name: x, kind: check, expect: {forbidden_text: damn}}")
    lost = turn(1, "And?", None, missing=("final_response",))
    assert judge_deterministic(by, talk(ASK, turn(1, "So?", "Damn."), PAY)).explanation.startswith(
        "Turn 2: In the answer"
    )
    assert judge_deterministic(by, talk(ASK, lost, PAY)).outcome is Outcome.UNJUDGEABLE
    assert judge_deterministic(by, talk(turn(0, "Hi", "Damn."), lost)).outcome is Outcome.FAIL


def test_a_tool_is_known_where_it_was_offered() -> None:
    """A tool that only another turn was offered is unknown in this one."""
    by = rubric("{name: x, kind: check, expect: {known_tools: true}}")
    stray = turn(1, "Pay.", "Paid.", call("pay"), tool_definitions=(ToolDefinition("refund"),))
    assert judge_deterministic(by, talk(PAY, stray)).outcome is Outcome.FAIL


async def test_a_program_reads_the_turns(tmp_path: Path) -> None:
    """A `code` rubric gets the conversation's id and its turns, each an invocation, and nothing twice."""
    (tmp_path / "rules.py").write_text(
        "import json, sys\ntalk = json.load(sys.stdin)\nturns = talk['turns']\n"
        "print(json.dumps({'score': len(turns) / 3, 'explanation': json.dumps([sorted(talk), [t['user_input'] for t in turns]])}))\n"
    )
    (tmp_path / "rubric.yaml").write_text(f"name: rules\nkind: code\ncommand: [{sys.executable}, rules.py]\n")
    (read,) = read_file(tmp_path / "rubric.yaml")
    found = await run_program(read.rubric, WHOLE)
    assert (found.outcome, found.score) == (Outcome.PASS, 1.0)
    keys: Any = json.loads(found.explanation)
    assert keys == [["conversation_id", "id", "revision", "turns"], ["A table for two.", "Friday.", "Pay."]]


async def test_context_may_look_into_turns() -> None:
    """`{{turns[*]…}}` shows what a rubric wants of each turn; of an invocation there are none."""
    made, client = judge(said("yes"))
    by = rubric("name: x\nstatement: All were polite.\ncontext: {answers: '{{turns[*].final_response}}'}\n")
    await made.evaluate(by, WHOLE)
    assert "=== context: answers ===\nWhich day?\nBooked.\nPaid." in client.requests[0].messages[1].content.replace(
        made_mark(client), ""
    )
    assert (await made.evaluate(by, ASK)).unjudgeable_reason == "missing:context.answers"


def made_mark(client: Any) -> str:
    """The random mark of the first call, with its blank."""
    text: str = client.requests[0].messages[1].content
    return text.split("=== ", 1)[1].split(" ", 1)[0] + " "
