"""Messages in the GenAI conventions' own shape, the most frequent by far, read without asking what else they could be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from monitor.assembly.parts import part_of, text_part
from monitor.model.invocation import Message, Part

_ROLES = frozenset({"system", "user", "assistant", "tool"})
_SPEAKERS = frozenset({"system", "user", "assistant"})
_KEYS = frozenset({"role", "parts", "finish_reason"})


def regular_message(item: Mapping[str, Any]) -> Message | None:
    """The message where it has a plain role, parts and nothing that could change their meaning; None for the general way."""
    role, parts = item.get("role"), item.get("parts")
    if not isinstance(parts, list) or not isinstance(role, str) or role not in _ROLES or not item.keys() <= _KEYS:
        return None
    made: list[Part] = []
    answers = 0
    for part in parts:
        if not isinstance(part, dict):
            return None
        text = part.get("content")
        if isinstance(text, str) and part.get("type") == "text" and "parts" not in part:
            made.append(text_part(text))
            continue
        known = part_of(part)
        answers += known["type"] == "tool_call_response"
        made.append(known)
    if answers and answers == len(made) and role != "system":
        return Message("tool", tuple(made))
    return Message(role, tuple(made)) if not answers and role != "tool" else None


def plain_message(role: Any, content: Any) -> Message | None:
    """The message of a plain role and a text, as `{"role": …, "content": …}` is read; None for the general way."""
    if not isinstance(content, str) or not isinstance(role, str) or role not in _SPEAKERS or "[{" in content[:64]:
        return None
    return Message(role, (text_part(content),) if content else ()) if content or role != "system" else None
