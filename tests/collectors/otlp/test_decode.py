from __future__ import annotations

import math
from typing import Any

import pytest
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.trace.v1 import trace_pb2

from collectors.otlp.decode import MAX_DEPTH, MAX_EVENTS
from collectors.otlp.request import decode
from collectors.sink import MalformedRequest, Signal
from collectors.span import LogRecord, Resource, Scope, Span, SpanEvent, SpanLink, StatusCode
from tests.collectors.otlp.build import SPAN, TRACE, any_value, field, frame, logs, pairs, record, span, traces

T, L = Signal.TRACES, Signal.LOGS


def only(body: bytes) -> Span:
    (found,) = decode(body, T).spans
    return found


def attribute(value: Any) -> Any:
    return only(traces(span(attributes={"k": value}))).attributes["k"]


def test_every_field_of_a_span_is_read() -> None:
    """All that a span carries comes out as plain values, ids in lower-case hex."""
    made = span(
        parent_span_id=b"\xab" * 8, name="chat", kind=3, attributes={"a": 1}, trace_state="ot=th:8", flags=0x301,
        events=[trace_pb2.Span.Event(name="e", time_unix_nano=5, attributes=pairs({"x": "y"}))],
        links=[trace_pb2.Span.Link(trace_id=TRACE, span_id=SPAN, attributes=pairs({"l": True}))],
        status=trace_pb2.Status(code=2, message="broke"),
        dropped_attributes_count=1, dropped_events_count=2, dropped_links_count=3,
    )  # fmt: skip
    assert only(traces(made, resource={"service.name": "s"}, scope="lib")) == Span(
        trace_id="0102030405060708090a0b0c0d0e0f10", span_id="0102030405060708", parent_span_id="abababababababab",
        name="chat", kind=3, start_time_unix_nano=1_000, end_time_unix_nano=2_000, attributes={"a": 1},
        events=(SpanEvent("e", 5, {"x": "y"}),),
        links=(SpanLink("0102030405060708090a0b0c0d0e0f10", "0102030405060708", {"l": True}),),
        status_code=StatusCode.ERROR, status_message="broke", trace_state="ot=th:8", flags=0x301,
        dropped_attributes_count=1, dropped_events_count=2, dropped_links_count=3,
        resource=Resource({"service.name": "s"}), scope=Scope("lib"),
    )  # fmt: skip


def test_every_field_of_a_log_record_is_read() -> None:
    """All that a log record carries comes out as plain values."""
    made = record(event_name="gen_ai.choice", severity_number=9, body=any_value({"index": 0}), attributes={"a": "b"})
    expected = LogRecord(
        "0102030405060708090a0b0c0d0e0f10", "0102030405060708", "gen_ai.choice", 1_500, 9, {"index": 0}, {"a": "b"},
        Resource(), Scope("lib"),
    )  # fmt: skip
    assert decode(logs(made, scope="lib"), L).logs == [expected]


def test_defaults_are_protobufs() -> None:
    """A span with only its ids has the defaults of the protocol."""
    assert only(traces(span(start_time_unix_nano=0, end_time_unix_nano=0), scope="")) == Span(
        "0102030405060708090a0b0c0d0e0f10", "0102030405060708"
    )


@pytest.mark.parametrize(
    "value",
    ["text", "", "ünïcode 🎈", True, False, 0, -(2**63), 2**63 - 1, 0.5, math.inf, b"\x00\xff", b"", [], {}, None,
     [1, "two", [3.0, {"four": [None]}]], {"a": {"b": {"c": [True]}}}],
)  # fmt: skip
def test_values_of_every_kind_come_out(value: Any) -> None:
    """All kinds of AnyValue, nested ones too; an empty one is None."""
    found = attribute(value)
    assert found == value
    assert type(found) is type(value)


def test_of_a_key_given_twice_the_last_value_wins() -> None:
    """Duplicate attribute keys are forbidden and happen: the last value counts."""
    made = span()
    made.attributes.extend([*pairs({"k": 1}), *pairs({"other": 2}), *pairs({"k": 3})])
    assert only(traces(made)).attributes == {"k": 3, "other": 2}


@pytest.mark.parametrize(
    ("code", "status"), [(0, StatusCode.UNSET), (1, StatusCode.OK), (2, StatusCode.ERROR), (3, StatusCode.UNSET)]
)
def test_a_status_of_the_future_is_unset(code: int, status: StatusCode) -> None:
    """Unknown status codes are tolerated as UNSET."""
    assert only(traces(span(status=trace_pb2.Status(code=code)))).status_code is status  # type: ignore[arg-type]


def test_a_kind_of_the_future_is_kept_as_a_number() -> None:
    """Unknown span kinds are tolerated."""
    assert only(traces(span(kind=17))).kind == 17


def test_bad_utf8_is_replaced_and_counted_once_per_value() -> None:
    """Names, keys, values and states with wrong bytes are repaired by U+FFFD, each counted once."""
    bad = b"caf\xc3"
    pair = field(1, b"k\xff") + field(2, field(1, bad + b"\xff"))
    raw = field(1, TRACE) + field(2, SPAN) + field(3, bad) + field(5, bad) + field(9, pair)
    raw += field(15, field(2, bad)) + field(11, field(2, bad))
    decoded = decode(frame(raw), T)
    (found,) = decoded.spans
    assert found.name == found.status_message == found.trace_state == found.events[0].name == "caf\ufffd"
    assert found.attributes == {"k\ufffd": "caf\ufffd\ufffd"}
    assert decoded.repaired == 6


def test_a_text_cut_inside_a_character_keeps_its_request(shared: Any) -> None:
    """Public report text-cut-inside-a-character: both spans are taken and one value is repaired."""
    decoded = decode((shared / "cases/public-reports/text-cut-inside-a-character.otlp.pb").read_bytes(), T)
    assert len(decoded.spans) == 2
    assert decoded.spans[0].attributes["note"].endswith("\ufffd")  # type: ignore[union-attr]
    assert decoded.repaired == 1


def nested(depth: int) -> Any:
    value: Any = "leaf"
    for level in range(depth):
        value = [value] if level % 2 else {"k": value}
    return value


def test_nesting_is_read_to_the_cap_and_cut_below() -> None:
    """A value nested as deep as allowed is whole; one level more is cut to None and counted."""
    whole = decode(traces(span(attributes={"k": nested(20)})), T)
    assert (whole.spans[0].attributes["k"], whole.repaired) == (nested(20), 0)
    deepest, cut = raw_nested(MAX_DEPTH), raw_nested(MAX_DEPTH + 1)
    assert (depth_of(deepest.spans[0].attributes["k"]), deepest.repaired) == (MAX_DEPTH, 0)
    assert (depth_of(cut.spans[0].attributes["k"]), cut.repaired) == (MAX_DEPTH, 1)


def raw_nested(depth: int) -> Any:
    """A decoded span with arrays nested deeper than protobuf's own runtime reads."""
    value = b""
    for _ in range(depth):
        value = field(5, field(1, value))
    return decode(frame(field(1, TRACE) + field(2, SPAN) + field(9, field(1, b"k") + field(2, value))), T)


def depth_of(value: Any) -> int:
    depth = 0
    while isinstance(value, list):
        (value,), depth = value, depth + 1
    assert value is None
    return depth


def test_very_deep_nesting_never_raises() -> None:
    """Ten thousand levels cost one value, not the request."""
    value = b""
    for _ in range(10_000):
        value = field(5, field(1, value))
    decoded = decode(frame(field(1, TRACE) + field(2, SPAN) + field(9, field(1, b"k") + field(2, value))), T)
    assert (len(decoded.spans), decoded.repaired) == (1, 1)


def test_a_broken_inside_of_an_array_costs_that_value_only() -> None:
    """An array whose bytes are no ArrayValue is None and counted; the rest of the span is there."""
    pairs_ = field(9, field(1, b"bad") + field(2, field(5, b"\x0a\xff"))) + field(
        9, field(1, b"good") + field(2, field(1, b"x"))
    )
    decoded = decode(frame(field(1, TRACE) + field(2, SPAN) + pairs_), T)
    assert (decoded.spans[0].attributes, decoded.repaired) == ({"bad": None, "good": "x"}, 1)


def test_only_the_asked_items_are_decoded_in_order() -> None:
    """`ordinals` picks items; each keeps its resource and scope, and its place is told."""
    body = traces(span(name="a"), span(name="b"), resource={"r": 1}, scope="one") + traces(
        span(name="c"), resource={"r": 2}, scope="two"
    )
    decoded = decode(body, T, {2, 1})
    assert [(s.name, s.resource.attributes["r"], s.scope.name) for s in decoded.spans] == [
        ("b", 1, "one"),
        ("c", 2, "two"),
    ]
    assert decoded.ordinals == [1, 2]
    assert decode(body, T, []).spans == []


def test_items_with_wrong_ids_are_left_out() -> None:
    """No span comes out under an id that is not 32 and 16 hex digits."""
    body = frame(
        *(s.SerializeToString() for s in (span(trace_id=b"x"), span(span_id=b""), span(parent_span_id=b"x"), span())),
        b"\x07",
    )
    decoded = decode(body, T)
    assert (len(decoded.spans), decoded.ordinals, decoded.skipped) == (1, [3], 4)


def test_log_records_without_a_trace_are_left_out() -> None:
    """A log record of no trace has no place in an invocation."""
    decoded = decode(logs(record(trace_id=b""), record(span_id=b"xx"), record(span_id=b"")), L)
    assert ([r.span_id for r in decoded.logs], decoded.skipped) == ([""], 2)


def test_links_with_wrong_ids_are_left_out() -> None:
    """A link that names no span is none."""
    links = [trace_pb2.Span.Link(trace_id=TRACE, span_id=b"x"), trace_pb2.Span.Link(trace_id=TRACE, span_id=SPAN)]
    assert len(only(traces(span(links=links))).links) == 1


@pytest.mark.parametrize(
    ("made", "name"),
    [
        (record(event_name="new", attributes={"event.name": "old"}), "new"),
        (record(attributes={"event.name": "old"}), "old"),
        (record(attributes={"event.name": 7}), ""),
        (record(), ""),
    ],
)
def test_the_event_name_falls_back_to_the_attribute(made: Any, name: str) -> None:
    """Older SDKs put the event's name into an attribute."""
    assert decode(logs(made), L).logs[0].event_name == name


def test_the_time_of_a_log_record_falls_back_to_when_it_was_observed() -> None:
    """A record without its own time has that of its observation."""
    assert decode(logs(record(time_unix_nano=0, observed_time_unix_nano=9)), L).logs[0].time_unix_nano == 9


def test_an_attribute_without_value_is_none() -> None:
    """A key alone is a None."""
    made = span()
    made.attributes.append(KeyValue(key="k"))
    assert only(traces(made)).attributes == {"k": None}


def test_of_very_many_events_and_links_the_first_are_read() -> None:
    """The others count as dropped, beside those that the sender dropped: they must not fill the memory."""
    made = span(dropped_events_count=1)
    made.events.extend(trace_pb2.Span.Event(name=str(number)) for number in range(MAX_EVENTS + 2))
    made.links.extend(trace_pb2.Span.Link(trace_id=TRACE, span_id=SPAN) for _ in range(MAX_EVENTS + 3))
    found = only(traces(made))
    assert (len(found.events), found.events[-1].name, found.dropped_events_count) == (
        MAX_EVENTS,
        str(MAX_EVENTS - 1),
        3,
    )
    assert (len(found.links), found.dropped_links_count) == (MAX_EVENTS, 3)


def test_bytes_that_are_no_request_are_malformed() -> None:
    """Decoding says so instead of inventing spans."""
    with pytest.raises(MalformedRequest, match="ExportTraceServiceRequest"):
        decode(b"\xff\xff", T)
