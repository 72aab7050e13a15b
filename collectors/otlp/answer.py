"""The bodies of OTLP answers, in the encoding of the request (OTLP specification, "OTLP/HTTP Response" and "OTLP/gRPC Response")."""

from __future__ import annotations

import json
import math
from enum import IntEnum
from typing import Any

from collectors.otlp import schema
from collectors.sink import Accepted, Encoding, Signal

RETRY_INFO_TYPE = "type.googleapis.com/google.rpc.RetryInfo"
LONGEST_RETRY_SECONDS = 3
"""The Python SDK gives a batch up when a delay exceeds the rest of its 10 s; so 1 to 3 s are asked for, never more."""


class StatusCode(IntEnum):
    """The codes of google.rpc.Status that receivers answer with."""

    INVALID_ARGUMENT = 3
    NOT_FOUND = 5
    RESOURCE_EXHAUSTED = 8
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    UNAUTHENTICATED = 16


_FIELDS = {
    Signal.TRACES: (schema.TraceResponse, "rejected_spans", "rejectedSpans"),
    Signal.LOGS: (schema.LogsResponse, "rejected_log_records", "rejectedLogRecords"),
}


def success(accepted: Accepted, signal: Signal, encoding: Encoding) -> bytes:
    """The answer to a request that was taken; `partial_success` is unset when there is nothing to say."""
    if not (accepted.rejected or accepted.message):
        return b"{}" if encoding is Encoding.JSON else b""
    kind, field, key = _FIELDS[signal]
    if encoding is Encoding.JSON:
        partial: dict[str, Any] = {"errorMessage": accepted.message}
        if accepted.rejected:
            partial[key] = str(accepted.rejected)  # a 64-bit integer is a text in protobuf's JSON
        return _json({"partialSuccess": partial})
    answer = kind()
    setattr(answer.partial_success, field, accepted.rejected)
    answer.partial_success.error_message = accepted.message.encode()
    serialized: bytes = answer.SerializeToString()
    return serialized


def failure(code: StatusCode, message: str, encoding: Encoding) -> bytes:
    """The answer to a request that was refused: a google.rpc.Status."""
    if encoding is Encoding.JSON:
        return _json({"code": int(code), "message": message})
    serialized: bytes = schema.RpcStatus(code=code, message=message.encode()).SerializeToString()
    return serialized


def retry_seconds(asked: float) -> int:
    """A delay in whole seconds, 1 to 3."""
    return max(1, min(LONGEST_RETRY_SECONDS, math.ceil(asked))) if math.isfinite(asked) else LONGEST_RETRY_SECONDS


def retry_trailers(message: str, seconds: int) -> tuple[tuple[str, bytes], ...]:
    """The gRPC trailers that ask for a retry: the standard one, and the one that Python's exporter reads."""
    info = schema.RetryInfo()
    info.retry_delay.seconds = seconds
    status = schema.RpcStatus(code=StatusCode.UNAVAILABLE, message=message.encode())
    status.details.add(type_url=RETRY_INFO_TYPE.encode(), value=info.SerializeToString())
    return (
        ("google.rpc.retryinfo-bin", info.SerializeToString()),
        ("grpc-status-details-bin", status.SerializeToString()),
    )


def _json(answer: dict[str, Any]) -> bytes:
    return json.dumps(answer, separators=(",", ":")).encode()
