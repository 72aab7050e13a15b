"""Conversations for tests of judging and of pages."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from monitor.model.conversation import conversation
from monitor.model.invocation import Invocation, ToolCall
from tests.support.judging import SECOND, invocation


def turn(place: int, user_input: str, answer: str | None, *calls: ToolCall, **other: Any) -> Invocation:
    """The invocation in that place of a conversation; a turn begins ten minutes after the one before it and takes two seconds."""
    start = (1_700_000_000 + 600 * place) * SECOND
    one = invocation(*calls, user_input=user_input, final_response=answer, conversation_id="c", **other)
    trace = f"{place + 1:032x}"
    made = replace(one, id=f"{trace}-{'b' * 16}", trace_id=trace, started_at=start, ended_at=start + 2 * SECOND)
    return replace(made, **{key: value for key, value in other.items() if key in ("started_at", "ended_at")})


def talk(*turns: Invocation, **other: Any) -> Invocation:
    """The conversation of turns."""
    return replace(conversation(turns, "conversation:c"), **other) if other else conversation(turns, "conversation:c")
