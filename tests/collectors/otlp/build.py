"""Export requests for tests, built with opentelemetry-proto's own classes."""

from __future__ import annotations

from typing import Any

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
from opentelemetry.proto.trace.v1.trace_pb2 import Span

TRACE = bytes(range(1, 17))
SPAN = bytes(range(1, 9))


def any_value(value: Any) -> AnyValue:
    """A Python value as an AnyValue."""
    made = AnyValue()
    if isinstance(value, bool):
        made.bool_value = value
    elif isinstance(value, str):
        made.string_value = value
    elif isinstance(value, int):
        made.int_value = value
    elif isinstance(value, float):
        made.double_value = value
    elif isinstance(value, bytes):
        made.bytes_value = value
    elif isinstance(value, list):
        made.array_value.SetInParent()
        made.array_value.values.extend(any_value(element) for element in value)
    elif isinstance(value, dict):
        made.kvlist_value.SetInParent()
        made.kvlist_value.values.extend(pairs(value))
    return made


def pairs(attributes: dict[str, Any]) -> list[KeyValue]:
    """A dict as attributes."""
    return [KeyValue(key=key, value=any_value(value)) for key, value in attributes.items()]


def span(
    trace_id: bytes = TRACE, span_id: bytes = SPAN, attributes: dict[str, Any] | None = None, **fields: Any
) -> Span:
    """A span with ids and times."""
    fields = {"start_time_unix_nano": 1_000, "end_time_unix_nano": 2_000, **fields}
    return Span(trace_id=trace_id, span_id=span_id, attributes=pairs(attributes or {}), **fields)


def record(
    trace_id: bytes = TRACE, span_id: bytes = SPAN, attributes: dict[str, Any] | None = None, **fields: Any
) -> LogRecord:
    """A log record with ids and a time."""
    fields = {"time_unix_nano": 1_500, **fields}
    return LogRecord(trace_id=trace_id, span_id=span_id, attributes=pairs(attributes or {}), **fields)


def traces(*spans: Span, resource: dict[str, Any] | None = None, scope: str = "test") -> bytes:
    """A trace request of one resource and one scope."""
    request = ExportTraceServiceRequest()
    entry = request.resource_spans.add()
    entry.resource.attributes.extend(pairs(resource or {}))
    inner = entry.scope_spans.add()
    inner.scope.name = scope
    inner.spans.extend(spans)
    return request.SerializeToString()


def logs(*records: LogRecord, resource: dict[str, Any] | None = None, scope: str = "test") -> bytes:
    """A log request of one resource and one scope."""
    request = ExportLogsServiceRequest()
    entry = request.resource_logs.add()
    entry.resource.attributes.extend(pairs(resource or {}))
    inner = entry.scope_logs.add()
    inner.scope.name = scope
    inner.log_records.extend(records)
    return request.SerializeToString()


def field(number: int, content: bytes) -> bytes:
    """A length-delimited protobuf field, by hand: for bytes that no class would write."""
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _varint(number: int) -> bytes:
    out = b""
    while number > 0x7F:
        out += bytes([number & 0x7F | 0x80])
        number >>= 7
    return out + bytes([number])


def frame(*items: bytes) -> bytes:
    """A request around raw spans or log records."""
    return field(1, field(2, b"".join(field(2, item) for item in items)))
