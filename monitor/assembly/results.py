"""A tool's answer without its wrapping: block lists, protocol envelopes and serialised tool messages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from monitor.assembly.literal import CLASS_KEY
from monitor.assembly.values import decode

Block = Mapping[str, Any]

TEXT_TYPES = frozenset({"text", "input_text", "output_text", "refusal", "summary_text", "plain_text"})


def result_value(value: Any) -> Any:
    """A tool's answer without its wrapping: block lists, MCP results and serialised tool messages become their text.

    Text stays text, also where it is JSON: that is what the model saw.
    """
    if isinstance(value, list | tuple):
        return _joined_blocks(value)
    if not isinstance(value, dict):
        return value
    for unwrap in (_tool_message, _mcp_result, _typed_output, _function_response):
        found = unwrap(value)
        if found is not None:
            return found[0]
    return value


def is_refusal(value: Any) -> bool:
    """Whether a tool's answer says that the call was not allowed (Vercel's `{"denied": true, "reason"}`, `execution-denied`)."""
    value = decode(value, 1) if isinstance(value, str) and value[:1] == "{" else value
    return isinstance(value, dict) and value.get("denied") is True and set(value) <= {"denied", "reason", "type"}


def _joined_blocks(blocks: list[Any] | tuple[Any, ...]) -> Any:
    """Blocks that are all text become that text; one `{"json": …}` block becomes its value; the rest stays a list."""
    if not blocks or not all(isinstance(block, dict) for block in blocks):
        return list(blocks)
    texts = [block_text(block) for block in blocks]
    if all(text is not None for text in texts):
        return "\n".join(text for text in texts if text is not None)
    if len(blocks) == 1 and set(blocks[0]) == {"json"}:
        return blocks[0]["json"]
    return list(blocks)


def block_text(block: Any) -> str | None:
    """The text of a text block without anything else in it, None for other blocks."""
    if not isinstance(block, dict):
        return block if isinstance(block, str) else None
    kind = block.get("type", "text")
    if not isinstance(kind, str) or kind not in TEXT_TYPES:
        return None
    extra = set(block) - {
        "type",
        "text",
        "content",
        "annotations",
        "index",
        "id",
        "extras",
        "_meta",
        "meta",
        "logprobs",
    }
    text = block.get("text", block.get("content"))
    return text if isinstance(text, str) and not extra else None


def _tool_message(value: Block) -> tuple[Any] | None:
    """The content of a serialised LangChain tool message, bare or under `output`."""
    inner = value.get("output")
    if isinstance(inner, dict | list) and set(value) <= {"output", "kwargs", "tags", "metadata", "inputs"}:
        return (result_value(inner),)
    for key in ("kwargs", "data"):
        fields = value.get(key)
        if isinstance(fields, dict) and "content" in fields and ("lc" in value or value.get("type") == "tool"):
            return (result_value(fields["content"]),)
    if value.get(CLASS_KEY) in ("ToolMessage", "ToolMessageChunk") or ("tool_call_id" in value and "content" in value):
        return (result_value(value.get("content")),)
    return None


def _mcp_result(value: Block) -> tuple[Any] | None:
    if not isinstance(value.get("content"), list) or not (
        {"isError", "structuredContent"} & set(value) or set(value) == {"content"}
    ):
        return None
    return (result_value(value["content"]),)


def _typed_output(value: Block) -> tuple[Any] | None:
    """Vercel's `{"type": "text" | "json" | "error-text" …, "value": …}`."""
    if set(value) <= {"type", "value", "providerOptions"} and "value" in value and isinstance(value.get("type"), str):
        return (result_value(value["value"]),)
    return None


def _function_response(value: Block) -> tuple[Any] | None:
    """Gemini's `{"id", "name", "response"}`."""
    known = {"id", "name", "response", "parts", "will_continue", "willContinue", "scheduling"}
    return (value["response"],) if {"name", "response"} <= set(value) <= known else None
