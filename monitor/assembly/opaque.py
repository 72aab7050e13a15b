"""Opaque inputs and outputs (`input.value`, `traceloop.entity.input`, `gen_ai.prompt` …): messages, or the text inside."""

from __future__ import annotations

import json
from typing import Any

from monitor.assembly.messages import lacking, messages_of
from monitor.assembly.values import decode, looks_cut, plain, withheld
from monitor.model.invocation import Capture, Message

MAX_UNWRAPPING = 3

_INPUT_KEYS = (
    "input",
    "query",
    "question",
    "prompt",
    "task",
    "message",
    "user_input",
    "text",
    "content",
    "inputs",
    "args",
)
_OUTPUT_KEYS = (
    "output",
    "answer",
    "final_answer",
    "result",
    "response",
    "final_output",
    "text",
    "content",
    "outputs",
    "raw",
)


def opaque_messages(value: Any, role: str) -> tuple[tuple[Message, ...], Capture | None]:
    """The messages of an opaque value, as `messages.read_messages`.

    A chat list is read as such; else the text under the usual keys; else the value's JSON as one text part flagged `unstructured`.
    """
    reason = withheld(value)
    if reason is not None:
        return (), reason
    decoded = decode(value)
    if looks_cut(decoded):
        return (), Capture.TRUNCATED
    if decoded is None or decoded in ("", {}, []):
        return (), Capture.NOT_CAPTURED
    found = _chat(decoded, role) or _text(decoded, role, 0)
    return found, lacking(found)


def _chat(value: Any, role: str) -> tuple[Message, ...]:
    """The messages where the value is a chat list or holds one."""
    if isinstance(value, str) or not isinstance(value, list | dict):
        return ()
    if isinstance(value, list) and not any(isinstance(item, dict | list) for item in value):
        return ()
    return messages_of(value, role)


def _text(value: Any, role: str, opened: int) -> tuple[Message, ...]:
    if isinstance(value, str):
        return (Message(role, ({"type": "text", "content": value},)),)
    if isinstance(value, dict) and opened < MAX_UNWRAPPING:
        for key in _INPUT_KEYS if role == "user" else _OUTPUT_KEYS:
            inner = decode(value.get(key))
            if isinstance(inner, str) and inner.strip():
                return _text(inner, role, opened + 1)
            if isinstance(inner, dict | list) and inner:
                return _chat(inner, role) or _text(inner, role, opened + 1)
    if isinstance(value, list) and len(value) == 1 and opened < MAX_UNWRAPPING:
        return _text(value[0], role, opened + 1)
    text = json.dumps(plain(value), ensure_ascii=False)
    return (Message(role, ({"type": "text", "content": text, "unstructured": True},)),)
