"""Export requests made with opentelemetry-proto, which our own decoder does not use."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord as LogMessage
from opentelemetry.proto.trace.v1.trace_pb2 import Span as SpanMessage

START = 1_700_000_000 * 10**9


def trace_id(name: str) -> bytes:
    """A trace id from a name."""
    return hashlib.md5(name.encode()).digest()


def span_id(name: str) -> bytes:
    """A span id from a name."""
    return hashlib.md5(b"span" + name.encode()).digest()[:8]


@dataclass(frozen=True)
class Sent:
    """A span to be sent; times are seconds after `START`, an `end` of None is an open span."""

    trace: str
    name: str
    parent: str = ""
    start: float = 0.0
    end: float | None = 1.0
    attributes: Mapping[str, object] = field(default_factory=dict)

    def message(self) -> SpanMessage:
        """As protobuf."""
        return SpanMessage(
            trace_id=trace_id(self.trace),
            span_id=span_id(self.name),
            parent_span_id=span_id(self.parent) if self.parent else b"",
            name=self.name,
            start_time_unix_nano=START + int(self.start * 1e9),
            end_time_unix_nano=START + int(self.end * 1e9) if self.end is not None else 0,
            attributes=pairs(self.attributes),
        )


def pairs(attributes: Mapping[str, object]) -> list[KeyValue]:
    """Attributes as protobuf; texts and booleans."""
    return [
        KeyValue(
            key=key, value=AnyValue(bool_value=value) if isinstance(value, bool) else AnyValue(string_value=str(value))
        )
        for key, value in attributes.items()
    ]


def traces(*spans: Sent | SpanMessage, resource: Mapping[str, object] | None = None) -> bytes:
    """A traces request with one resource and scope."""
    request = ExportTraceServiceRequest()
    entry = request.resource_spans.add()
    entry.resource.attributes.extend(pairs({"service.name": "desk"} if resource is None else resource))
    scope = entry.scope_spans.add()
    scope.scope.name = "test"
    scope.spans.extend(span.message() if isinstance(span, Sent) else span for span in spans)
    return request.SerializeToString()


def logs(*records: LogMessage, resource: Mapping[str, object] | None = None) -> bytes:
    """A logs request with one resource and scope."""
    request = ExportLogsServiceRequest()
    entry = request.resource_logs.add()
    entry.resource.attributes.extend(pairs({"service.name": "desk"} if resource is None else resource))
    entry.scope_logs.add().log_records.extend(records)
    return request.SerializeToString()


def log(
    trace: str, span: str = "", event: str = "gen_ai.user.message", time: float = 0.0, **attributes: object
) -> LogMessage:
    """A log record of a span (or of the whole trace)."""
    return LogMessage(
        trace_id=trace_id(trace),
        span_id=span_id(span) if span else b"",
        event_name=event,
        time_unix_nano=START + int(time * 1e9),
        attributes=pairs(attributes),
    )


def message(role: str, text: str) -> str:
    """A messages attribute of the GenAI conventions with one message."""
    return json.dumps([{"role": role, "parts": [{"type": "text", "content": text}]}])


def agent(trace: str, question: str = "Open today?", answer: str = "Until six.", **changes: object) -> Sent:
    """The root span of an agent run. Its name is `<trace>.root`."""
    attributes = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "desk",
        "gen_ai.input.messages": message("user", question),
        "gen_ai.output.messages": message("assistant", answer),
    }
    given: dict[str, object] = {"end": 4.0, "attributes": attributes, **changes}
    return Sent(trace, f"{trace}.root", **given)  # type: ignore[arg-type]


def tool(trace: str, number: int = 1, parent: str = "root", **changes: object) -> Sent:
    """A tool span below the root."""
    attributes = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": f"tool{number}",
        "gen_ai.tool.call.id": f"call{number}",
        "gen_ai.tool.call.arguments": json.dumps({"n": number}),
        "gen_ai.tool.call.result": json.dumps({"ok": number}),
    }
    given: dict[str, object] = {
        "start": float(number) / 8,
        "end": float(number) / 8 + 0.1,
        "attributes": attributes,
        **changes,
    }
    return Sent(trace, f"{trace}.tool{number}", f"{trace}.{parent}", **given)  # type: ignore[arg-type]


def run(trace: str, tools: int = 2) -> Sequence[Sent]:
    """A whole agent run: children first, as SDKs send them."""
    return [*(tool(trace, number) for number in range(1, tools + 1)), agent(trace)]


def turn(name: str) -> tuple[Sent, Sent]:
    """Two model calls of one turn, in traces of their own: `<name>`, which asks for a tool, and `<name>.2`, which has its answer."""
    question = {"role": "user", "parts": [{"type": "text", "content": f"Question {name}?"}]}
    asks = {
        "role": "assistant",
        "parts": [{"type": "tool_call", "id": f"call.{name}", "name": "look", "arguments": {}}],
    }
    told = {"role": "tool", "parts": [{"type": "tool_call_response", "id": f"call.{name}", "response": "yes"}]}
    says = {"role": "assistant", "parts": [{"type": "text", "content": f"Answer {name}."}]}

    def call(trace: str, given: list[object], out: object, at: float) -> Sent:
        attributes = {
            "gen_ai.operation.name": "chat",
            "gen_ai.input.messages": json.dumps(given),
            "gen_ai.output.messages": json.dumps([out]),
        }
        return Sent(trace, f"{trace}.root", start=at, end=at + 1, attributes=attributes)

    return call(name, [question], asks, 0.0), call(f"{name}.2", [question, asks, told], says, 2.0)
