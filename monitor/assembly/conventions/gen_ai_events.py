"""GenAI conventions 1.28 to 1.36: one event per message (`gen_ai.user.message`, `gen_ai.choice`), as span event or log record."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from monitor.assembly.conventions.convention import Convention
from monitor.assembly.conventions.reader import Reader
from monitor.assembly.facts import Facts, Field, SpanClass
from monitor.assembly.messages import messages_of, read_messages
from monitor.assembly.record import Event, Record
from monitor.assembly.results import result_value
from monitor.assembly.values import decode, withheld
from monitor.model.invocation import Message

ROLES = {
    "gen_ai.system.message": "system",
    "gen_ai.user.message": "user",
    "gen_ai.assistant.message": "assistant",
    "gen_ai.tool.message": "tool",
    "gen_ai.choice": "choice",
}


class GenAiEvents(Convention):
    """Messages as events. Where span events and log records repeat each other, the longer record counts."""

    name = "gen_ai"
    names = frozenset(ROLES)

    def recognises(self, record: Record) -> bool:
        """An event of one of the five names."""
        return any(event.name in ROLES for event in record.events)

    def read(self, record: Record) -> Facts:
        """Input, output and system instructions; arguments and result on a tool's span."""
        reader = Reader(record, self.name)
        events = [event for event in record.events if event.name in ROLES]
        carriers = [[e for e in events if e.source == source] for source in ("event", "log")]
        chosen = max(carriers, key=len)
        source = f"{chosen[0].source} {chosen[0].name}"
        if record.attributes.get("gen_ai.operation.name") == "execute_tool":
            _read_tool(reader, chosen)
        else:
            read_message_events(reader, [(e.name, fields_of(e)) for e in chosen], source)
        return reader.facts


def read_message_events(reader: Reader, events: Iterable[tuple[str, Any]], source: str) -> None:
    """Note input, output and system instructions from (event name, body) pairs in order."""
    given: list[Message] = []
    chosen: list[Message] = []
    for name, body in events:
        role = ROLES.get(name)
        if role == "choice":
            chosen += _choice(body)
        elif role is not None:
            given += _message(body, role)
    if given:
        reader.messages(Field.INPUT, "user", [_as_item(m) for m in given], source)
    if chosen:
        reader.messages(Field.OUTPUT, "assistant", [_as_item(m) for m in chosen], source)


def _as_item(message: Message) -> dict[str, Any]:
    return {"role": message.role, "parts": list(message.parts)}


def fields_of(event: Event) -> Any:
    """An event's message: the body of a log record, the attributes of a span event, or the JSON in `gen_ai.event.content`."""
    content = event.attributes.get("gen_ai.event.content")
    if content is not None:
        return decode(content)
    body = decode(event.body)
    if body not in (None, "", {}):
        return body
    return {key: value for key, value in event.attributes.items() if not key.startswith(("gen_ai.", "event."))}


def _message(body: Any, role: str) -> tuple[Message, ...]:
    if not isinstance(body, Mapping):
        return (
            read_messages(body, role)[0]
            if body is not None
            else (Message(role, ({"type": "text", "capture": "not_captured"},)),)
        )
    fields = dict(body)
    if role != "user" or fields.get("role") in (None, "user", ""):
        fields["role"] = role
    if role in ("system", "user") and not ({"content", "parts"} & set(fields)):
        return (Message(role, ({"type": "text", "capture": "not_captured"},)),)
    return messages_of(fields, role)


def _choice(body: Any) -> tuple[Message, ...]:
    if not isinstance(body, Mapping):
        return read_messages(body, "assistant")[0]
    message = decode(body.get("message"))
    if isinstance(message, Mapping):
        fields = dict(message)
        if "tool_calls" in body and "tool_calls" not in fields:
            fields["tool_calls"] = body["tool_calls"]
    elif message is not None:
        fields = {"content": message}
    else:
        fields = {key: value for key, value in body.items() if key not in ("index", "finish_reason")}
    if not ({"content", "parts", "tool_calls"} & set(fields)):
        return (Message("assistant", ({"type": "text", "capture": "not_captured"},)),)
    return messages_of({**fields, "role": "assistant"}, "assistant")


def _read_tool(reader: Reader, events: list[Event]) -> None:
    reader.classify(SpanClass.TOOL, "gen_ai.operation.name")
    for event in events:
        body = fields_of(event)
        if not isinstance(body, Mapping):
            continue
        source = f"{event.source} {event.name}"
        if event.name == "gen_ai.tool.message" and "content" in body:
            reader.arguments(body["content"], source)
        elif event.name == "gen_ai.choice" and "message" in body:
            message = body["message"]
            reason = withheld(message)
            if reason is not None:
                reader.put(Field.RESULT, None, source, capture=reason)
            else:
                reader.result(result_value(_blocks(message)), source)


def _blocks(value: Any) -> Any:
    decoded = decode(value, 1)
    if isinstance(decoded, list) and all(
        isinstance(item, Mapping) and {"text", "json"} & set(item) for item in decoded
    ):
        return decoded
    return value
