"""The content of an invocation, what people and models said, as one blob.

Lists instead of objects and nanoseconds instead of texts: half the time of the JSON that the API shows, and exact, also for null results.
An error's text may quote a message, so it is content too; that there was one is not.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from monitor.model.invocation import Invocation, Message, ToolCall, ToolDefinition, ToolStatus
from monitor.model.wire import invocation_from_json
from monitor.store.sqlite.blobs import packed_json, unpacked_json, unpacked_start

_READ_FOR_OPENING = 256 * 1024
_LONGEST_HALF_ESCAPE = 6
_ANY_TIME = "1970-01-01T00:00:00Z"


def content_blob(invocation: Invocation) -> bytes:
    """The content of an invocation, packed."""
    return packed_json(_listed(invocation))


def _listed(invocation: Invocation) -> list[Any]:
    return [
        invocation.system_instructions,
        invocation.user_input,
        invocation.final_response,
        invocation.error,
        [[message.role, [dict(part) for part in message.parts]] for message in invocation.history],
        [[tool.name, tool.description, tool.parameters] for tool in invocation.tool_definitions],
        [
            [call.name, call.id, call.arguments, call.result, call.result_known, call.error, call.status.value,
             call.span_id, call.agent_name, call.started_at, call.ended_at]
            for call in invocation.tool_calls
        ],
    ]  # fmt: skip


def _read(blob: bytes) -> list[Any]:
    body: Any = unpacked_json(blob)
    return body if isinstance(body, list) else _of_object(body)


def _of_object(body: Mapping[str, Any]) -> list[Any]:
    """What the first program stored: the JSON that the API shows, and beside it the places of results that were seen, null or not."""
    told = invocation_from_json({**body, "id": "", "trace_id": "", "started_at": _ANY_TIME, "ended_at": _ANY_TIME})
    seen = set(body["_results"])
    calls = tuple(replace(call, result_known=place in seen) for place, call in enumerate(told.tool_calls))
    return _listed(replace(told, tool_calls=calls))


def with_content(invocation: Invocation, blob: bytes) -> Invocation:
    """An invocation that has its head only, with the content of a blob."""
    instructions, user_input, final_response, error, history, definitions, calls = _read(blob)
    return replace(
        invocation,
        system_instructions=instructions,
        user_input=user_input,
        final_response=final_response,
        error=error,
        history=tuple(Message(role, tuple(parts)) for role, parts in history),
        tool_definitions=tuple(ToolDefinition(*definition) for definition in definitions),
        tool_calls=tuple(
            ToolCall(name, number, arguments, result, known, failure, ToolStatus(status), *place)
            for name, number, arguments, result, known, failure, status, *place in calls
        ),
    )


def opening(blob: bytes, characters: int) -> tuple[str | None, str | None]:
    """The first characters of user input and final response. Only the start of the blob is read: a listing shows many."""
    text, place, found = unpacked_start(blob, _READ_FOR_OPENING).decode("ascii"), 1, []
    if text.startswith("{"):
        _, question, answer, *_ = _read(blob)
        return (question and question[:characters]), (answer and answer[:characters])
    for _ in range(3):  # instructions, user input, final response
        try:
            value, place = json.JSONDecoder().raw_decode(text, place)
            found.append(value)
            place += 1
        except ValueError:
            found.append(_cut_text(text[place:]))
            break
    _, question, answer = (*found, None, None)[:3]
    return (question and question[:characters]), (answer and answer[:characters])


def _cut_text(text: str) -> str | None:
    """A JSON text that ends too early, up to there; an escape that is cut in two is left out."""
    for cut in range(_LONGEST_HALF_ESCAPE + 1):
        try:
            return str(json.loads(text[: len(text) - cut] + '"')) if text.startswith('"') else None
        except ValueError:
            continue
    return None
