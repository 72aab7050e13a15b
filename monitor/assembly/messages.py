"""The normal form of message lists, from GenAI parts and from every provider-native or framework shape inside opaque values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Any

from monitor.assembly.literal import CLASS_KEY
from monitor.assembly.parts import part_of, parts_of, result_part
from monitor.assembly.regular import regular_message
from monitor.assembly.values import canonical, decode, looks_cut, withheld
from monitor.model.invocation import Capture, Message, Part

MAX_WRAPPING = 6
"""How many envelopes (`{"messages": …}`, `{"output": {"choices": …}}`) are opened."""

_ROLES = {
    "user": "user",
    "human": "user",
    "input": "user",
    "assistant": "assistant",
    "ai": "assistant",
    "model": "assistant",
    "bot": "assistant",
    "agent": "assistant",
    "system": "system",
    "developer": "system",
    "tool": "tool",
    "function": "tool",
    "tool_response": "tool",
    "tool_result": "tool",
    "ipython": "tool",
}
_CLASSES = {
    "humanmessage": "user",
    "usermessage": "user",
    "aimessage": "assistant",
    "assistantmessage": "assistant",
    "systemmessage": "system",
    "toolmessage": "tool",
    "functionmessage": "tool",
    "functionexecutionresultmessage": "tool",
    "toolcallmessage": "assistant",
    "toolcallrequestevent": "assistant",
    "toolcallexecutionevent": "tool",
}
_ENVELOPES = (
    "messages",
    "choices",
    "candidates",
    "generations",
    "contents",
    "output",
    "message",
    "response",
    "outputs",
    "input",
    "inputs",
    "result",
    "update",
    "new_message",
    "value",
)
_ITEM_TYPES = {
    "function_call": "assistant",
    "tool_call": "assistant",
    "custom_tool_call": "assistant",
    "reasoning": "assistant",
    "tool_use": "assistant",
    "function_call_output": "tool",
    "custom_tool_call_output": "tool",
    "tool_call_response": "tool",
    "tool_result": "tool",
    "tool-call": "assistant",
    "tool-result": "tool",
}


CALLS = frozenset({"tool_call", "server_tool_call"})
ANSWERS = frozenset({"tool_call_response", "server_tool_call_response"})
_CONTENT = frozenset({"content", "arguments", "response", "uri", "file_id"})
"""Keys of a part that hold what it says."""


def messages_of(value: Any, role: str) -> tuple[Message, ...]:
    """The messages in a content value; text and parts without a role get `role`. No messages: an empty tuple."""
    return _joined(_read(decode(value), role, 0))


def listed_messages(items: Sequence[Any], role: str) -> tuple[Message, ...] | None:
    """The messages of a list whose items each name their role, read one by one; None for any other list."""
    messages: list[Message] = []
    for item in items:
        if not isinstance(item, dict) or "role" not in item:
            return None
        made = regular_message(item)
        messages += _read_mapping(item, role, 1) if made is None else [made]
    return _joined(messages)


def read_messages(value: Any, role: str) -> tuple[tuple[Message, ...], Capture | None]:
    """The messages in a content value, and why they are not whole where they are not (None when they are)."""
    reason = withheld(value)
    if reason is not None:
        return (), reason
    decoded = decode(value)
    if looks_cut(decoded):
        return (), Capture.TRUNCATED
    found = messages_of(decoded, role)
    return found, lacking(found)


def lacking(messages: Sequence[Message]) -> Capture | None:
    """Why none of the messages has any content, None when one has."""
    reason: Capture | None = Capture.NOT_CAPTURED
    for message in messages:
        for part in message.parts:
            if "capture" not in part and not _CONTENT.isdisjoint(part):
                return None
            if part.get("capture") == Capture.REDACTED.value:
                reason = Capture.REDACTED
    return reason


def text_in(messages: Iterable[Message], *, separator: str = "\n") -> str | None:
    """The text of the messages' text parts, None when there is none."""
    texts = [text for message in messages if (text := message_text(message, separator)) is not None]
    return separator.join(texts) if texts else None


def message_text(message: Message, separator: str = "\n") -> str | None:
    """The text of one message, its text parts joined; None without a text part that has content."""
    texts = [part["content"] for part in message.parts if part.get("type") == "text" and "content" in part]
    return separator.join(texts) if texts else None


def withheld_text(messages: Iterable[Message]) -> Capture | None:
    """Why a text part of the messages has no content, None when none lacks it."""
    for message in messages:
        for part in message.parts:
            if part.get("type") == "text" and "capture" in part:
                return Capture(part["capture"])
    return None


def calls_in(messages: Iterable[Message]) -> list[Part]:
    """The requested tool calls, in order, those that the provider ran itself included."""
    return [part for message in messages for part in message.parts if part.get("type") in CALLS]


def answers_in(messages: Iterable[Message]) -> list[Part]:
    """The tool answers, in order."""
    return [part for message in messages for part in message.parts if part.get("type") in ANSWERS]


def fingerprint(messages: Iterable[Message]) -> str:
    """32 hex digits that are equal for messages that say the same, whatever shape they came in; system messages do not count."""
    digest = blake2b(digest_size=16)
    for message in messages:
        if message.role == "system":
            continue
        digest.update(message.role.encode() + b"\0")
        for part in message.parts:
            digest.update(_said(part).encode("utf-8", "replace") + b"\0")
    return digest.hexdigest()


def _said(part: Part) -> str:
    kind = part.get("type")
    if kind == "text":
        return str(part.get("content", "")).strip()
    if kind == "tool_call":
        return canonical([part.get("name"), part.get("arguments")])
    return canonical(part.get("response")) if kind == "tool_call_response" else ""


def _read(value: Any, role: str, wrapping: int) -> list[Message]:
    if isinstance(value, str):
        return [Message(role, parts_of(value))] if value.strip() else []
    if isinstance(value, dict):
        return _read_mapping(value, role, wrapping)
    if isinstance(value, list | tuple):
        return _read_list(value, role, wrapping)
    return []


def _read_list(items: Sequence[Any], role: str, wrapping: int) -> list[Message]:
    if _is_pair(items):
        return [Message(_ROLES[items[0].lower()], parts_of(decode(items[1])))]
    if (
        items
        and wrapping < MAX_WRAPPING
        and all(isinstance(item, list | tuple) and not _is_pair(item) for item in items)
    ):
        return _read_list(items[0], role, wrapping + 1)
    messages: list[Message] = []
    loose: list[Any] = []
    for item in items:
        regular = regular_message(item) if isinstance(item, dict) and "role" in item else None
        if regular is not None:
            messages += (*_loose_message(loose, role), regular)
            loose = []
            continue
        item = _opened_item(item)
        if _is_loose(item):
            loose.append(item)
            continue
        messages += _loose_message(loose, role)
        loose = []
        messages += _read(item, role, wrapping + 1) if wrapping < MAX_WRAPPING else []
    return messages + _loose_message(loose, role)


def _opened_item(item: Any) -> Any:
    """A list's entry that is the JSON or the repr of a message, as that; other texts as they are."""
    if isinstance(item, str):
        inner = decode(item, 1)
        return inner if isinstance(inner, dict) else item
    return item


def _is_pair(items: Sequence[Any]) -> bool:
    """LangChain's `["human", "text"]`."""
    return (
        len(items) == 2
        and isinstance(items[0], str)
        and items[0].lower() in _ROLES
        and isinstance(items[1], str | list)
    )


def _is_loose(item: Any) -> bool:
    """A part without a message around it."""
    if isinstance(item, str):
        return True
    if not isinstance(item, dict) or "role" in item or CLASS_KEY in item or "lc" in item:
        return False
    kind = item.get("type")
    kind = kind if isinstance(kind, str) else ""
    if kind in _ITEM_TYPES or kind in _ROLES or kind == "message":
        return False
    content = item.get("content")
    if isinstance(content, dict) and "parts" in content:
        return False  # a candidate of Gemini's
    return "type" in item or (set(item) <= {"text", "content"}) or bool({"toolUse", "toolResult"} & set(item))


def _loose_message(loose: list[Any], role: str) -> list[Message]:
    parts = tuple(part for item in loose for part in parts_of(item))
    return [Message(role, parts)] if parts else []


def _read_mapping(value: Mapping[str, Any], role: str, wrapping: int) -> list[Message]:
    own = _role_of(value)
    if own is not None:
        return [_message(value, own)]
    kind = value.get("type")
    if isinstance(kind, str) and kind in _ITEM_TYPES:
        return [Message(_ITEM_TYPES[kind], (part_of(value),))]
    if wrapping >= MAX_WRAPPING:
        return []
    for key in _ENVELOPES:
        inner = value.get(key)
        if isinstance(inner, str) and key not in ("message", "output", "input", "result", "response"):
            inner = decode(inner)
        if isinstance(inner, list | tuple | dict) and inner:
            return _read(inner, "assistant" if key in ("choices", "candidates", "generations") else role, wrapping + 1)
    if "parts" in value or "content" in value:
        return [_message(value, role)]
    if isinstance(value.get("text"), str):
        return [Message(role, parts_of(value["text"]))]
    return []


def _role_of(value: Mapping[str, Any]) -> str | None:
    role = value.get("role")
    if (
        isinstance(role, str)
        and role.lower() in _ROLES
        and ({"content", "parts", "tool_calls"} & set(value) or len(value) <= 3)
    ):
        return _ROLES[role.lower()]
    if isinstance(role, str) and role and ({"content", "parts"} & set(value)):
        return role.lower()
    for name in (_class_of(value), value.get(CLASS_KEY), value.get("type")):
        if isinstance(name, str) and (known := _CLASSES.get(name.lower().removesuffix("chunk"))):
            return known
    if "additional_kwargs" in value and "response_metadata" in value and "content" in value:
        return _langchain_role(value)
    source = value.get("source")
    if (
        isinstance(source, str)
        and isinstance(value.get("type"), str)
        and value["type"].endswith("Message")
        and "content" in value
    ):
        return "user" if source.lower() == "user" else "assistant"  # AutoGen's chat messages
    kind = value.get("type")
    if isinstance(kind, str) and kind.lower() in _ROLES and ({"data", "content", "kwargs"} & set(value)):
        return _ROLES[kind.lower()]
    return None


def _langchain_role(value: Mapping[str, Any]) -> str:
    """The role of a LangChain message printed without its class."""
    if value.get("tool_call_id"):
        return "tool"
    said = value.get("tool_calls") or value.get("usage_metadata") or value.get("response_metadata")
    return "assistant" if said or str(value.get("id", "")).startswith(("lc_run", "run-")) else "user"


def _class_of(value: Mapping[str, Any]) -> Any:
    path = value.get("id")
    return path[-1] if "lc" in value and isinstance(path, list | tuple) and path else None


def _message(value: Mapping[str, Any], role: str) -> Message:
    fields: Mapping[str, Any] = value
    for key in ("kwargs", "data"):
        inner = value.get(key)
        if isinstance(inner, dict) and ("lc" in value or key == "data"):
            fields = inner
    content = fields["parts"] if isinstance(fields.get("parts"), list | tuple) else fields.get("content")
    if isinstance(content, dict) and isinstance(content.get("parts"), list | tuple):
        content = content["parts"]
    if role == "tool":
        parts = _tool_parts(fields, content)
    else:
        parts = (*_reasoning_parts(fields), *parts_of(_opened(content)))
        parts += _extra_calls(fields, parts)
    if role in ("user", "assistant") and parts and all(part.get("type") == "tool_call_response" for part in parts):
        role = "tool"
    return Message(role, parts)


def _opened(content: Any) -> Any:
    """Content that is a JSON list of blocks held in text (Strands, Bedrock) as that list; other text stays text."""
    if isinstance(content, str) and content.lstrip()[:2] == "[{":
        inner = decode(content, 1)
        if isinstance(inner, list) and all(isinstance(item, dict) and _block_like(item) for item in inner):
            return inner
    return content


def _block_like(item: Mapping[str, Any]) -> bool:
    return bool({"toolUse", "toolResult", "text", "reasoningContent"} & set(item)) and len(item) <= 3


def _tool_parts(fields: Mapping[str, Any], content: Any) -> tuple[Part, ...]:
    opened = _opened(content)
    if isinstance(opened, list | tuple):
        parts = parts_of(opened)
        if any(part.get("type") in ("tool_call_response", "tool_call") for part in parts):
            return tuple(part for part in parts if part.get("type") != "text")
    call_id = fields.get("tool_call_id") or fields.get("call_id") or fields.get("tool_use_id") or fields.get("id")
    failed = fields.get("status") == "error" or fields.get("is_error") is True
    answer = content if content is not None else ...
    return (result_part(call_id, answer, is_error=failed, name=fields.get("name")),)


def _reasoning_parts(fields: Mapping[str, Any]) -> tuple[Part, ...]:
    extra = fields.get("additional_kwargs")
    for holder in (fields, extra if isinstance(extra, dict) else {}):
        text = holder.get("reasoning_content")
        if isinstance(text, str) and text and withheld(text) is None:
            return ({"type": "reasoning", "content": text},)
    return ()


def _extra_calls(fields: Mapping[str, Any], parts: tuple[Part, ...]) -> tuple[Part, ...]:
    """Tool calls beside the content (`tool_calls`, `function_call`, LangChain's `additional_kwargs`), each once."""
    extra = fields.get("additional_kwargs")
    listed = _call_list(fields.get("tool_calls"))
    if not listed and isinstance(extra, dict):
        listed = _call_list(extra.get("tool_calls"))
    single = fields.get("function_call")
    if not listed and isinstance(single, dict) and single.get("name"):
        listed = [{"type": "function", **single}]
    seen = {_call_key(part) for part in parts if part.get("type") == "tool_call"}
    calls = [
        part_of({"type": "tool_call", **item} if "function" not in item else {**item, "type": "function"})
        for item in listed
    ]
    return tuple(call for call in calls if _call_key(call) not in seen)


def _call_list(value: Any) -> list[Mapping[str, Any]]:
    value = decode(value)
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list | tuple) else []


def _call_key(part: Part) -> Any:
    return part.get("id") or (part.get("name"), canonical(part.get("arguments")))


def _joined(messages: list[Message]) -> tuple[Message, ...]:
    return tuple(message for message in messages if message.parts or message.role != "system")
