"""A span read only as far as somebody asks.

The attributes are declared as a map, as in `schema.SpanHead`, and their values as bytes: the runtime makes no Python object of what nobody asks for,
and does not look into it. Names and keys are texts, checked in passing. What is refused here is read, repaired and counted by `decode`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from opentelemetry.proto.common.v1 import common_pb2
from opentelemetry.proto.resource.v1 import resource_pb2
from opentelemetry.proto.trace.v1 import trace_pb2

from collectors.otlp.schema import declare_span

_NAME = "rubricd.otlp.LazySpan"
_SCALARS = ("trace_state", "span_id", "parent_span_id", "name", "start_time_unix_nano", "end_time_unix_nano")


def _declared() -> descriptor_pb2.FileDescriptorProto:
    declared = descriptor_pb2.FileDescriptorProto(name="rubricd/lazy.proto", package="rubricd.otlp", syntax="proto3")
    declared.dependency.extend(source.DESCRIPTOR.name for source in (common_pb2, trace_pb2))
    declare_span(declared, "LazySpan", _SCALARS, values_are_bytes=True)
    return declared


def _class() -> Any:
    pool = descriptor_pool.DescriptorPool()
    for source in (common_pb2, resource_pb2, trace_pb2):
        pool.AddSerializedFile(source.DESCRIPTOR.serialized_pb)
    pool.AddSerializedFile(_declared().SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(_NAME))


LazySpan: Any = _class()
"""A span whose `attributes[key]` is the value's bytes, an AnyValue message (`text_in`, `count_in`)."""

_KEPT_BYTES = 1024**2
"""Of spans that are read into the same messages before these are given up: a message keeps all memory that it ever took."""


class BlankSpans:
    """Messages that one thread reads one trace after another into.

    The runtime gives each message memory of its own, in some pieces, and after every 10,000 pieces that are freed it returns all free memory of
    the process to the kernel (`malloc_trim`), from which it is taken anew at once: up to a fifteenth of what settling costs.
    """

    __slots__ = ("_size", "_spans")

    def __init__(self) -> None:
        self._spans: list[Any] = []
        self._size = 0

    def take(self, count: int, size: int) -> Sequence[Any]:
        """At least so many LazySpans to parse spans of `size` bytes into; the caller's until some are taken again."""
        if size > _KEPT_BYTES:
            return [LazySpan() for _ in range(count)]
        self._size += size
        if self._size > _KEPT_BYTES:
            self._spans, self._size = [], size
        self._spans += [LazySpan() for _ in range(count - len(self._spans))]
        return self._spans


CheckedResource: Any = resource_pb2.Resource
CheckedScope: Any = common_pb2.InstrumentationScope

_TEXT, _COUNT = 0x0A, 0x18  # tags of AnyValue's string_value and int_value
_SHORT = 0x80


def text_in(value: bytes) -> str | None:
    """The text of an attribute's value; None where it is none. Raises UnicodeDecodeError, and DecodeError for bytes that are no value."""
    if len(value) > 1 and value[0] == _TEXT and value[1] < _SHORT and len(value) == value[1] + 2:
        return value[2:].decode()
    found = common_pb2.AnyValue.FromString(value)
    return found.string_value if found.WhichOneof("value") == "string_value" else None


def count_in(value: bytes) -> int | None:
    """The whole number of an attribute's value; None where it is none. Raises DecodeError for bytes that are no value."""
    if len(value) == 2 and value[0] == _COUNT and value[1] < _SHORT:
        return value[1]
    found = common_pb2.AnyValue.FromString(value)
    return found.int_value if found.WhichOneof("value") == "int_value" else None
