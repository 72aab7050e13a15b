"""Faults of other programs, told in public reports: each input gives the answer that the report asks for."""

from __future__ import annotations

from pathlib import Path

from monitor.model.invocation import Invocation, ToolStatus
from tests.assembly.recordings import reconstruct


def one(shared: Path, *names: str) -> Invocation:
    """The one invocation of the files of a case."""
    files = [shared / "cases" / "public-reports" / f"{name}.otlp.json" for name in names]
    found = reconstruct(files)
    assert len(found) == 1
    return found[0].invocation


def test_escaped_and_double_encoded_text(shared: Path) -> None:
    """JSON text, escaped and once more encoded, becomes the words that were said."""
    run = one(shared, "escaped-and-double-encoded-text")
    assert run.user_input == "Где ближайший паром? 🛳️"
    assert run.final_response == "Причал №4, в 19:30."


def test_tool_arguments_that_are_no_object(shared: Path) -> None:
    """Lists, null, plain text and nothing are arguments too; null and the empty text are results."""
    calls = one(shared, "tool-arguments-that-are-no-object").tool_calls
    assert [call.arguments for call in calls] == [[1, 2, 3], None, "warp=12 weft=9", None]
    assert [call.result for call in calls] == ["ok", None, "done, no JSON", ""]
    assert all(call.result_known for call in calls)
    assert {call.status for call in calls} == {ToolStatus.OK}


def test_structured_tool_results(shared: Path) -> None:
    """A result stays a structure, whether an attribute or only a message holds it; an empty one is a result."""
    first, second = one(shared, "structured-tool-results").tool_calls
    assert (first.id, first.result) == ("call_s1", {"items": ["rice", {"lemon": 2}], "checked": True, "weight": 0.25})
    assert (second.id, second.result) == ("call_s2", {"items": [], "checked": False})
    assert second.arguments == {"shelf": 2}


def test_a_turn_without_content(shared: Path) -> None:
    """A turn without any output is an invocation without an answer."""
    run = one(shared, "a-turn-without-content")
    assert run.final_response is None
    assert run.tool_calls == ()
    assert run.model_calls == 1
    assert "final_response" in run.completeness.missing


def test_only_the_last_piece_of_a_stream(shared: Path) -> None:
    """Pieces of calls join the tool spans by id: two calls with the spans' arguments."""
    calls = one(shared, "only-the-last-piece-of-a-stream").tool_calls
    assert [(call.name, call.arguments) for call in calls] == [
        ("weather", {"city": "Turku"}),
        ("weather", {"city": "Tampere"}),
    ]


def test_answer_only_in_the_model_spans(shared: Path) -> None:
    """Where agent and workflow spans have no messages, the first and the last model call tell input and output."""
    run = one(shared, "answer-only-in-the-model-spans")
    assert run.user_input == "A book on moss for a child?"
    assert run.final_response == "Try Small green things."
    assert run.system_instructions == "You are a librarian."
    assert [call.name for call in run.tool_calls] == ["find"]


def test_two_versions_of_one_span(shared: Path) -> None:
    """Of an open and a finished copy the finished one counts, in either order."""
    names = [f"two-versions-of-one-span.{n}" for n in (1, 2)]
    for order in (names, names[::-1]):
        run = one(shared, *order)
        assert run.final_response == "Ready on Friday at 7."
        assert run.ended_at - run.started_at == 4_000_000_000


def test_same_batch_twice(shared: Path) -> None:
    """A request that was sent again adds only what is new."""
    names = [f"same-batch-twice.{n}" for n in (1, 2)]
    for order in (names, names[::-1]):
        assert [call.name for call in one(shared, *order).tool_calls] == ["rate"]


def test_half_a_surrogate_pair(shared: Path) -> None:
    """Half a surrogate pair becomes U+FFFD; all text can be written as UTF-8."""
    found = reconstruct([shared / "cases" / "public-reports" / "half-a-surrogate-pair.otlp.json"])
    assert len(found) == 2
    for made in found:
        assert made.invocation.final_response is not None
        made.invocation.final_response.encode()
