"""Claims: the cut into sentences, labels, and the share that is supported."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.clock import ManualClock
from monitor.judging.clients.scripted import ScriptedClient
from monitor.judging.judge import Judge
from monitor.model.invocation import Capture
from monitor.model.verdict import ErrorType, Judgement, Outcome
from monitor.resources import config_folder
from monitor.rubrics.kinds.sentences import sentences
from monitor.rubrics.library import RubricLibrary
from monitor.settings.tree import JudgeSettings
from tests.support.judging import call, invocation, rubric

CLAIMS = rubric("{name: facts, kind: claims, threshold: 0.5}")
ANSWER = "Your table is booked. It costs 20 EUR. Anything else that I can do?"


async def judged(
    reply: Any, answer: str | None = ANSWER, by: Any = CLAIMS, **other: Any
) -> tuple[Judgement, ScriptedClient]:
    client = ScriptedClient([reply if isinstance(reply, str) else json.dumps({"sentences": reply})])
    judge = Judge("default", JudgeSettings(model="m"), client, ManualClock())
    return await judge.evaluate(by, invocation(call("book"), final_response=answer, **other)), client


def labels(*words: str) -> dict[str, Any]:
    return {f"s{i}": {"evidence": [], "reasoning": f"r{i}", "verdict": word} for i, word in enumerate(words, start=1)}


async def test_share_of_supported_sentences() -> None:
    """Sentences with a claim count, those without leave the denominator; the explanation names what is not supported and how."""
    result, client = await judged(labels("supported", "contradicted", "not_applicable"))
    assert (result.outcome, result.score) == (Outcome.PASS, 0.5)
    assert [(item.id, item.score) for item in result.criteria] == [("s1", 1.0), ("s2", 0.0), ("s3", None)]
    assert "s2 contradicted: r2" in result.explanation
    asked = client.requests[0]
    assert list(asked.schema["properties"]["sentences"]["properties"]) == ["s1", "s2", "s3"]
    assert "It costs 20 EUR." not in asked.messages[0].content
    assert "piece s2 ===\nIt costs 20 EUR." in asked.messages[1].content


async def test_a_sentence_left_out() -> None:
    """A judge that leaves a sentence out has not answered, however good the rest (google-adk does not notice)."""
    result, _ = await judged(labels("supported", "supported"))
    assert result.failure is not None
    assert result.failure.type is ErrorType.INCOMPLETE_ANSWER


async def test_labels() -> None:
    """Only the labels count, in any case; google-adk's words for them are known, others are no answer."""
    result, _ = await judged(labels("Supported", "DISPUTED", "contradictory"))
    assert result.score == pytest.approx(1 / 3)
    result, _ = await judged(labels("supported", "mostly supported", "supported"))
    assert result.failure is not None


async def test_nothing_claimed() -> None:
    """An answer without a claim is not applicable."""
    result, _ = await judged(labels("not_applicable", "not_applicable"), "Hello! How can I help you?")
    assert result.outcome is Outcome.NOT_APPLICABLE


async def test_needs() -> None:
    """Without an answer, or where results were not recorded, nothing is asked."""
    for other, reason in (
        ({"answer": None}, "no_answer"),
        ({"capture": {"tool_calls[0].result": Capture.TRUNCATED}}, "truncated"),
    ):
        result, client = await judged(labels("supported"), **{"answer": ANSWER, **other})
        assert (result.outcome, result.unjudgeable_reason) == (Outcome.UNJUDGEABLE, reason)
        assert client.requests == []


async def test_the_shipped_rubric() -> None:
    """`claims_supported` fails an answer with one made-up sentence of three, and its labelled text form is read, too."""
    shipped = RubricLibrary.shipped(config_folder() / "rubrics").get("claims_supported")
    text = "\n\n".join(
        f"ID: s{i}\nReasoning: r\nVerdict: {word}"
        for i, word in enumerate(("supported", "unsupported", "supported"), 1)
    )
    result, _ = await judged(text, by=shipped)
    assert (result.outcome, result.score) == (Outcome.FAIL, pytest.approx(2 / 3))


@pytest.mark.parametrize(
    ("answer", "pieces"),
    [
        ("One is here. Two are here! Are three here?", ["One is here.", "Two are here!", "Are three here?"]),
        ("Dr. Moss is in at 9 a.m. today. He has time.", ["Dr. Moss is in at 9 a.m. today.", "He has time."]),
        ("It is 3.5 km away, e.g. by tram.\n\n- Line 4 goes there\n- Line 5 does not", ["It is 3.5 km away, e.g. by tram.", "- Line 4 goes there", "- Line 5 does not"]),
        ("テーブルを予約しました。料金は二十ユーロです。", ["テーブルを予約しました。", "料金は二十ユーロです。"]),
        ("He said \"no refund is possible.\" That was it, I fear.", ["He said \"no refund is possible.\"", "That was it, I fear."]),
        ("Yes.", ["Yes."]),
        ("", []),
        ("  \n ", []),
    ],
)  # fmt: skip
def test_sentences(answer: str, pieces: list[str]) -> None:
    """Sentences end at closing marks and line breaks, not at abbreviations and decimal points."""
    assert list(sentences(answer, 50)) == pieces


@given(st.text(), st.integers(1, 50))
def test_nothing_is_lost(answer: str, most: int) -> None:
    """Whatever the text, every character but blanks is in exactly one piece, in order, and there are not too many pieces."""
    pieces = sentences(answer, most)
    assert "".join("".join(pieces).split()) == "".join(answer.split())
    assert len(pieces) <= most
