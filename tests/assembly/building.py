"""Builds spans and log records by hand, small and readable."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from collectors.span import LogRecord, Resource, Scope, Span, SpanEvent, SpanLink, StatusCode
from monitor.assembly import AssemblyContext, assemble
from monitor.model.invocation import Invocation, SettledBy

TRACE = "0" * 31 + "a"
START = 1_794_992_400_000_000_000
SECOND = 1_000_000_000
CONTEXT = AssemblyContext(SettledBy.ROOT_ENDED, "otlp")


def span(
    number: int,
    name: str = "",
    attributes: Mapping[str, Any] | None = None,
    *,
    parent: int | None = None,
    at: float = 0,
    until: float | None = None,
    trace: str = TRACE,
    **more: Any,
) -> Span:
    """Span `number`, child of span `parent`, from second `at` to second `until` (one second later by default; 0 leaves it open)."""
    end = START + int((at + 1 if until is None else until) * SECOND)
    return Span(
        trace_id=trace,
        span_id=f"{number:016x}",
        parent_span_id="" if parent is None else f"{parent:016x}",
        name=name,
        kind=more.pop("kind", 1),
        start_time_unix_nano=START + int(at * SECOND),
        end_time_unix_nano=0 if until == 0 else end,
        attributes=dict(attributes or {}),
        events=tuple(more.pop("events", ())),
        links=tuple(more.pop("links", ())),
        status_code=StatusCode(more.pop("status", 0)),
        status_message=more.pop("message", ""),
        resource=Resource(more.pop("resource", {"service.name": "desk"})),
        scope=Scope(more.pop("scope", "hand.made")),
        **more,
    )


def event(name: str, at: float = 0, **attributes: Any) -> SpanEvent:
    """A span event; attributes with dots go in as a dict under `attributes`."""
    return SpanEvent(name, START + int(at * SECOND), attributes.pop("attributes", attributes))


def log(
    number: int | None, name: str, body: Any = None, at: float = 0, trace: str = TRACE, **attributes: Any
) -> LogRecord:
    """A log record of span `number`, or of the trace alone."""
    span_id = "" if number is None else f"{number:016x}"
    return LogRecord(
        trace, span_id, name, START + int(at * SECOND), body=body, attributes=attributes.pop("attributes", {})
    )


def link(number: int, trace: str = TRACE) -> SpanLink:
    """A link to span `number`."""
    return SpanLink(trace, f"{number:016x}")


def text(role: str, content: str) -> dict[str, Any]:
    """A message of one text part."""
    return {"role": role, "parts": [{"type": "text", "content": content}]}


def call(call_id: str | None, name: str, arguments: Any) -> dict[str, Any]:
    """An assistant's message that asks for one tool call."""
    return {"role": "assistant", "parts": [{"type": "tool_call", "id": call_id, "name": name, "arguments": arguments}]}


def answer(call_id: str | None, response: Any) -> dict[str, Any]:
    """A tool's answer."""
    return {"role": "tool", "parts": [{"type": "tool_call_response", "id": call_id, "response": response}]}


def agent(
    number: int, name: str | None = "clerk", given: Sequence[Any] = (), said: Sequence[Any] = (), **more: Any
) -> Span:
    """An `invoke_agent` span of the GenAI conventions."""
    attributes: dict[str, Any] = {"gen_ai.operation.name": "invoke_agent", **more.pop("attributes", {})}
    if name is not None:
        attributes["gen_ai.agent.name"] = name
    return span(number, f"invoke_agent {name or ''}".strip(), attributes | _messages(given, said), **more)


def chat(number: int, given: Sequence[Any] = (), said: Sequence[Any] = (), **more: Any) -> Span:
    """A `chat` span of the GenAI conventions, 10 tokens in and 2 out unless `tokens` says otherwise."""
    tokens = more.pop("tokens", (10, 2))
    attributes: dict[str, Any] = {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "gpt-4o",
        **more.pop("attributes", {}),
    }
    if tokens:
        attributes |= {"gen_ai.usage.input_tokens": tokens[0], "gen_ai.usage.output_tokens": tokens[1]}
    return span(number, "chat gpt-4o", attributes | _messages(given, said), **more)


def tool(
    number: int, name: str, call_id: str | None = None, arguments: Any = ..., result: Any = ..., **more: Any
) -> Span:
    """An `execute_tool` span of the GenAI conventions."""
    attributes: dict[str, Any] = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": name,
        **more.pop("attributes", {}),
    }
    if call_id is not None:
        attributes["gen_ai.tool.call.id"] = call_id
    for key, value in (("arguments", arguments), ("result", result)):
        if value is not ...:
            attributes[f"gen_ai.tool.call.{key}"] = value if isinstance(value, str) else json.dumps(value)
    return span(number, f"execute_tool {name}", attributes, **more)


def _messages(given: Sequence[Any], said: Sequence[Any]) -> dict[str, str]:
    found = {"gen_ai.input.messages": list(given), "gen_ai.output.messages": list(said)}
    return {key: json.dumps(messages) for key, messages in found.items() if messages}


def assembled(*items: Span | LogRecord, context: AssemblyContext = CONTEXT) -> list[Invocation]:
    """The invocations of spans and log records."""
    spans = [item for item in items if isinstance(item, Span)]
    logs = [item for item in items if isinstance(item, LogRecord)]
    return [one.invocation for one in assemble(spans, logs, context)]


def only(*items: Span | LogRecord, context: AssemblyContext = CONTEXT) -> Invocation:
    """The one invocation of spans and log records."""
    found = assembled(*items, context=context)
    assert len(found) == 1, [one.id for one in found]
    return found[0]
