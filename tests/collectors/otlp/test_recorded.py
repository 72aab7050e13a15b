"""Every recorded request against an independent decoding: protobuf's own JSON parser and opentelemetry-proto's own classes."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import json_format
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collectors.otlp.request import decode, from_json, split
from collectors.sink import Signal

REQUESTS = {Signal.TRACES: ExportTraceServiceRequest, Signal.LOGS: ExportLogsServiceRequest}


def recorded(shared: Path) -> Iterator[tuple[bytes, Signal]]:
    for ending, signal in (("otlp", Signal.TRACES), ("logs", Signal.LOGS)):
        for file in sorted((shared / "traces").glob(f"*/*.{ending}.jsonl")):
            yield from ((line, signal) for line in file.read_bytes().splitlines())


def with_base64_ids(value: Any) -> Any:
    """OTLP/JSON as the plain protobuf mapping: only the ids differ."""
    if isinstance(value, list):
        return [with_base64_ids(element) for element in value]
    if not isinstance(value, dict):
        return value
    return {
        key: base64.b64encode(bytes.fromhex(inner)).decode()
        if key in ("traceId", "spanId", "parentSpanId")
        else with_base64_ids(inner)
        for key, inner in value.items()
    }


def plain(value: Any) -> Any:
    """An AnyValue of the official classes as a Python value, told by another way than the product's."""
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [plain(element) for element in value.array_value.values]
    if kind == "kvlist_value":
        return {pair.key: plain(pair.value) for pair in value.kvlist_value.values}
    return None if kind is None else getattr(value, kind)


def attributes(owner: Any) -> dict[str, Any]:
    return {pair.key: plain(pair.value) for pair in owner.attributes}


@pytest.fixture(scope="module")
def requests(shared: Path) -> list[tuple[bytes, Signal, Any]]:
    """Recorded lines with what protobuf's own parser makes of them."""
    return [
        (line, signal, json_format.ParseDict(with_base64_ids(json.loads(line)), REQUESTS[signal]()))
        for line, signal in recorded(shared)
    ]


def test_json_becomes_the_protobuf_that_protobufs_own_parser_makes(requests: list[tuple[bytes, Signal, Any]]) -> None:
    """Our conversion of each recorded JSON request is equal, message by message, to that of google.protobuf.json_format."""
    assert len(requests) > 1000
    for line, signal, expected in requests:
        converted = from_json(line, signal)
        assert (converted.message, converted.repaired) == ("", 0)
        assert REQUESTS[signal].FromString(converted.body) == expected


def test_decoded_spans_equal_an_independent_reading(requests: list[tuple[bytes, Signal, Any]]) -> None:
    """Each recorded span, decoded from protobuf and from JSON, has the values that opentelemetry-proto's classes show."""
    count = 0
    for line, signal, expected in requests:
        if signal is not Signal.TRACES:
            continue
        body = expected.SerializeToString()
        decoded = decode(body, signal)
        assert decode(from_json(line, signal).body, signal) == decoded
        theirs = [(r, s, span) for r in expected.resource_spans for s in r.scope_spans for span in s.spans]
        assert len(decoded.spans) == len(theirs)
        for ours, (resource, scope, span) in zip(decoded.spans, theirs, strict=True):
            count += 1
            assert (ours.trace_id, ours.span_id, ours.parent_span_id) == (
                span.trace_id.hex(), span.span_id.hex(), span.parent_span_id.hex(),
            )  # fmt: skip
            assert (ours.name, ours.kind, ours.start_time_unix_nano, ours.end_time_unix_nano, ours.flags, ours.trace_state) == (
                span.name, span.kind, span.start_time_unix_nano, span.end_time_unix_nano, span.flags, span.trace_state,
            )  # fmt: skip
            assert (ours.status_code, ours.status_message) == (span.status.code, span.status.message)
            assert ours.attributes == attributes(span)
            assert [(e.name, e.time_unix_nano, e.attributes) for e in ours.events] == [
                (e.name, e.time_unix_nano, attributes(e)) for e in span.events
            ]
            assert [(link.trace_id, link.span_id) for link in ours.links] == [
                (k.trace_id.hex(), k.span_id.hex()) for k in span.links
            ]
            assert ours.resource.attributes == attributes(resource.resource)
            assert (ours.scope.name, ours.scope.version) == (scope.scope.name, scope.scope.version)
    assert count > 2000


def test_decoded_log_records_equal_an_independent_reading(requests: list[tuple[bytes, Signal, Any]]) -> None:
    """Each recorded log record of a trace has the values that opentelemetry-proto's classes show."""
    count = 0
    for line, signal, expected in requests:
        if signal is not Signal.LOGS:
            continue
        decoded = decode(expected.SerializeToString(), signal)
        assert decode(from_json(line, signal).body, signal) == decoded
        theirs = [rec for r in expected.resource_logs for s in r.scope_logs for rec in s.log_records if rec.trace_id]
        for ours, record in zip(decoded.logs, theirs, strict=True):
            count += 1
            assert (ours.trace_id, ours.span_id) == (record.trace_id.hex(), record.span_id.hex())
            assert ours.body == plain(record.body)
            assert ours.attributes == attributes(record)
            assert ours.event_name == (record.event_name or attributes(record)["event.name"])
            assert ours.time_unix_nano == (record.time_unix_nano or record.observed_time_unix_nano)
    assert count > 500


def test_every_recorded_item_of_a_trace_is_an_agents(requests: list[tuple[bytes, Signal, Any]]) -> None:
    """All recorded producers are GenAI: nothing of theirs with a trace id is dropped, rejected or taken for our own."""
    for line, signal, _ in requests:
        for item in split(from_json(line, signal).body, signal).items:
            assert item.valid
            assert not item.own_telemetry
            assert item.genai or not item.trace_id
