"""Sending export requests to an OTLP endpoint, over HTTP or gRPC, as an exporter does: retry what is retryable, say what was refused."""

from __future__ import annotations

import time
import urllib.error
import urllib.parse
import urllib.request
from typing import Any, Protocol

from collectors.otlp.schema import DecodeError, LogsResponse, TraceResponse
from collectors.sink import Signal

ATTEMPTS = 6
TIMEOUT_SECONDS = 30.0
MOST_WAIT_SECONDS = 30.0
_SERVICES = {
    Signal.TRACES: "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
    Signal.LOGS: "/opentelemetry.proto.collector.logs.v1.LogsService/Export",
}
_RETRYABLE_HTTP = frozenset({429, 502, 503, 504})


class NotDelivered(Exception):
    """The endpoint did not take a request; the message names the endpoint and says why."""


class Sender(Protocol):
    """Sends one request at a time, blocking. Raises NotDelivered after the last attempt, and for what is not to be repeated."""

    def send(self, body: bytes, signal: Signal) -> int:
        """Deliver one request (protobuf); how many of its spans or log records were refused (partial success)."""
        ...

    def close(self) -> None:
        """Release the connection."""
        ...


def sender(endpoint: str) -> Sender:
    """`http://host:4318` (or https) sends over HTTP, `grpc://host:4317` or `host:4317` over gRPC. Raises ValueError for anything else."""
    parts = urllib.parse.urlsplit(endpoint if "://" in endpoint else f"grpc://{endpoint}")
    if parts.scheme in ("http", "https") and parts.netloc:
        return HttpSender(endpoint)
    if parts.scheme == "grpc" and parts.hostname and parts.port:
        return GrpcSender(parts.netloc)
    raise ValueError(f"{endpoint!r} is no OTLP endpoint: write http://host:4318 or grpc://host:4317")


def _refused(answer: bytes, signal: Signal) -> int:
    """Rejected items of a partial success; an answer that is no OTLP response refuses nothing."""
    kind = TraceResponse if signal is Signal.TRACES else LogsResponse
    try:
        partial = kind.FromString(answer).partial_success
    except DecodeError:
        return 0
    return int(partial.rejected_spans if signal is Signal.TRACES else partial.rejected_log_records)


def _wait_seconds(retry_after: str | None) -> float:
    """A Retry-After of seconds, bounded; a date, or nothing, is one second."""
    try:
        return min(MOST_WAIT_SECONDS, max(0.0, float(retry_after or 1)))
    except ValueError:
        return 1.0


class HttpSender:
    """OTLP/HTTP with protobuf bodies."""

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/")

    def send(self, body: bytes, signal: Signal) -> int:
        """Deliver one request; how many of its items were refused."""
        request = urllib.request.Request(  # noqa: S310
            f"{self._url}/v1/{signal.value}",
            data=body,
            headers={"Content-Type": "application/x-protobuf"},
            method="POST",
        )
        for attempt in range(1, ATTEMPTS + 1):
            try:
                with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as answer:  # noqa: S310
                    return _refused(answer.read(), signal)
            except urllib.error.HTTPError as error:
                if error.code not in _RETRYABLE_HTTP or attempt == ATTEMPTS:
                    raise NotDelivered(f"{self._url} answered {error.code} {error.reason}") from error
                time.sleep(_wait_seconds(error.headers.get("Retry-After")))
            except OSError as error:
                if attempt == ATTEMPTS:
                    reason = getattr(error, "reason", error)
                    raise NotDelivered(f"{self._url} cannot be reached: {reason}") from error
                time.sleep(0.2 * attempt)
        raise AssertionError("the last attempt returns or raises")

    def close(self) -> None:
        """Nothing is held."""


class GrpcSender:
    """OTLP/gRPC without TLS."""

    def __init__(self, target: str) -> None:
        import grpc

        self._target = target
        self._grpc = grpc
        self._channel: Any = grpc.insecure_channel(target, options=[("grpc.max_send_message_length", -1)])
        self._calls = {signal: self._channel.unary_unary(path) for signal, path in _SERVICES.items()}

    def send(self, body: bytes, signal: Signal) -> int:
        """Deliver one request; how many of its items were refused."""
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return _refused(self._calls[signal](body, timeout=TIMEOUT_SECONDS), signal)
            except self._grpc.RpcError as error:
                if error.code() is not self._grpc.StatusCode.UNAVAILABLE or attempt == ATTEMPTS:
                    raise NotDelivered(f"{self._target} answered {error.code().name}: {error.details()}") from error
                time.sleep(0.5 * attempt)
        raise AssertionError("the last attempt returns or raises")

    def close(self) -> None:
        """Close the channel."""
        self._channel.close()
