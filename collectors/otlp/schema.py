"""OTLP's protobuf messages, redeclared for receiving.

Two things in the published declarations do not suit a receiver. A `string` field with one byte that is no UTF-8 makes the
protobuf runtime refuse the whole request; here every string is declared as `bytes`, which has the same wire form, and is repaired
where it is read. And values nested deeper than the runtime's limit do the same; here the inside of an array or
a map stays bytes until somebody looks at it. The declarations are derived from opentelemetry-proto's own descriptors, in a
descriptor pool of their own, so that nothing else in the process sees them.

A span's head is what intake reads of it. Its attributes are declared as a map, which has the same wire form as a list of
key and value: finding a key is then the runtime's work, and costs the same whatever the values weigh. The declaration is proto2,
where the texts that a map needs as keys are not checked.

The split form leaves spans, log records, resources and scopes as bytes. Traces and logs have the same outer field
numbers (trace.proto, logs.proto), so one declaration serves both signals.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message, message_factory
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2
from opentelemetry.proto.common.v1 import common_pb2
from opentelemetry.proto.logs.v1 import logs_pb2
from opentelemetry.proto.resource.v1 import resource_pb2
from opentelemetry.proto.trace.v1 import trace_pb2

DecodeError: type[Exception] = message.DecodeError
"""What a message class raises for bytes that are not its message."""

_Field = descriptor_pb2.FieldDescriptorProto
_NAME = ".rubricd.otlp."
_LAZY = {"AnyValue": ("array_value", "kvlist_value")}
_SOURCES = (common_pb2, resource_pb2, trace_pb2, logs_pb2, trace_service_pb2, logs_service_pb2)

_OWN = {
    "split.Request": (("resources", 1, "split.Resource", True),),
    "split.Resource": (
        ("resource", 1, bytes, True),
        ("scopes", 2, "split.Scope", True),
        ("schema_url", 3, bytes, False),
    ),
    "split.Scope": (
        ("scope", 1, bytes, True),
        ("items", 2, bytes, True),
        ("schema_url", 3, bytes, False),
    ),
    # google.rpc.Status and RetryInfo (googleapis, status.proto and error_details.proto), as error answers carry them.
    "rpc.Status": (("code", 1, int, False), ("message", 2, bytes, False), ("details", 3, "rpc.Any", True)),
    "rpc.Any": (("type_url", 1, bytes, False), ("value", 2, bytes, False)),
    "rpc.RetryInfo": (("retry_delay", 1, "rpc.Duration", False),),
    "rpc.Duration": (("seconds", 1, int, False), ("nanos", 2, int, False)),
}
"""Messages of our own: (field, number, type, repeated). A singular message that is given in pieces is merged by protobuf; a repeated
`bytes` field keeps the pieces, and their concatenation is the merged message.
"""


def _receivable(source: Any) -> descriptor_pb2.FileDescriptorProto:
    """A file's declarations with strings as bytes and nested values unparsed."""
    declared = descriptor_pb2.FileDescriptorProto.FromString(source.DESCRIPTOR.serialized_pb)
    pending = list(declared.message_type)
    while pending:
        entry = pending.pop()
        pending += entry.nested_type
        for field in entry.field:
            if field.type == _Field.TYPE_STRING:
                field.type = _Field.TYPE_BYTES
            elif field.name in _LAZY.get(entry.name, ()):
                field.type = _Field.TYPE_BYTES
                field.ClearField("type_name")
    return declared


def _own() -> descriptor_pb2.FileDescriptorProto:
    """The messages of `_OWN` as one file."""
    declared = descriptor_pb2.FileDescriptorProto(name="rubricd/otlp.proto", package="rubricd.otlp", syntax="proto3")
    scalars = {bytes: _Field.TYPE_BYTES, int: _Field.TYPE_INT64}
    for name, fields in _OWN.items():
        entry = declared.message_type.add(name=name.replace(".", "_"))
        for field_name, number, kind, repeated in fields:
            label = _Field.LABEL_REPEATED if repeated else _Field.LABEL_OPTIONAL
            field = entry.field.add(name=field_name, number=number, label=label)
            if isinstance(kind, str):
                field.type, field.type_name = _Field.TYPE_MESSAGE, ".rubricd.otlp." + kind.replace(".", "_")
            else:
                field.type = scalars[kind]
    return declared


def declare_span(
    declared: descriptor_pb2.FileDescriptorProto, name: str, scalars: Sequence[str], *, values_are_bytes: bool = False
) -> None:
    """Declare a span of package `rubricd.otlp` with those plain fields, its attributes as a map, and the rest as published.

    With `values_are_bytes` the map's values, AnyValue messages, are left as they came, which has the same wire form.
    """
    span = declared.message_type.add(name=name)
    types = {
        "attributes": f".rubricd.otlp.{name}.AttributesEntry",
        "events": ".opentelemetry.proto.trace.v1.Span.Event",
        "links": ".opentelemetry.proto.trace.v1.Span.Link",
        "status": ".opentelemetry.proto.trace.v1.Status",
    }
    for field in (*scalars, *types):
        known = trace_pb2.Span.DESCRIPTOR.fields_by_name[field]
        label = _Field.LABEL_REPEATED if known.is_repeated else _Field.LABEL_OPTIONAL
        span.field.add(name=field, number=known.number, type=known.type, type_name=types.get(field), label=label)
    entry = span.nested_type.add(name="AttributesEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=_Field.TYPE_STRING, label=_Field.LABEL_OPTIONAL)
    value = entry.field.add(name="value", number=2, label=_Field.LABEL_OPTIONAL)
    if values_are_bytes:
        value.type = _Field.TYPE_BYTES
    else:
        value.type, value.type_name = _Field.TYPE_MESSAGE, ".opentelemetry.proto.common.v1.AnyValue"


def _span_head() -> descriptor_pb2.FileDescriptorProto:
    """The head of a span; what is nested in it is declared as in a whole span, so that the same bytes are malformed. And a request
    of such heads, otherwise as in the split form.
    """
    declared = descriptor_pb2.FileDescriptorProto(name="rubricd/head.proto", package="rubricd.otlp", syntax="proto2")
    declared.dependency.extend(source.DESCRIPTOR.name for source in (common_pb2, trace_pb2))
    declare_span(
        declared, "SpanHead", ("trace_id", "span_id", "parent_span_id", "start_time_unix_nano", "end_time_unix_nano")
    )
    for name, outer, inner, kind in (
        ("HeadScope", "scope", "items", "SpanHead"),
        ("HeadResource", "resource", "scopes", "HeadScope"),
    ):
        level = declared.message_type.add(name=name)
        level.field.add(name=outer, number=1, type=_Field.TYPE_BYTES, label=_Field.LABEL_REPEATED)
        level.field.add(
            name=inner, number=2, type=_Field.TYPE_MESSAGE, type_name=_NAME + kind, label=_Field.LABEL_REPEATED
        )
    request = declared.message_type.add(name="HeadRequest").field.add(name="resources", number=1)
    request.type, request.type_name, request.label = _Field.TYPE_MESSAGE, _NAME + "HeadResource", _Field.LABEL_REPEATED
    return declared


def _pool() -> Any:
    pool = descriptor_pool.DescriptorPool()
    for source in _SOURCES:
        pool.AddSerializedFile(_receivable(source).SerializeToString())
    for declared in (_own(), _span_head()):
        pool.AddSerializedFile(declared.SerializeToString())
    return pool


_POOL = _pool()


def _class(name: str) -> Any:
    return message_factory.GetMessageClass(_POOL.FindMessageTypeByName(name))


# Message classes are made at run time by protobuf, which has no types for them: hence Any.
SplitRequest: Any = _class("rubricd.otlp.split_Request")
SpanHead: Any = _class("rubricd.otlp.SpanHead")
HeadRequest: Any = _class("rubricd.otlp.HeadRequest")

Span: Any = _class("opentelemetry.proto.trace.v1.Span")
LogRecord: Any = _class("opentelemetry.proto.logs.v1.LogRecord")
Resource: Any = _class("opentelemetry.proto.resource.v1.Resource")
Scope: Any = _class("opentelemetry.proto.common.v1.InstrumentationScope")
ArrayValue: Any = _class("opentelemetry.proto.common.v1.ArrayValue")
KeyValueList: Any = _class("opentelemetry.proto.common.v1.KeyValueList")

TraceResponse: Any = _class("opentelemetry.proto.collector.trace.v1.ExportTraceServiceResponse")
LogsResponse: Any = _class("opentelemetry.proto.collector.logs.v1.ExportLogsServiceResponse")
RpcStatus: Any = _class("rubricd.otlp.rpc_Status")
RetryInfo: Any = _class("rubricd.otlp.rpc_RetryInfo")
