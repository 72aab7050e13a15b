"""Histories that grow from call to call are read once, and say the same as lists that are read anew."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from monitor.assembly.conventions.openinference import flat_messages
from monitor.assembly.messages import messages_of
from monitor.assembly.record import Record
from monitor.assembly.told import Told
from monitor.assembly.turns import goes_on
from tests.assembly.building import answer, call, span, text

ITEMS: tuple[Any, ...] = (
    text("system", "Be brief. " * 20), text("user", "q " * 40), call("c1", "find", {"x": [1, {"y": None}]}), answer("c1", {"n": 1.5}),
    {"role": "tool", "parts": [{"type": "text", "content": "bare"}]}, {"role": "user", "parts": [{"type": "tool_call_response", "id": "c", "result": "r"}, {"type": "text", "content": "and"}]},
    {"role": "assistant", "content": "plain", "tool_calls": [{"id": "c2", "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
    {"role": "assistant", "parts": [{"type": "text", "content": "__REDACTED__"}], "finish_reason": "stop"}, {"role": "strange", "content": [{"text": "x"}]},
    {"role": "user", "parts": ["loose", {"type": "text", "text": "other key"}]}, {"role": "system", "parts": []}, {"role": "user", "parts": [{"type": ["odd"]}]},
    {"role": None, "content": "no role"}, {"role": "assistant", "parts": [{"type": "text", "content": "\ud83c half"}]},
)  # fmt: skip


@pytest.mark.parametrize("seed", range(30))
def test_a_growing_list_says_what_it_says_when_read_anew(seed: int) -> None:
    """Lists that go on from each other, branch, or are cut short, in any order and spacing: the same messages as without a memory."""
    chance = random.Random(seed)
    told, items = Told(), [chance.choice(ITEMS) for _ in range(8)]
    for _ in range(12):
        given = items[: chance.randrange(1, 9)] + [chance.choice(ITEMS) for _ in range(chance.randrange(2))]
        written = json.dumps(given, indent=chance.choice((None, None, 1)), ensure_ascii=chance.random() < 0.5)
        found = told.messages(written, "user")
        assert found is None or found == messages_of(written, "user")
        assert found is not None or len(written) < 256


def test_what_two_lists_have_in_common_is_the_same_object() -> None:
    """The history of a later call is known by identity; a list that differs before its end is another list."""
    told = Told()
    first = told.messages(json.dumps(list(ITEMS[:3])), "user")
    second = told.messages(json.dumps(list(ITEMS[:4])), "user")
    other = told.messages(json.dumps([ITEMS[1], *ITEMS[1:4]]), "user")
    assert first is not None and second is not None and other is not None
    assert goes_on(first, second)
    assert not goes_on(first, other)


def test_flattened_lists_share_what_they_have_in_common() -> None:
    """The same holds for messages that are flattened into attributes; what follows another history is not the same message."""
    told = Told()

    def flat(*said: tuple[str, str]) -> Any:
        keys = {f"llm.input_messages.{n}.message.{key}": value for n, pair in enumerate(said) for key, value in zip(("role", "content"), pair, strict=True)}  # fmt: skip
        return flat_messages(Record(span(1, attributes=keys), told=told), "llm.input_messages")

    first, second = flat(("user", "q")), flat(("user", "q"), ("assistant", "a"))
    other = flat(("user", "p"), ("assistant", "a"))
    assert goes_on(first, second)
    assert second[1] == other[1]
    assert second[1] is not other[1]
    assert [message.role for message in second] == ["user", "assistant"]
