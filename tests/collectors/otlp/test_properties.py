from __future__ import annotations

import contextlib
import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from collectors.otlp.body import Compression, TooLarge, unpack
from collectors.otlp.request import decode, from_json, select, split
from collectors.sink import MalformedRequest, RejectReason, Signal
from tests.collectors.otlp.build import SPAN, TRACE, frame, span, traces

signals = st.sampled_from(Signal)
quick = settings(max_examples=150, deadline=None)

json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(["resourceSpans", "scopeSpans", "spans", "attributes", "key", "value", "stringValue", "intValue", "arrayValue",
                         "values", "traceId", "spanId", "resource", "scope", "status", "kind", "resourceLogs", "scopeLogs", "logRecords", "body"]),
        inner, max_size=4,
    ),
    max_leaves=30,
)  # fmt: skip
attribute_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=12,
)


def use(body: bytes, signal: Signal) -> None:
    """Do all that intake and assembly do with a request."""
    request = split(body, signal)
    request.rejection()
    everything = range(len(request.items))
    decoded = decode(body, signal)
    assert len(decoded.spans) + len(decoded.logs) + decoded.skipped == len(request.items)
    readable = [bool(item.trace_id) and item.fault is not RejectReason.INVALID_ID for item in request.items]
    assert readable.count(True) == len(decoded.ordinals)  # one with an impossible time is, and is rejected
    assert split(select(body, signal, everything), signal).items == request.items
    assert split(request.keeping([]), signal).items == []


@quick
@given(st.binary(max_size=300), signals)
def test_arbitrary_bytes_are_taken_or_malformed(body: bytes, signal: Signal) -> None:
    """Whatever comes over the wire, nothing but MalformedRequest is raised."""
    with contextlib.suppress(MalformedRequest):
        use(body, signal)
    with contextlib.suppress(MalformedRequest):
        use(from_json(body, signal).body, signal)


@quick
@given(st.lists(st.binary(max_size=80), min_size=1, max_size=4), signals)
def test_arbitrary_spans_in_a_right_frame_are_taken_or_malformed(raws: list[bytes], signal: Signal) -> None:
    """Spans of arbitrary bytes, beside a right one, are marked and never raise."""
    use(frame(span().SerializeToString(), *raws), Signal.TRACES)
    with contextlib.suppress(MalformedRequest):
        use(frame(*raws), signal)


@quick
@given(json_values, signals)
def test_arbitrary_json_is_taken_or_malformed(value: Any, signal: Signal) -> None:
    """JSON of any shape raises nothing but MalformedRequest."""
    with contextlib.suppress(MalformedRequest):
        use(from_json(json.dumps(value).encode(), signal).body, signal)


@quick
@given(st.integers(0, 400), st.integers(0, 255))
def test_a_damaged_request_is_taken_or_malformed(place: int, byte: int) -> None:
    """A right request with one byte changed raises nothing but MalformedRequest."""
    body = bytearray(
        traces(span(name="x" * 50, attributes={"a": [1, {"b": "c"}], "d": "e" * 100}), span(), resource={"r": "s"})
    )
    body[place % len(body)] = byte
    with contextlib.suppress(MalformedRequest):
        use(bytes(body), Signal.TRACES)


@quick
@given(st.dictionaries(st.text(), attribute_values, max_size=5), st.text())
def test_what_is_sent_is_what_is_decoded(attributes: dict[str, Any], name: str) -> None:
    """Attributes and names come back as they were, through protobuf and through select."""
    body = traces(span(TRACE, SPAN, attributes, name=name))
    for form in (body, select(body, Signal.TRACES, [0])):
        (found,) = decode(form, Signal.TRACES).spans
        assert (found.attributes, found.name) == (attributes, name)


@quick
@given(st.binary(max_size=200), st.sampled_from(Compression), st.integers(0, 300))
def test_arbitrary_packed_bodies_are_unpacked_or_refused(body: bytes, compression: Compression, limit: int) -> None:
    """Unpacking raises nothing but TooLarge and MalformedRequest, and never gives more than the limit."""
    with contextlib.suppress(TooLarge, MalformedRequest):
        assert len(unpack(body, compression, limit)) <= limit
