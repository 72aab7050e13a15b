"""Bedrock AgentCore's split telemetry: payloads in log events with `{"input": {"messages"}, "output": {"messages"}}` bodies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from monitor.assembly.conventions.convention import Convention
from monitor.assembly.conventions.reader import Reader
from monitor.assembly.facts import Facts, Field
from monitor.assembly.messages import lacking, messages_of
from monitor.assembly.record import Record
from monitor.assembly.values import decode
from monitor.model.invocation import Message


class AgentCore(Convention):
    """Log records of ADOT on an agent's, a model's or a tool's span."""

    name = "agentcore"

    def recognises(self, record: Record) -> bool:
        """A log record whose body has input or output with messages."""
        return bool(record.logs) and any(event.source == "log" and _payload(event.body) for event in record.events)

    def read(self, record: Record) -> Facts:
        """Input and output; content may be JSON inside JSON."""
        reader = Reader(record, self.name)
        for event in record.events:
            body = _payload(event.body)
            if not body:
                continue
            for field, role, key in ((Field.INPUT, "user", "input"), (Field.OUTPUT, "assistant", "output")):
                side = body.get(key)
                found = _messages(side.get("messages"), role) if isinstance(side, Mapping) else ()
                if found:
                    reader.put(field, found, f"log {event.name} body {key}", capture=lacking(found))
        return reader.facts


def _payload(body: Any) -> Mapping[str, Any] | None:
    decoded = decode(body)
    if not isinstance(decoded, Mapping):
        return None
    sides = [decoded.get("input"), decoded.get("output")]
    return decoded if any(isinstance(side, Mapping) and "messages" in side for side in sides) else None


def _messages(listed: Any, role: str) -> tuple[Message, ...]:
    items = decode(listed)
    opened = [_opened(item) for item in items] if isinstance(items, list) else items
    return messages_of(opened, role)


def _opened(item: Any) -> Any:
    """A message whose content is `{"content": "<JSON>"}` or JSON text once more."""
    if not isinstance(item, Mapping):
        return item
    content = item.get("content")
    if isinstance(content, Mapping):
        content = content.get("content", content.get("message", content.get("text", content)))
    inner = decode(content)
    return {**item, "content": inner if isinstance(inner, list) else content}
