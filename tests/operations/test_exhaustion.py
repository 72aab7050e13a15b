"""Clients that are slow, too large or too many: refused, counted, and no trouble for the others."""

from __future__ import annotations

import gzip
import json
import socket
import time

import grpc
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import TraceServiceStub

from tests.operations.conftest import Start
from tests.operations.running import answered, configuration, send
from tests.support.daemon import Daemon, wait_for

JSON = {"Content-Type": "application/json"}
MIB = 1024 * 1024


def small(daemon: Daemon) -> dict[str, object]:
    """Receivers that take one MiB."""
    protocols = {
        "grpc": {"endpoint": f"127.0.0.1:{daemon.grpc_port}", "max_request_size": "1MiB"},
        "http": {"endpoint": f"127.0.0.1:{daemon.http_port}", "max_request_size": "1MiB"},
    }
    return configuration(collectors={"otlp": {"protocols": protocols}})


def test_what_is_too_large_is_refused(start: Start) -> None:
    """A body over the limit, one that unpacks to far more, and a gRPC message over it are refused for good and counted, and memory stays low."""
    daemon = start(small)
    send(daemon, 1)
    before = daemon.peak_memory()
    assert answered(daemon.http_port, "POST", "/v1/traces", b" " * (MIB + 1), JSON)[0] == 413
    bomb = gzip.compress(b" " * (512 * MIB), 1)
    assert len(bomb) < 3 * MIB
    packed = gzip.compress(b" " * (200 * MIB), 9)
    assert len(packed) < MIB
    for _ in range(3):
        status, _, _ = answered(daemon.http_port, "POST", "/v1/traces", packed, JSON | {"Content-Encoding": "gzip"})
        assert status == 413
    request = ExportTraceServiceRequest()
    request.resource_spans.add().resource.attributes.add(key="k").value.string_value = "x" * (2 * MIB)
    with grpc.insecure_channel(f"127.0.0.1:{daemon.grpc_port}") as channel, pytest.raises(grpc.RpcError) as refused:
        TraceServiceStub(channel).Export(request, timeout=10)
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert daemon.metric("rubricd_spans_rejected_total", reason="too_large") == 5
    assert daemon.peak_memory() - before < 64
    assert answered(daemon.server_port, "POST", "/-/reload", b"x" * (2 * MIB))[0] == 413
    assert answered(daemon.http_port, "POST", "/v1/traces", b"{}", JSON | {"X-Long": "x" * 100_000})[0] == 400
    send(daemon, 1)
    assert daemon.stop() == 0


def test_slow_clients_hold_up_nobody(start: Start) -> None:
    """Hundreds of connections that begin a request and say no more, on each port: traffic, probes and metrics go on as before."""
    daemon = start(small)
    half = {
        daemon.http_port: b"POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n{",
        daemon.server_port: b"GET /metrics HTTP/1.1\r\nHost:",
        daemon.grpc_port: b"PRI * HTTP/2.0\r\n",
    }
    held: list[socket.socket] = []
    try:
        for port, text in half.items():
            for _ in range(100):
                held.append(socket.create_connection(("127.0.0.1", port), 5))
                held[-1].sendall(text)
        began = time.monotonic()
        ids = send(daemon, 5)
        assert daemon.status("/readyz") == 200
        assert time.monotonic() - began < 5
        wait_for(lambda: {one["trace_id"] for one in daemon.items("/api/v1/verdicts?since=1h")} == ids, "verdicts")
    finally:
        for connection in held:
            connection.close()
    assert daemon.stop() == 0


def test_connections_are_bounded(start: Start) -> None:
    """Beyond the bound a new connection is closed at once, what is connected goes on, and room comes back with the connections that end."""
    from collectors.otlp.connections import MOST_CONNECTIONS

    daemon = start(small)
    held = [socket.create_connection(("127.0.0.1", daemon.server_port), 5) for _ in range(MOST_CONNECTIONS["server"])]
    try:
        with socket.create_connection(("127.0.0.1", daemon.server_port), 5) as one_too_many:
            one_too_many.settimeout(5)
            assert one_too_many.recv(1) == b""
        held[0].sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert json.loads(held[0].recv(4096).partition(b"\r\n\r\n")[2]) == {"status": "ok"}
        send(daemon, 1)
    finally:
        for connection in held:
            connection.close()
    wait_for(lambda: daemon.process is not None and answers(daemon), "room for new connections", 10)
    assert daemon.stop() == 0


def answers(daemon: Daemon) -> bool:
    """Whether a new connection is served."""
    try:
        return daemon.status("/healthz") == 200
    except OSError:
        return False
