"""The normal form of message parts, from every block shape that providers and frameworks write.

Normal parts follow the GenAI conventions: `{"type": "text", "content"}`, `{"type": "reasoning", "content"}`,
`{"type": "tool_call", "id", "name", "arguments"}`, `{"type": "tool_call_response", "id", "response"}`, and so on. A part whose content
was not recorded has no `content` and says why under `capture`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from monitor.assembly.results import TEXT_TYPES, Block, block_text, is_refusal, result_value
from monitor.assembly.values import decode, decode_any, plain, withheld
from monitor.model.invocation import Capture, Part

_REASONING_TYPES = frozenset({"reasoning", "thinking", "redacted_thinking", "reasoning_content", "summary"})
_CALL_TYPES = frozenset(
    {
        "tool_call",
        "tool_use",
        "function_call",
        "tool-call",
        "function",
        "custom_tool_call",
        "toolcall",
        "tool_call_chunk",
    }
)
_RESULT_TYPES = frozenset(
    {
        "tool_call_response",
        "tool_result",
        "function_call_output",
        "tool-result",
        "tool-error",
        "custom_tool_call_output",
    }
    | {"tool_response", "toolresult", "tool_call_result", "tool_return", "function_response"}
)
_CALL_REPR = "ResponseFunctionToolCall("
_SERVER_RESULT_SUFFIX = "_tool_result"


def parts_of(content: Any) -> tuple[Part, ...]:
    """The parts of a message's content: text, a block, or a list of both. None and empty text give no parts."""
    if content is None:
        return ()
    if isinstance(content, str):
        return (text_part(content),) if content else ()
    if isinstance(content, dict):
        return (part_of(content),)
    if isinstance(content, list | tuple):
        return tuple(
            text_part(item) if isinstance(item, str) else part_of(item) for item in content if item is not None
        )
    return (text_part(str(content)),)


def text_part(content: Any) -> Part:
    """A text part; a redaction marker or a missing text becomes a part without content that says why.

    The repr of OpenAI's `ResponseFunctionToolCall`, which some instrumentations write as text, is the tool call that it shows.
    """
    if isinstance(content, str) and content.startswith(_CALL_REPR):
        shown = decode(content, 1)
        if isinstance(shown, dict):
            return _call(shown)
    return _content_part("text", content)


def call_part(call_id: Any, name: Any, arguments: Any) -> Part:
    """A requested tool call; `arguments` is decoded where it is JSON text, else kept as it is."""
    part: dict[str, Any] = {"type": "tool_call", "id": call_id if _filled(call_id) else None}
    part["name"] = name if _filled(name) and withheld(name) is None else None
    reason = withheld(arguments)
    if reason is not None:
        return part | {"capture": reason.value}
    if arguments is None:
        return part
    return part | {"arguments": plain(decode_any(arguments))}


def result_part(call_id: Any, response: Any, *, is_error: bool = False, name: Any = None) -> Part:
    """What a tool answered, as the model saw it; `...` (Ellipsis) stands for an answer that was not recorded."""
    part: dict[str, Any] = {"type": "tool_call_response", "id": call_id if _filled(call_id) else None}
    if _filled(name):
        part["name"] = name
    if is_error:
        part["is_error"] = True
    reason = withheld(response)
    if reason is not None:
        return part | {"capture": reason.value}
    if response is ...:
        return part
    value = plain(result_value(response))
    return part | {"response": value} | ({"denied": True} if is_refusal(value) else {})


def part_of(block: Any) -> Part:
    """The normal form of one block; what is not known is kept as it is, without binary content."""
    if not isinstance(block, dict):
        return text_part(str(block))
    kind = block.get("type")
    if isinstance(kind, str) and "parts" not in block:
        return _typed_part(kind, kind.lower(), block)
    for key, build in _WRAPPED.items():
        if isinstance(block.get(key), dict):
            return build(block[key])
    for key, build in _UNTYPED.items():
        if key in block:
            return build(block)
    return _safe(block) | {"type": str(kind or "unknown")}


def _typed_part(kind: str, lowered: str, block: Block) -> Part:
    if lowered in TEXT_TYPES:
        return text_part(_first(block, "content", "text", "refusal"))
    if lowered in _REASONING_TYPES:
        return _reasoning(block)
    if lowered in _CALL_TYPES:
        return _call(block)
    if lowered in _RESULT_TYPES or lowered == "tool":
        return _result(block)
    if lowered in ("server_tool_call", "server_tool_use"):
        return _server_call(block)
    if lowered == "server_tool_call_response" or lowered.endswith(_SERVER_RESULT_SUFFIX):
        return _server_result(block)
    if lowered.endswith("_call") and lowered not in ("computer_call", "local_shell_call"):
        return _hosted_call(kind, block)
    return {"type": kind} | _safe(block)


def _call(block: Block) -> Part:
    function = block.get("function")
    source = function if isinstance(function, dict) else block
    name = _first(source, "name", "toolName", "tool_name")
    arguments = _first(source, "arguments", "args", "input", "parameters")
    return call_part(_first(block, "call_id", "id", "toolCallId", "tool_call_id"), name, arguments)


def _result(block: Block) -> Part:
    response = _present(block, "response", "result", "output", "content")
    failed = block.get("is_error") is True or block.get("isError") is True or block.get("status") == "error"
    failed = failed or block.get("type") == "tool-error" or (bool(block.get("error")) and response is ...)
    if response is ... and block.get("error") is not None:
        response = block["error"]
    call_id = _first(block, "id", "tool_use_id", "call_id", "toolCallId", "tool_call_id")
    return result_part(call_id, response, is_error=failed, name=_first(block, "name", "toolName"))


def _server_call(block: Block) -> Part:
    detail = block.get("server_tool_call")
    arguments = block.get("input") if not isinstance(detail, dict) else {k: v for k, v in detail.items() if k != "type"}
    return {**call_part(block.get("id"), block.get("name"), arguments), "type": "server_tool_call"}


def _server_result(block: Block) -> Part:
    response = _present(block, "server_tool_call_response", "content", "response", "result")
    call_id = _first(block, "id", "tool_use_id")
    return {**result_part(call_id, response), "type": "server_tool_call_response"}


def _hosted_call(kind: str, block: Block) -> Part:
    """A tool that the provider ran itself (`web_search_call`, `mcp_call` …): call and answer in one item."""
    arguments = _first(block, "arguments", "action", "code", "queries", "input")
    part = {**call_part(block.get("id"), block.get("name") or kind.removesuffix("_call"), arguments)}
    output = _present(block, "output", "results", "outputs", "result")
    if output is not ... and output is not None:
        part["response"] = plain(result_value(output))
    if block.get("error"):
        part["is_error"] = True
    return part | {"type": "server_tool_call"}


def _reasoning(block: Block) -> Part:
    text = _first(block, "content", "thinking", "text", "reasoning")
    if text is None and isinstance(block.get("summary"), list):
        text = "\n".join(str(item.get("text", "")) for item in block["summary"] if isinstance(item, dict))
    if isinstance(text, list):
        text = "\n".join(str(item.get("text", "")) for item in text if isinstance(item, dict))
    return _content_part("reasoning", text if isinstance(text, str) and text else None)


def _bedrock_call(block: Block) -> Part:
    use = block["toolUse"]
    if not isinstance(use, dict):
        return {"type": "toolUse"}
    return call_part(use.get("toolUseId"), use.get("name"), use.get("input"))


def _bedrock_result(block: Block) -> Part:
    result = block["toolResult"]
    if not isinstance(result, dict):
        return {"type": "toolResult"}
    failed = result.get("status") == "error"
    return result_part(result.get("toolUseId"), result.get("content", ...), is_error=failed)


def _gemini_call(block: Block) -> Part:
    call = block.get("function_call") or block.get("functionCall")
    if not isinstance(call, dict):
        return _untyped_text(_without(block, "function_call", "functionCall"))
    return call_part(call.get("id"), call.get("name"), _first(call, "args", "arguments"))


def _gemini_result(block: Block) -> Part:
    answer = block.get("function_response") or block.get("functionResponse")
    if not isinstance(answer, dict):
        return _untyped_text(_without(block, "function_response", "functionResponse"))
    return result_part(answer.get("id"), answer.get("response", ...), name=answer.get("name"))


def _without(block: Block, *keys: str) -> Block:
    return {key: value for key, value in block.items() if key not in keys}


def _untyped_text(block: Block) -> Part:
    if block.get("functionCall") or block.get("function_call"):
        return _gemini_call(block)
    if block.get("functionResponse") or block.get("function_response"):
        return _gemini_result(block)
    text = _first(block, "text", "content")
    if isinstance(text, dict) and isinstance(text.get("value"), str):
        text = text["value"]  # Azure's threads
    if text is not None and not isinstance(text, str):
        return _safe(block) | {"type": "unknown"}
    if block.get("thought") is True:
        return _content_part("reasoning", text)
    if text is None and any(value is not None for value in block.values()):
        return _safe({key: value for key, value in block.items() if value is not None}) | {"type": "unknown"}
    return text_part(text)


def _bedrock_reasoning(block: Block) -> Part:
    inner = block.get("reasoningContent")
    inner = inner.get("reasoningText", inner) if isinstance(inner, dict) else None
    return _content_part("reasoning", inner.get("text") if isinstance(inner, dict) else None)


def _genkit_call(call: Block) -> Part:
    return call_part(call.get("ref"), call.get("name"), call.get("input"))


def _genkit_result(answer: Block) -> Part:
    return result_part(answer.get("ref"), answer.get("output", ...), name=answer.get("name"))


def _haystack_call(call: Block) -> Part:
    return call_part(call.get("id"), _first(call, "tool_name", "name"), call.get("arguments"))


def _haystack_result(answer: Block) -> Part:
    origin = answer["origin"] if isinstance(answer.get("origin"), dict) else {}
    failed = answer.get("error") is True
    return result_part(origin.get("id"), answer.get("result", ...), is_error=failed, name=origin.get("tool_name"))


_WRAPPED: dict[str, Callable[[Block], Part]] = {
    "toolRequest": _genkit_call,
    "toolResponse": _genkit_result,
    "tool_call": _haystack_call,
    "tool_call_result": _haystack_result,
}
"""Blocks of one key with everything inside. Other SDKs write the same keys as null."""

_UNTYPED: dict[str, Callable[[Block], Part]] = {
    "toolUse": _bedrock_call,
    "toolResult": _bedrock_result,
    "reasoningContent": _bedrock_reasoning,
    "function_call": _gemini_call,
    "functionCall": _gemini_call,
    "function_response": _gemini_result,
    "functionResponse": _gemini_result,
    "function": _call,
    "text": _untyped_text,
    "content": _untyped_text,
}


def _content_part(kind: str, content: Any) -> Part:
    if isinstance(content, dict):
        content = content.get("value") if isinstance(content.get("value"), str) else content.get("text")
    if isinstance(content, list | tuple):
        content = "".join(item for item in map(block_text, content) if item is not None) or None
    if content is None:
        return {"type": kind, "capture": Capture.NOT_CAPTURED.value}
    reason = withheld(content)
    if reason is not None:
        return {"type": kind, "capture": reason.value}
    return {"type": kind, "content": content if isinstance(content, str) else str(content)}


def _safe(block: Block) -> dict[str, Any]:
    """The block without long binary content."""
    kept: dict[str, Any] = {}
    for key, value in block.items():
        value = plain(decode(value, 1) if key in ("server_tool_call", "server_tool_call_response") else value)
        if key in ("data", "content", "bytes", "image", "blob") and isinstance(value, str) and len(value) > 1000:
            continue
        kept[str(key)] = value
    return kept


def _first(block: Block, *keys: str) -> Any:
    for key in keys:
        value = block.get(key)
        if value is not None:
            return value
    return None


def _present(block: Block, *keys: str) -> Any:
    for key in keys:
        if key in block:
            return block[key]
    return ...


def _filled(value: Any) -> bool:
    return isinstance(value, str) and value.strip() not in ("", "<not specified>")
