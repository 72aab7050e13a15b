"""Requests put together from items as they came are those that `select` makes."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collectors.otlp.request import RawItems, decode, select
from collectors.sink import MalformedRequest, Signal


def request(shape: list[list[int]], *, length: int = 1) -> bytes:
    """Resources with scopes of so many spans each."""
    made = ExportTraceServiceRequest()
    number = 0
    for r, scopes in enumerate(shape):
        entry = made.resource_spans.add(schema_url="https://r" if r % 2 else "")
        entry.resource.attributes.add(key="service.name").value.string_value = f"service {r}"
        for s, count in enumerate(scopes):
            inner = entry.scope_spans.add(schema_url="https://s" if s % 2 else "")
            inner.scope.name = f"scope {s}" if s else ""
            for _ in range(count):
                number += 1
                inner.spans.add(trace_id=b"t" * 16, span_id=number.to_bytes(8, "big"), name="n" * (length * number))
    return made.SerializeToString()


SHAPES = st.lists(st.lists(st.integers(0, 3), max_size=3), min_size=1, max_size=3)


@given(SHAPES, st.sampled_from((1, 200, 9000)), st.data())
@settings(max_examples=60, deadline=None)
def test_items_put_together_again_are_the_request_without_the_others(
    shape: list[list[int]], length: int, data: st.DataObject
) -> None:
    """Whatever is chosen, of short and long spans: the same spans with their resources and scopes, in order."""
    body = request(shape, length=length)
    items = RawItems(body, Signal.TRACES)
    chosen = sorted(data.draw(st.sets(st.integers(0, max(0, len(items.items) - 1))))) if items.items else []
    made = items.request([items.items[ordinal] for ordinal in chosen])
    assert decode(made, Signal.TRACES).spans == decode(select(body, Signal.TRACES, chosen), Signal.TRACES).spans
    assert ExportTraceServiceRequest.FromString(made).ByteSize() == len(made)


def test_what_is_no_request_is_refused() -> None:
    """Bytes that are no protobuf."""
    with pytest.raises(MalformedRequest):
        RawItems(b"\xff\xff\xff", Signal.TRACES)
