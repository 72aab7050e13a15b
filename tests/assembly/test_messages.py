"""One exchange in the message shapes of every provider and framework: the same normal form comes out."""

from __future__ import annotations

import json
from typing import Any

import pytest

from monitor.assembly.messages import fingerprint, messages_of, read_messages
from monitor.model.invocation import Capture, Message

ARGUMENTS = {"city": "Oslo"}
TEXT = json.dumps(ARGUMENTS)

EXCHANGE = (
    Message("user", ({"type": "text", "content": "Weather?"},)),
    Message("assistant", ({"type": "tool_call", "id": "c1", "name": "look", "arguments": ARGUMENTS},)),
    Message("tool", ({"type": "tool_call_response", "id": "c1", "response": "rain"},)),
    Message("assistant", ({"type": "text", "content": "Rain."},)),
)

SHAPES: dict[str, list[Any]] = {
    "gen_ai_parts": [
        {"role": "user", "parts": [{"type": "text", "content": "Weather?"}]},
        {"role": "assistant", "parts": [{"type": "tool_call", "id": "c1", "name": "look", "arguments": ARGUMENTS}]},
        {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "response": "rain"}]},
        {"role": "assistant", "parts": [{"type": "text", "content": "Rain."}], "finish_reason": "stop"},
    ],
    "openai_chat": [
        {"role": "user", "content": "Weather?"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "look", "arguments": TEXT}}],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "rain"},
        {"role": "assistant", "content": "Rain."},
    ],
    "openai_responses": [
        {"role": "user", "content": [{"type": "input_text", "text": "Weather?"}]},
        {"type": "function_call", "call_id": "c1", "id": "fc_1", "name": "look", "arguments": TEXT},
        {"type": "function_call_output", "call_id": "c1", "output": "rain"},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Rain."}]},
    ],
    "anthropic": [
        {"role": "user", "content": "Weather?"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "look", "input": ARGUMENTS}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "rain"}]},
        {"role": "assistant", "content": [{"type": "text", "text": "Rain."}]},
    ],
    "gemini": [
        {"role": "user", "parts": [{"text": "Weather?"}]},
        {"role": "model", "parts": [{"function_call": {"id": "c1", "name": "look", "args": ARGUMENTS}}]},
        {"role": "user", "parts": [{"function_response": {"id": "c1", "name": "look", "response": "rain"}}]},
        {"role": "model", "parts": [{"text": "Rain."}]},
    ],
    "bedrock": [
        {"role": "user", "content": [{"text": "Weather?"}]},
        {"role": "assistant", "content": [{"toolUse": {"toolUseId": "c1", "name": "look", "input": ARGUMENTS}}]},
        {"role": "user", "content": [{"toolResult": {"toolUseId": "c1", "content": [{"text": "rain"}]}}]},
        {"role": "assistant", "content": [{"text": "Rain."}]},
    ],
    "langchain_serialised": [
        {"lc": 1, "type": "constructor", "id": ["langchain", "HumanMessage"], "kwargs": {"content": "Weather?"}},
        {
            "lc": 1,
            "type": "constructor",
            "id": ["langchain", "AIMessage"],
            "kwargs": {"content": "", "tool_calls": [{"name": "look", "args": ARGUMENTS, "id": "c1"}]},
        },
        {
            "lc": 1,
            "type": "constructor",
            "id": ["langchain", "ToolMessage"],
            "kwargs": {"content": "rain", "tool_call_id": "c1"},
        },
        {"lc": 1, "type": "constructor", "id": ["langchain", "AIMessage"], "kwargs": {"content": "Rain."}},
    ],
    "langchain_types": [
        {"type": "human", "content": "Weather?"},
        {"type": "ai", "content": "", "tool_calls": [{"name": "look", "args": ARGUMENTS, "id": "c1"}]},
        {"type": "tool", "content": "rain", "tool_call_id": "c1"},
        {"type": "ai", "content": "Rain."},
    ],
    "vercel": [
        {"role": "user", "content": [{"type": "text", "text": "Weather?"}]},
        {
            "role": "assistant",
            "content": [{"type": "tool-call", "toolCallId": "c1", "toolName": "look", "input": ARGUMENTS}],
        },
        {
            "role": "tool",
            "content": [
                {
                    "type": "tool-result",
                    "toolCallId": "c1",
                    "toolName": "look",
                    "output": {"type": "text", "value": "rain"},
                }
            ],
        },
        {"role": "assistant", "content": [{"type": "text", "text": "Rain."}]},
    ],
}


def _bare(messages: tuple[Message, ...]) -> list[Any]:
    """Roles and parts without the tool's name beside its answer, which only some shapes carry."""
    return [
        (
            one.role,
            [
                {
                    key: value
                    for key, value in part.items()
                    if not (key == "name" and part["type"] == "tool_call_response")
                }
                for part in one.parts
            ],
        )
        for one in messages
    ]


@pytest.mark.parametrize("encoded", [lambda value: value, json.dumps, repr], ids=["structure", "json", "repr"])
@pytest.mark.parametrize("shape", SHAPES)
def test_shapes(shape: str, encoded: Any) -> None:
    """A question, a tool call, its answer and the final text read the same in every shape and encoding."""
    assert _bare(messages_of(encoded(SHAPES[shape]), "user")) == _bare(EXCHANGE)


def test_fingerprints_do_not_depend_on_the_shape() -> None:
    """The history of one dialect is known again in the messages of another, system messages aside."""
    prints = {fingerprint(messages_of(shape, "user")) for shape in SHAPES.values()}
    system = messages_of([{"role": "system", "content": "Be brief."}, *SHAPES["openai_chat"]], "user")
    assert prints | {fingerprint(system)} == {fingerprint(EXCHANGE)}


def test_why_messages_lack() -> None:
    """Redacted, cut and emptied messages are told apart, and none of them is content."""
    assert read_messages("__REDACTED__", "user") == ((), Capture.REDACTED)
    assert read_messages('[{"role": "user", "content": "We', "user") == ((), Capture.TRUNCATED)
    hidden, reason = read_messages([{"role": "user", "parts": [{"type": "text", "content": "<redacted>"}]}], "user")
    assert reason is Capture.REDACTED and "redacted>" not in str(hidden)
    assert read_messages([{"role": "assistant", "parts": [{"type": "text"}]}], "user")[1] is Capture.NOT_CAPTURED
