from __future__ import annotations

import json
import math

import pytest
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from collectors.otlp import answer
from collectors.sink import Accepted, Encoding, Signal

T, L = Signal.TRACES, Signal.LOGS
PROTOBUF, JSON = Encoding.PROTOBUF, Encoding.JSON


def test_all_taken_leaves_partial_success_unset() -> None:
    """A request that was taken whole has an empty answer in both encodings."""
    assert answer.success(Accepted(3), T, PROTOBUF) == b""
    assert answer.success(Accepted(3), T, JSON) == b"{}"


def test_partial_success_counts_and_explains() -> None:
    """Rejected spans are counted with a message; log records have their own field."""
    accepted = Accepted(1, 2, "spans[1].spanId: wrong")
    traces = ExportTraceServiceResponse.FromString(answer.success(accepted, T, PROTOBUF)).partial_success
    assert (traces.rejected_spans, traces.error_message) == (2, "spans[1].spanId: wrong")
    assert (
        ExportLogsServiceResponse.FromString(answer.success(accepted, L, PROTOBUF)).partial_success.rejected_log_records
        == 2
    )
    partial = {"rejectedSpans": "2", "errorMessage": "spans[1].spanId: wrong"}
    assert json.loads(answer.success(accepted, T, JSON)) == {"partialSuccess": partial}
    assert json.loads(answer.success(accepted, L, JSON))["partialSuccess"]["rejectedLogRecords"] == "2"


def test_a_warning_rejects_nothing() -> None:
    """A message without rejections is a warning: partial success with 0 rejected."""
    warned = Accepted(1, 0, "note")
    assert json.loads(answer.success(warned, T, JSON)) == {"partialSuccess": {"errorMessage": "note"}}
    assert (
        ExportTraceServiceResponse.FromString(answer.success(warned, T, PROTOBUF)).partial_success.error_message
        == "note"
    )


def test_failures_are_googles_status() -> None:
    """A refusal is a google.rpc.Status in the request's encoding."""
    status = Status.FromString(answer.failure(answer.StatusCode.INVALID_ARGUMENT, "wörong", PROTOBUF))
    assert (status.code, status.message) == (3, "wörong")
    assert json.loads(answer.failure(answer.StatusCode.UNAVAILABLE, "full", JSON)) == {"code": 14, "message": "full"}


@pytest.mark.parametrize(
    ("asked", "seconds"), [(0, 1), (-5, 1), (1.2, 2), (3, 3), (30, 3), (math.inf, 3), (math.nan, 3)]
)
def test_retry_delays_are_one_to_three_seconds(asked: float, seconds: int) -> None:
    """Longer delays make the Python SDK give the batch up."""
    assert answer.retry_seconds(asked) == seconds


def test_both_trailers_ask_for_a_retry() -> None:
    """Python's exporter reads the one trailer, the specification names the other."""
    trailers = dict(answer.retry_trailers("full", 2))
    assert RetryInfo.FromString(trailers["google.rpc.retryinfo-bin"]).retry_delay.seconds == 2
    status = Status.FromString(trailers["grpc-status-details-bin"])
    info = RetryInfo()
    assert status.details[0].Unpack(info)
    assert (status.code, info.retry_delay.seconds) == (14, 2)
