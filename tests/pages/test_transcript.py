"""An invocation as a conversation."""

from __future__ import annotations

import pytest

from monitor.model.conversation import conversation
from monitor.model.invocation import Capture, Completeness, Message, SettledBy, ToolCall, ToolStatus
from monitor.server.pages.rendering import percent
from monitor.server.pages.transcript import texts, turns
from tests.contracts.store_material import invocation


def test_the_order() -> None:
    """Instructions, what was said before, the request, the calls in their order, and the answer; every text has its path."""
    history = (
        Message("user", ({"type": "text", "content": "Hello"},)),
        Message("assistant", ({"type": "tool_call", "id": "1", "name": "look_up", "arguments": {"n": 1}},)),
        Message("tool", ({"type": "tool_call_response", "id": "1", "response": "found"},)),
        Message("assistant", ({"type": "reasoning", "content": "hm"}, {"type": "text", "content": "Hi"})),
        Message("critic", ()),
    )
    found = turns(invocation(history=history))
    assert [(turn.kind, turn.title) for turn in found] == [
        ("system", "Instructions"), ("user", "User"), ("assistant", "Agent"), ("tool", "Tool"), ("assistant", "Agent"),
        ("assistant", "critic"), ("user", "User"), ("tool", "find_table"), ("tool", "book_table"), ("tool", "book_table"),
        ("assistant", "restaurant-bot"),
    ]  # fmt: skip
    assert [(block.label, block.text) for turn in found[2:5] for block in turn.blocks] == [
        ("calls look_up", '{"n": 1}'), ("result", "found"), ("reasoning", '{"content": "hm"}'), ("", "Hi"),
    ]  # fmt: skip
    paths = texts(found)
    assert paths["tool_calls[0].result"] == "null"
    assert paths["tool_calls[1].arguments"] == "{broken"
    assert paths["history[0].parts[0]"] == "Hello"


def test_what_is_missing() -> None:
    """A value that is not there says why; a run that failed has no answer to miss."""
    capture = {"final_response": Capture.TRUNCATED, "tool_calls[0].result": Capture.REFERENCED}
    done = Completeness(SettledBy.IDLE, ("user_input",), capture)
    calls = (ToolCall("look_up", status=ToolStatus.PENDING),)
    one = invocation(user_input=None, final_response="half", tool_calls=calls, completeness=done, history=())
    gaps = {block.path: block.gap for turn in turns(one) for block in turn.blocks}
    assert gaps == {
        "system_instructions": None,
        "user_input": "not in the telemetry",
        "tool_calls[0].arguments": "not in the telemetry",
        "tool_calls[0].result": "stored elsewhere, only a reference was sent",
        "final_response": "truncated by the sender",
    }
    failed = turns(invocation(final_response=None, error="out of memory"))
    assert [turn.kind for turn in failed][-1] == "error"
    assert turns(invocation(final_response=None))[-1].blocks[0].gap == "not in the telemetry"


@pytest.mark.parametrize(
    ("share", "digits", "text"),
    [
        (0.942, 1, "94.2 %"),
        (1.0, 1, "100 %"),
        (0.99996, 1, "> 99.9 %"),
        (0.0, 1, "0 %"),
        (0.0004, 0, "< 1 %"),
        (0.5, 0, "50 %"),
    ],
)
def test_shares(share: float, digits: int, text: str) -> None:
    """What is nearly all is not shown as 100 %, and what is something not as 0 %."""
    assert percent(share, digits) == text


def test_a_conversation_turn_by_turn() -> None:
    """Each turn begins with its number and leads to its invocation; instructions stand where they change, paths name the turn."""
    one, two = invocation("a"), invocation("b", system_instructions="Be brief.", user_input="And now?")
    found = turns(conversation((one, one, two), "conversation:c"))
    starts = [(turn.title, turn.invocation_id) for turn in found if turn.kind == "turn"]
    assert starts == [("Turn 1 of 3", one.id), ("Turn 2 of 3", one.id), ("Turn 3 of 3", two.id)]
    assert [turn.kind for turn in found].count("system") == 2
    assert sum(turn.earlier for turn in found) == 1
    paths = texts(found)
    assert paths["turns[2].user_input"] == "And now?"
    assert paths["turns[0].tool_calls[1].arguments"] == "{broken"
    gaps = {block.path for turn in found for block in turn.blocks if block.gap}
    assert {f"turns[{place}].tool_calls[2].arguments" for place in range(3)} < gaps
