"""Sending export requests to an OTLP endpoint, over HTTP or gRPC, as an exporter does: retry what is retryable, say what was refused."""

from __future__ import annotations

import time
import urllib.error
import urllib.parse
import urllib.request
from typing import Any, Protocol

from collectors.sink import Signal

ATTEMPTS = 6
TIMEOUT_SECONDS = 30.0
_SERVICES = {
    Signal.TRACES: "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
    Signal.LOGS: "/opentelemetry.proto.collector.logs.v1.LogsService/Export",
}
_RETRYABLE_HTTP = frozenset({429, 502, 503, 504})


class NotDelivered(Exception):
    """The endpoint did not take a request; the message names the endpoint and says why."""


class Sender(Protocol):
    """Sends one request at a time, blocking. Raises NotDelivered after the last attempt, and for what is not to be repeated."""

    def send(self, body: bytes, signal: Signal) -> None:
        """Deliver one request (protobuf)."""
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
        return GrpcSender(f"{parts.hostname}:{parts.port}")
    raise ValueError(f"{endpoint!r} is no OTLP endpoint: write http://host:4318 or grpc://host:4317")


class HttpSender:
    """OTLP/HTTP with protobuf bodies."""

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/")

    def send(self, body: bytes, signal: Signal) -> None:
        """Deliver one request."""
        request = urllib.request.Request(  # noqa: S310
            f"{self._url}/v1/{signal.value}",
            data=body,
            headers={"Content-Type": "application/x-protobuf"},
            method="POST",
        )
        for attempt in range(1, ATTEMPTS + 1):
            try:
                with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as answer:  # noqa: S310
                    answer.read()
                    return
            except urllib.error.HTTPError as error:
                if error.code not in _RETRYABLE_HTTP or attempt == ATTEMPTS:
                    raise NotDelivered(f"{self._url} answered {error.code} {error.reason}") from error
                time.sleep(float(error.headers.get("Retry-After") or 1))
            except OSError as error:
                if attempt == ATTEMPTS:
                    reason = getattr(error, "reason", error)
                    raise NotDelivered(f"{self._url} cannot be reached: {reason}") from error
                time.sleep(0.2 * attempt)

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

    def send(self, body: bytes, signal: Signal) -> None:
        """Deliver one request."""
        for attempt in range(1, ATTEMPTS + 1):
            try:
                self._calls[signal](body, timeout=TIMEOUT_SECONDS)
                return
            except self._grpc.RpcError as error:
                if error.code() is not self._grpc.StatusCode.UNAVAILABLE or attempt == ATTEMPTS:
                    raise NotDelivered(f"{self._target} answered {error.code().name}: {error.details()}") from error
                time.sleep(0.5 * attempt)

    def close(self) -> None:
        """Close the channel."""
        self._channel.close()
