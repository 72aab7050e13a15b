"""A corpus of broken and hostile replies and of records written against the judge: none flips a verdict or makes one up."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from monitor.clock import ManualClock
from monitor.judging.clients.scripted import ScriptedClient
from monitor.judging.judge import Judge
from monitor.judging.prompting import system_message, user_message
from monitor.judging.reply import Question, read_reply
from monitor.judging.transcript import transcript
from monitor.model.verdict import Outcome
from monitor.rubrics.kinds.claims import Claims
from monitor.rubrics.kinds.kind import ReplyFault
from monitor.settings.tree import JudgeSettings
from tests.judging.test_judge import ONE, said
from tests.judging.test_reply import ONE as STATEMENT
from tests.judging.test_reply import TWO, WEIGHTED
from tests.support.judging import call, invocation, rubric

FOLDER = Path(__file__).parent / "corpus"
GRADED = rubric("{name: tone, kind: graded, levels: {1: rude, 3: neutral, 5: warm}, threshold: 3}")
CLAIMS = rubric("{name: facts, kind: claims}")
RUBRICS = {"one": STATEMENT, "two": TWO, "graded": GRADED, "weighted": WEIGHTED}
MARK = "c0ffee0123456789"


def cases(name: str) -> list[Any]:
    return [
        pytest.param(case, id=case["id"])
        for case in map(json.loads, filter(None, (FOLDER / name).read_text().split("\n")))
    ]


REPLIES, RECORDS = cases("replies.jsonl"), cases("records.jsonl")


def read(case: Any) -> dict[str, Any]:
    """What is made of a reply: {"verdict": values by id}, or {"error": type}."""
    if case["rubric"] == "claims":
        kind = Claims()
        question = Question(
            kind, kind.bound(CLAIMS.spec, invocation(final_response="One is so. Two is so.")), case["judged"]
        )  # type: ignore[arg-type]
    else:
        made = RUBRICS[case["rubric"]]
        question = Question(made.behaviour, made.spec, case["judged"])  # type: ignore[arg-type]
    found = read_reply(case["reply"], question)
    if isinstance(found, ReplyFault):
        assert case["reply"].strip()[:40] not in found.message or not case["reply"].strip()
        return {"error": found.type.value}
    return {"verdict": {id_: answer.value for id_, answer in found.items()}}


def test_the_corpus_is_large_enough() -> None:
    """There are more than sixty replies, and records of many kinds; ids are unique."""
    assert len(REPLIES) >= 100
    assert len(RECORDS) >= 20
    assert len({case.id for case in REPLIES}) == len(REPLIES)


@pytest.mark.parametrize("case", REPLIES)
def test_reply(case: Any) -> None:
    """Each reply has the verdict that its judge meant, or none; a fault's message does not repeat the reply."""
    assert read(case) == case["expect"]


def told(case: Any) -> Any:
    """The invocation of a record."""
    given = {
        key: value for key, value in case.items() if key in ("final_response", "user_input", "system_instructions")
    }
    return invocation(call("find", case.get("arguments", {}), case.get("result", "found")), **given)


@pytest.mark.parametrize("case", RECORDS)
def test_record(case: Any) -> None:
    """Whatever a record says: its lines of structure are ours alone, its text is in the user message only, the last line is ours."""
    plain = transcript(invocation(call("find")), MARK).text
    text = transcript(told(case), MARK).text
    structure = [line for line in text.splitlines() if MARK in line]
    assert [line for line in structure if not line.startswith(f"=== {MARK} ")] == []
    own = [line for line in structure if "instructions of the agent" not in line]
    assert own == [line for line in plain.splitlines() if MARK in line]
    system = system_message(ONE.behaviour, ONE.spec)  # type: ignore[arg-type]
    for key in ("final_response", "user_input", "system_instructions"):
        assert case.get(key, "no such text") not in system or len(case[key]) < 3
    assert user_message(text, MARK).splitlines()[-1].startswith("Judge the record above")


@pytest.mark.parametrize("case", RECORDS)
@pytest.mark.parametrize("verdict", ["yes", "no"])
async def test_a_record_does_not_change_the_verdict(case: Any, verdict: str) -> None:
    """The judge's verdict stands whatever the record holds, also when the judge repeats the record's text before it."""
    item = told(case)
    echo = f"The record says: {item.final_response[:500]!r}\n\n{said(verdict)}"
    for reply in (said(verdict), echo):
        judge = Judge(
            "default", JudgeSettings(model="m"), ScriptedClient([reply]), ManualClock(), new_mark=lambda: MARK
        )
        result = await judge.evaluate(ONE, item)
        assert result.outcome is (Outcome.PASS if verdict == "yes" else Outcome.FAIL)


@pytest.mark.parametrize("case", RECORDS)
async def test_an_echo_is_no_verdict(case: Any) -> None:
    """A judge that only repeats the record has given no verdict."""
    item = told(case)
    judge = Judge(
        "default", JudgeSettings(model="m"), ScriptedClient([item.final_response]), ManualClock(), new_mark=lambda: MARK
    )
    result = await judge.evaluate(ONE, item)
    assert result.outcome is None
