from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from collectors.otlp.request import Converted, decode, from_json, split
from collectors.sink import MalformedRequest, RejectReason, Signal
from collectors.span import LogRecord, Span, SpanEvent, SpanLink, StatusCode

T, L = Signal.TRACES, Signal.LOGS
TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


def document(*spans: Any) -> bytes:
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": list(spans)}]}]}).encode()


def span(**fields: Any) -> dict[str, Any]:
    return {"traceId": TRACE, "spanId": SPAN, **fields}


def only(**fields: Any) -> Span:
    converted = from_json(document(span(**fields)), T)
    assert converted.message == ""
    (found,) = decode(converted.body, T).spans
    return found


def attribute(value: Any) -> Any:
    return only(attributes=[{"key": "k", "value": value}]).attributes["k"]


def refused(**fields: Any) -> Converted:
    """A request whose second span is wrong: it alone is rejected."""
    converted = from_json(document(span(), span(**fields)), T)
    assert [item.fault for item in split(converted.body, T).items] == [None, RejectReason.MALFORMED]
    return converted


def test_every_field_of_a_span_is_read() -> None:
    """All fields of OTLP/JSON's span are understood."""
    found = only(
        parentSpanId="ABABABABABABABAB", name="chat", kind=3, startTimeUnixNano="1700000000000000000",
        endTimeUnixNano=1700000004000000000, traceState="ot=th:8", flags=257, droppedAttributesCount=1,
        droppedEventsCount=2, droppedLinksCount=3, status={"code": 2, "message": "broke"},
        events=[{"name": "e", "timeUnixNano": "5", "attributes": [{"key": "x", "value": {"stringValue": "y"}}]}],
        links=[{"traceId": TRACE, "spanId": SPAN, "attributes": []}],
    )  # fmt: skip
    assert found == Span(
        TRACE, SPAN, "abababababababab", "chat", 3, 1700000000000000000, 1700000004000000000, {},
        (SpanEvent("e", 5, {"x": "y"}),), (SpanLink(TRACE, SPAN),), StatusCode.ERROR, "broke", "ot=th:8", 257, 1, 2, 3,
    )  # fmt: skip


def test_every_field_of_a_log_record_is_read() -> None:
    """All fields of OTLP/JSON's log record are understood, with resource and scope."""
    body = {
        "resourceLogs": [{
            "resource": {"attributes": [{"key": "service.name", "value": {"stringValue": "s"}}]},
            "scopeLogs": [{
                "scope": {"name": "lib", "version": "1", "attributes": [{"key": "a", "value": {"boolValue": True}}]},
                "logRecords": [{"traceId": TRACE, "spanId": SPAN, "timeUnixNano": "7", "severityNumber": 9, "severityText": "INFO",
                                "eventName": "gen_ai.choice", "body": {"stringValue": "b"}}],
            }],
        }]
    }  # fmt: skip
    (found,) = decode(from_json(json.dumps(body).encode(), L).body, L).logs
    assert found.resource.attributes == {"service.name": "s"}
    assert (found.scope.name, found.scope.version, found.scope.attributes) == ("lib", "1", {"a": True})
    assert (found.event_name, found.body, found.time_unix_nano, found.severity_number) == ("gen_ai.choice", "b", 7, 9)
    assert isinstance(found, LogRecord)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"stringValue": "x"}, "x"),
        ({"stringValue": ""}, ""),
        ({"boolValue": False}, False),
        ({"intValue": "-9223372036854775808"}, -(2**63)),
        ({"intValue": 9223372036854775807}, 2**63 - 1),
        ({"intValue": 3.0}, 3),
        ({"doubleValue": 1}, 1.0),
        ({"doubleValue": "1.5"}, 1.5),
        ({"doubleValue": "Infinity"}, math.inf),
        ({"doubleValue": "-Infinity"}, -math.inf),
        ({"bytesValue": "AP8="}, b"\x00\xff"),
        ({"bytesValue": "-_8"}, b"\xfb\xff"),
        ({"arrayValue": {"values": [{"intValue": "1"}, {"stringValue": "a"}, {}]}}, [1, "a", None]),
        ({"arrayValue": {}}, []),
        ({"kvlistValue": {"values": [{"key": "a", "value": {"arrayValue": {"values": [{"boolValue": True}]}}}]}}, {"a": [True]}),
        ({}, None),
        (None, None),
        ({"stringValue": None}, None),
        ({"stringValue": "x", "future": 1}, "x"),
    ],
)  # fmt: skip
def test_values_of_every_kind_are_read(value: Any, expected: Any) -> None:
    """All kinds of AnyValue in all forms that protobuf's JSON mapping allows."""
    found = attribute(value)
    assert found == expected
    assert type(found) is type(expected)


def test_not_a_number_is_a_number() -> None:
    """NaN comes as a text, and from careless senders bare."""
    assert math.isnan(attribute({"doubleValue": "NaN"}))
    assert math.isnan(attribute({"doubleValue": math.nan}))


def test_nulls_and_unknown_keys_are_left_aside() -> None:
    """A null is the default, unknown keys are ignored, snake_case keys are unknown."""
    found = only(
        name=None,
        kind=None,
        attributes=None,
        status=None,
        events=None,
        aFieldFromTheFuture={"x": 1},
        end_time_unix_nano=5,
    )
    assert found == Span(TRACE, SPAN)


@pytest.mark.parametrize(("given", "number"), [(3, 3), ("SPAN_KIND_CLIENT", 3), ("3", 3), (99, 99)])
def test_enums_are_integers_and_names_are_understood(given: Any, number: int) -> None:
    """OTLP's enums are integers; senders that print the names are understood, and so are kinds of the future."""
    assert only(kind=given).kind == number


@pytest.mark.parametrize(
    ("fields", "place"),
    [
        ({"name": 7}, ".name: should be a string"),
        ({"kind": "CLIENT"}, ".kind: should be an integer"),
        ({"kind": 2**31}, ".kind: should be an integer"),
        ({"kind": True}, ".kind: should be an integer"),
        ({"startTimeUnixNano": "yesterday"}, ".startTimeUnixNano: should be an integer from 0 to 18446744073709551615"),
        ({"startTimeUnixNano": -1}, ".startTimeUnixNano: should be an integer from 0"),
        ({"startTimeUnixNano": 1.5}, ".startTimeUnixNano: should be an integer"),
        ({"startTimeUnixNano": 2**64}, ".startTimeUnixNano: should be an integer"),
        ({"flags": 2**32}, ".flags: should be an integer from 0 to 4294967295"),
        ({"attributes": {}}, ".attributes: should be a list"),
        ({"attributes": [1]}, ".attributes[0]: should be an object"),
        ({"attributes": [{}, {"key": 1}]}, ".attributes[1].key: should be a string"),
        ({"attributes": [{"key": "k", "value": "v"}]}, ".attributes[0].value: should be an object"),
        ({"attributes": [{"key": "k", "value": {"stringValue": 1}}]}, ".attributes[0].value.stringValue: should be a string"),
        ({"attributes": [{"key": "k", "value": {"boolValue": "true"}}]}, ".attributes[0].value.boolValue: should be true or false"),
        ({"attributes": [{"key": "k", "value": {"intValue": "x"}}]}, ".attributes[0].value.intValue: should be an integer"),
        ({"attributes": [{"key": "k", "value": {"intValue": True}}]}, ".attributes[0].value.intValue: should be an integer"),
        ({"attributes": [{"key": "k", "value": {"doubleValue": "x"}}]}, ".attributes[0].value.doubleValue: should be a number"),
        ({"attributes": [{"key": "k", "value": {"doubleValue": 10**400}}]}, ".attributes[0].value.doubleValue: should be a number"),
        ({"attributes": [{"key": "k", "value": {"bytesValue": "*"}}]}, ".attributes[0].value.bytesValue: should be base64 text"),
        ({"attributes": [{"key": "k", "value": {"bytesValue": 1}}]}, ".attributes[0].value.bytesValue: should be base64 text"),
        ({"attributes": [{"key": "k", "value": {"arrayValue": {"values": [{"intValue": "x"}]}}}]},
         ".attributes[0].value.arrayValue.values[0].intValue: should be an integer"),
        ({"status": "ok"}, ".status: should be an object"),
        ({"spanId": 7}, ".spanId: should be a string of 16 hex digits"),
        ({"events": [{"timeUnixNano": []}]}, ".events[0].timeUnixNano: should be an integer"),
    ],
)  # fmt: skip
def test_a_wrong_type_rejects_its_span_only(fields: dict[str, Any], place: str) -> None:
    """A span with a value of the wrong type or range is rejected alone, and the message names the place, not the value."""
    message = refused(**fields).message
    assert message.startswith(f"resourceSpans[0].scopeSpans[0].spans[1]{place}")
    assert "yesterday" not in message


def test_a_span_that_is_no_object_is_rejected_alone() -> None:
    """An element of `spans` that is no object does not take the others with it."""
    converted = from_json(document(span(), 7, span()), T)
    assert [item.valid for item in split(converted.body, T).items] == [True, False, True]
    assert converted.message == "resourceSpans[0].scopeSpans[0].spans[1]: should be an object"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ([], "the request: should be an object"),
        ({"resourceSpans": {}}, "resourceSpans: should be a list"),
        ({"resourceSpans": [1]}, "resourceSpans[0]: should be an object"),
        ({"resourceSpans": [{"scopeSpans": {}}]}, "resourceSpans[0].scopeSpans: should be a list"),
        ({"resourceSpans": [{}, {"scopeSpans": [[]]}]}, "resourceSpans[1].scopeSpans[0]: should be an object"),
        ({"resourceSpans": [{"scopeSpans": [{"spans": "x"}]}]}, "resourceSpans[0].scopeSpans[0].spans: should be a list"),
        ({"resourceSpans": [{"resource": 1}]}, "resourceSpans[0].resource: should be an object"),
        ({"resourceSpans": [{"scopeSpans": [{"scope": {"name": 1}}]}]}, "resourceSpans[0].scopeSpans[0].scope.name: should be a string"),
    ],
)  # fmt: skip
def test_a_request_of_the_wrong_shape_is_malformed_and_named(body: Any, message: str) -> None:
    """The frame of a request has to be right; the message says where it is not."""
    with pytest.raises(MalformedRequest) as raised:
        from_json(json.dumps(body).encode(), T)
    assert str(raised.value) == message


@pytest.mark.parametrize(
    "body", [b"", b"{", b"hello", b"\x00\x01", b'{"a": 1,}', b"1" * 5000, b"[" * 100_000, b'{"a":' * 100_000]
)
def test_text_that_is_no_json_is_malformed(body: bytes) -> None:
    """Whatever is no JSON, also what is nested past any stack, is a malformed request and nothing else."""
    with pytest.raises(MalformedRequest):
        from_json(body, T)


def test_json_errors_never_quote_the_body() -> None:
    """The message of a broken document names line and column, not what stands there."""
    with pytest.raises(MalformedRequest) as raised:
        from_json(b'{\n "secret": \\patient', T)
    assert str(raised.value) == "line 2 column 12: no JSON: Expecting value"


@pytest.mark.parametrize(
    "body", [{}, {"resourceSpans": []}, {"resourceSpans": [{}]}, {"resourceSpans": None}, {"resourceLogs": []}]
)
def test_empty_requests_are_fine(body: Any) -> None:
    """A request without spans is legal."""
    assert split(from_json(json.dumps(body).encode(), T).body, T).items == []


def test_nesting_is_cut_at_the_cap() -> None:
    """Values nested deeper than the cap are cut and counted; the span stays."""
    value: Any = {"stringValue": "leaf"}
    for _ in range(100):
        value = {"arrayValue": {"values": [value]}}
    converted = from_json(document(span(attributes=[{"key": "k", "value": value}])), T)
    assert converted.repaired == 1
    (found,) = decode(converted.body, T).spans
    depth, inner = 0, found.attributes["k"]
    while isinstance(inner, list):
        (inner,), depth = inner, depth + 1
    assert (depth, inner) == (64, None)


def test_lone_surrogates_and_wrong_bytes_are_repaired_once_per_value() -> None:
    """Halves of surrogate pairs and bytes that are no UTF-8 become U+FFFD, counted by value; whole pairs are characters."""
    body = document(span(name="N", attributes=[{"key": "K", "value": {"stringValue": "V"}}], traceState="T"))
    body = body.replace(b'"N"', b'"\\ud83c x \\udf88"').replace(b'"K"', b'"k\xc3"').replace(b'"V"', b'"\\ud83c\\udf88"')
    converted = from_json(body.replace(b'"T"', b'"\xff\xfe"'), T)
    (found,) = decode(converted.body, T).spans
    assert (found.name, found.attributes, found.trace_state) == ("\ufffd x \ufffd", {"k\ufffd": "🎈"}, "\ufffd\ufffd")
    assert converted.repaired == 3


def test_a_byte_order_mark_is_left_aside() -> None:
    """Documents of editors that write one are read."""
    assert len(split(from_json(b"\xef\xbb\xbf" + document(span()), T).body, T).items) == 1


@pytest.mark.parametrize(
    "wrong", ["", "zz" * 16, TRACE[:-1], TRACE + "00", TRACE[:-2] + " 1", " " + TRACE[:-1], "I4qjHnUk7+S2u8rQJgbcpw=="]
)
def test_ids_that_are_no_hex_of_the_right_length_reject_their_span_only(wrong: str) -> None:
    """No id is guessed: what is not exactly 32 hex digits is an invalid trace id of one span."""
    request = split(from_json(document(span(traceId=wrong), span()), T).body, T)
    assert [item.fault for item in request.items] == [RejectReason.INVALID_ID, None]
    assert "traceId" in request.rejection()


def test_ids_in_base64(shared: Path) -> None:
    """Public report ids-in-base64: hex ids are taken in either case, base64 ids rejected alone."""
    converted = from_json((shared / "cases/public-reports/ids-in-base64.otlp.json").read_bytes(), T)
    request = split(converted.body, T)
    assert [item.fault for item in request.items] == [None, RejectReason.INVALID_ID, None]
    assert request.rejection().startswith("resourceSpans[0].scopeSpans[0].spans[1].traceId: ")
    assert [s.trace_id for s in decode(converted.body, T).spans] == [
        "1891acf37bf6307bacb6760474327d5d",
        "2870b4f36909c37460dd19f87d906716",
    ]


def test_defaults_left_out_and_one_bad_span(shared: Path) -> None:
    """Public report defaults-left-out-and-one-bad-span: defaults are filled in, the span without id is rejected alone."""
    converted = from_json(
        (shared / "cases/public-reports/defaults-left-out-and-one-bad-span.otlp.json").read_bytes(), T
    )
    request = split(converted.body, T)
    assert [item.valid for item in request.items] == [True, False]
    assert "spans[1].spanId" in request.rejection()
    (found,) = decode(converted.body, T).spans
    assert (found.kind, found.status_code, found.flags) == (0, StatusCode.UNSET, 256)


def test_half_a_surrogate_pair(shared: Path) -> None:
    """Public report half-a-surrogate-pair: both invocations are taken, the half is one U+FFFD, and it is counted."""
    converted = from_json((shared / "cases/public-reports/half-a-surrogate-pair.otlp.json").read_bytes(), T)
    first, second = decode(converted.body, T).spans
    assert 'Sunny \ufffd"' in str(first.attributes["gen_ai.output.messages"])
    assert (converted.repaired, second.name) == (1, "invoke_agent postcard")


@pytest.mark.parametrize("case", ["same-batch-twice.1", "same-batch-twice.2", "two-versions-of-one-span.1", "two-versions-of-one-span.2",
                                  "spans-after-the-decision.1", "spans-after-the-decision.2"])  # fmt: skip
def test_every_other_public_intake_case_is_taken_whole(shared: Path, case: str) -> None:
    """The requests of the other intake cases are legal, every span of them."""
    converted = from_json((shared / f"cases/public-reports/{case}.otlp.json").read_bytes(), T)
    items = split(converted.body, T).items
    assert items
    assert all(item.valid for item in items)
