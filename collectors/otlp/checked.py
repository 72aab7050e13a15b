"""A span read only as far as somebody asks, and refused where not every text of it is valid Unicode.

The attributes are declared as a map, as in `schema.SpanHead`; unlike there the declarations are the published ones, so that the protobuf
runtime checks every text and every nested value in passing, without a Python object for any of them. What is refused here is read, repaired and
counted by `decode`.
"""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from opentelemetry.proto.common.v1 import common_pb2
from opentelemetry.proto.resource.v1 import resource_pb2
from opentelemetry.proto.trace.v1 import trace_pb2

from collectors.otlp.schema import declare_span

_NAME = "rubricd.otlp.CheckedSpan"
_SCALARS = ("trace_state", "span_id", "parent_span_id", "name", "start_time_unix_nano", "end_time_unix_nano")


def _declared() -> descriptor_pb2.FileDescriptorProto:
    declared = descriptor_pb2.FileDescriptorProto(name="rubricd/checked.proto", package="rubricd.otlp", syntax="proto3")
    declared.dependency.extend(source.DESCRIPTOR.name for source in (common_pb2, trace_pb2))
    declare_span(declared, "CheckedSpan", _SCALARS)
    return declared


def _class() -> Any:
    pool = descriptor_pool.DescriptorPool()
    for source in (common_pb2, resource_pb2, trace_pb2):
        pool.AddSerializedFile(source.DESCRIPTOR.serialized_pb)
    pool.AddSerializedFile(_declared().SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(_NAME))


CheckedSpan: Any = _class()
CheckedResource: Any = resource_pb2.Resource
CheckedScope: Any = common_pb2.InstrumentationScope
