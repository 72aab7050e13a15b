"""Deterministic expectations: what holds, what fails, what does not apply, and what the telemetry cannot tell."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from monitor.model.invocation import Capture, Invocation
from monitor.model.verdict import Judgement, Outcome
from monitor.rubrics.kinds.trajectory import ExpectedCall, match
from tests.support.judging import SECOND, call, invocation, rubric


def judged(expect: str, item: Invocation) -> Judgement:
    made = rubric(f"{{name: x, kind: check, expect: {{{expect}}}}}")
    return made.behaviour.judge(made.spec, item)  # type: ignore[attr-defined]


BOOK = call("book_table", {"party_size": 4})
FIND = call("find_table", {"day": "Friday"})

PASSES: list[tuple[str, Invocation]] = [
    ("tool_called: book_table", invocation(FIND, BOOK)),
    ("tool_called: [find_table, book_table]", invocation(FIND, BOOK)),
    ("tool_not_called: delete_all", invocation(BOOK)),
    ("tool_not_called: delete_all", invocation()),
    ("tool_order: {calls: [find_table, book_table]}", invocation(FIND, call("note"), BOOK)),
    ("tool_order: {mode: any_order, calls: [book_table, find_table]}", invocation(FIND, BOOK)),
    (
        "tool_order: {mode: exact, calls: [find_table, {tool: book_table, arguments: {party_size: 4.0}}]}",
        invocation(FIND, BOOK),
    ),
    ("tool_arguments: {tool: book_table, schema: {properties: {party_size: {maximum: 8}}}}", invocation(BOOK)),
    ("tool_arguments: {tool: find_table, schema: {properties: {day: {pattern: '^F'}}}}", invocation(FIND)),
    ("no_tool_errors: true", invocation(BOOK)),
    ("known_tools: true", invocation(BOOK)),
    (
        "known_tools: true",
        invocation(BOOK, call("inner", agent_name="sub"), tool_definitions=invocation(BOOK).tool_definitions),
    ),
    ("known_tools: true", invocation(BOOK, capture={"tool_definitions": Capture.TRUNCATED})),
    ("max_repeated_tool_calls: 2", invocation(BOOK, FIND, BOOK)),
    ("final_response_present: true", invocation()),
    ("final_response_schema: {type: object, required: [id]}", invocation(final_response='```json\n{"id": 1}\n```')),
    ("required_text: BOOKED", invocation()),
    ("forbidden_text: [sorry, cannot]", invocation()),
    (r"required_regex: '\d\d:\d\d'", invocation()),
    ("forbidden_regex: '(?i)as an ai'", invocation()),
    ("no_error: true", invocation()),
    ("max_latency: 2s", invocation()),
    ("max_tokens: 120", invocation()),
    ("max_cost: {usd: 0.0002, input_per_million: 1, output_per_million: 5}", invocation()),
    ("max_tool_calls: 2", invocation(FIND, BOOK)),
    ("max_tool_calls: 0", invocation()),
    ("max_model_calls: 2", invocation()),
]

FAILS: list[tuple[str, Invocation]] = [
    ("tool_called: [find_table, book_table]", invocation(BOOK)),
    ("tool_called: book_table", invocation()),
    ("tool_not_called: book_table", invocation(BOOK)),
    ("tool_order: {calls: [find_table, book_table]}", invocation(BOOK, FIND)),
    ("tool_order: {mode: exact, calls: [find_table, book_table]}", invocation(FIND, call("note"), BOOK)),
    ("tool_order: {calls: [{tool: book_table, arguments: {party_size: 5}}]}", invocation(BOOK)),
    ("tool_arguments: {tool: book_table, schema: {properties: {party_size: {maximum: 3}}}}", invocation(BOOK)),
    ("tool_arguments: {tool: book_table, schema: {type: object}}", invocation(call("book_table", "party of {4"))),
    ("tool_arguments: {tool: find_table, schema: {properties: {day: {pattern: '^M'}}}}", invocation(FIND)),
    ("no_tool_errors: true", invocation(FIND, call("book_table", error="full"))),
    ("known_tools: true", invocation(BOOK, tool_definitions=invocation(FIND).tool_definitions)),
    ("max_repeated_tool_calls: 1", invocation(BOOK, FIND, call("book_table", {"party_size": 4.0}))),
    ("final_response_present: true", invocation(final_response=None, error="the model's server answered 500")),
    ("final_response_present: true", invocation(final_response="  \n")),
    ("final_response_schema: {type: object}", invocation()),
    ("final_response_schema: {type: object}", invocation(final_response="[1]")),
    ("required_text: [booked, unbooked]", invocation()),
    ("forbidden_text: TABLE", invocation()),
    (r"required_regex: '^\d'", invocation()),
    (r"forbidden_regex: ['x', 'tw[o0]']", invocation()),
    ("no_error: true", invocation(error="boom")),
    ("max_latency: 1999ms", invocation()),
    ("max_tokens: 119", invocation()),
    ("max_cost: {usd: 0.00019, input_per_million: 1, output_per_million: 5}", invocation()),
    ("max_tool_calls: 1", invocation(FIND, BOOK)),
    ("max_model_calls: 1", invocation()),
]

NOT_APPLICABLE: list[tuple[str, Invocation]] = [
    ("tool_arguments: {tool: book_table, schema: {type: object}}", invocation(FIND)),
    ("no_tool_errors: true", invocation()),
    ("known_tools: true", invocation()),
    ("known_tools: true", invocation(call("inner", agent_name="sub"))),
    ("max_repeated_tool_calls: 2", invocation()),
]

UNJUDGEABLE: list[tuple[str, Invocation, str]] = [
    ("no_tool_errors: true", invocation(missing=("tool_calls",)), "missing:tool_calls"),
    ("max_tool_calls: 3", invocation(missing=("tool_calls",)), "missing:tool_calls"),
    ("tool_not_called: x", invocation(missing=("tool_calls",)), "missing:tool_calls"),
    ("known_tools: true", invocation(BOOK, tool_definitions=()), "missing:tool_definitions"),
    (
        "known_tools: true",
        invocation(BOOK, tool_definitions=invocation(FIND).tool_definitions, capture={"tool_definitions": Capture.TRUNCATED}),
        "truncated",
    ),
    ("final_response_present: true", invocation(final_response=None), "no_answer"),
    (
        "final_response_present: true",
        invocation(final_response=None, user_input=None, missing=("user_input", "final_response")),
        "missing:final_response",
    ),
    ("required_text: x", invocation(capture={"final_response": Capture.REDACTED}), "redacted"),
    ("required_text: x", invocation(capture={"final_response": Capture.TRUNCATED}), "truncated"),
    ("required_text: x", invocation(final_response=None, capture={"final_response": Capture.NOT_CAPTURED}), "missing:final_response"),
    ("forbidden_text: x", invocation(final_response=None), "no_answer"),
    ("max_tokens: 5", invocation(output_tokens=None), "missing:output_tokens"),
    ("max_model_calls: 5", invocation(model_calls=0, missing=("model_calls",)), "missing:model_calls"),
    (
        "tool_arguments: {tool: book_table, schema: {type: object}}",
        invocation(BOOK, capture={"tool_calls[0].arguments": Capture.REDACTED}),
        "redacted",
    ),
    (
        "max_repeated_tool_calls: 1",
        invocation(BOOK, BOOK, capture={f"tool_calls[{i}].arguments": Capture.NOT_CAPTURED for i in (0, 1)}),
        "missing:tool_calls.arguments",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("expect", "item"), PASSES)
def test_expectations_that_hold(expect: str, item: Invocation) -> None:
    """Each expectation passes an invocation that keeps it."""
    result = judged(expect, item)
    assert (result.outcome, result.score, result.threshold) == (Outcome.PASS, 1.0, 1.0), result


@pytest.mark.parametrize(("expect", "item"), FAILS)
def test_expectations_that_fail(expect: str, item: Invocation) -> None:
    """Each expectation fails an invocation that breaks it, and says so."""
    result = judged(expect, item)
    assert (result.outcome, result.score) == (Outcome.FAIL, 0.0), result
    assert result.explanation


@pytest.mark.parametrize(("expect", "item"), NOT_APPLICABLE)
def test_expectations_that_do_not_apply(expect: str, item: Invocation) -> None:
    """What cannot apply is not applicable: it is no pass, and leaves the denominator."""
    result = judged(expect, item)
    assert (result.outcome, result.score) == (Outcome.NOT_APPLICABLE, None)


@pytest.mark.parametrize(("expect", "item", "reason"), UNJUDGEABLE)
def test_what_the_telemetry_cannot_tell(expect: str, item: Invocation, reason: str) -> None:
    """An invocation lacking what the expectation looks at is unjudgeable with the field, never a fail."""
    result = judged(expect, item)
    assert (result.outcome, result.unjudgeable_reason) == (Outcome.UNJUDGEABLE, reason)


def test_several_expectations() -> None:
    """All that apply must hold; each is a criterion; what does not apply leaves the score."""
    result = judged("no_tool_errors: true, max_latency: 5s, required_text: nowhere", invocation())
    assert (result.outcome, result.score) == (Outcome.FAIL, 0.5)
    assert {item.id: item.score for item in result.criteria} == {
        "no_tool_errors": None,
        "required_text": 0.0,
        "max_latency": 1.0,
    }
    assert "nowhere" in result.explanation


def test_one_certain_failure_decides_over_what_cannot_be_told() -> None:
    """A broken expectation fails although another cannot be told; without it the invocation is unjudgeable."""
    blind = invocation(missing=("tool_calls",), error="boom")
    assert judged("no_error: true, no_tool_errors: true", blind).outcome is Outcome.FAIL
    assert judged("max_latency: 5s, no_tool_errors: true", blind).outcome is Outcome.UNJUDGEABLE


def test_requires_is_checked_first() -> None:
    """A rubric's `requires` makes the invocation unjudgeable before anything is looked at."""
    made = rubric("{name: x, kind: check, requires: [system_instructions], expect: {no_error: true}}")
    result = made.behaviour.judge(made.spec, invocation())  # type: ignore[attr-defined]
    assert result.unjudgeable_reason == "missing:system_instructions"


MODES = {"exact_match": "exact", "in_order_match": "in_order", "any_order_match": "any_order"}


@pytest.mark.parametrize("vector", [f"az-{number}" for number in (129, 130, 131, 133, 134, 135)])
def test_trajectory_against_azure(shared: Path, vector: str) -> None:
    """Match, precision, recall and F1 are those of azure-ai-evaluation's task navigation."""
    item = {v["id"]: v for v in json.loads((shared / "vectors" / "evaluators.json").read_text())}[vector]
    given, expected = item["input"], item["expected"]
    found = match(
        MODES[given["mode"]],
        [call(name) for name in given["calls"]],
        [ExpectedCall(name) for name in given["ground_truth"]],
    )
    assert found.held == (expected["result"] == "pass")
    figures = (expected["precision_score"], expected["recall_score"], expected["f1_score"])
    assert (found.precision, found.recall, found.f1) == pytest.approx(figures)


@pytest.mark.parametrize("vector", [f"adk-0{number}" for number in (91, 93, 94, 95, 96, 98, 99)])
def test_trajectory_against_adk(shared: Path, vector: str) -> None:
    """Match with and without arguments is google-adk's."""
    item = {v["id"]: v for v in json.loads((shared / "vectors" / "evaluators.json").read_text())}[vector]
    given = item["input"]

    def expected(text: str) -> ExpectedCall:
        name, _, argument = text.partition(":")
        return ExpectedCall(name, None if given["ignore_args"] or not argument else {"n": argument})

    calls = [call(text.partition(":")[0], {"n": text.partition(":")[2]}) for text in given["actual"]]
    found = match(given["match_type"].lower(), calls, [expected(text) for text in given["expected_calls"]])
    assert found.held == (item["expected"]["status"] == "PASSED")


def test_tool_order_shows_its_figures() -> None:
    """Precision, recall and F1 are in the details of the judgement."""
    result = judged("tool_order: {calls: [a, b]}", invocation(call("a"), call("x"), call("b")))
    assert result.details["tool_order"] == {"precision": pytest.approx(2 / 3), "recall": 1.0, "f1": pytest.approx(0.8)}


def test_a_schema_cannot_fetch_or_run_away() -> None:
    """A pattern in a schema is matched in linear time on text written against it."""
    expect = "tool_arguments: {tool: t, schema: {properties: {a: {pattern: '^(a+)+$'}}}}"
    result = judged(expect, invocation(call("t", {"a": "a" * 50_000 + "!"})))
    assert result.outcome is Outcome.FAIL


def test_latency_is_measured_in_nanoseconds() -> None:
    """The bound is inclusive and exact for whole milliseconds."""
    item = invocation(ended_at=invocation().started_at + 1_500 * SECOND // 1000)
    assert judged("max_latency: 1500ms", item).outcome is Outcome.PASS
    assert judged("max_latency: 1499ms", item).outcome is Outcome.FAIL


def test_no_content_in_reasons() -> None:
    """Reasons are names of fields: no argument, result or answer is in them."""
    result: Any = judged("required_text: x", invocation(final_response=None))
    assert result.unjudgeable_reason == "no_answer"
