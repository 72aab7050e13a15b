"""More than the machine takes: a flood beside a polite sender, the largest requests, and very many small ones, on a real process."""

from __future__ import annotations

import contextlib
import gzip
import os
import socket
import struct
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pytest

from tests.operations.conftest import Start
from tests.operations.running import configuration, send
from tests.support.daemon import Daemon, wait_for
from tests.support.load import PROTOBUF, GrpcPoster, HttpPoster, Run, agent_run

MIB = 1024 * 1024
SMALL_REQUESTS = int(os.environ.get("RUBRICD_SMALL_REQUESTS", "1000"))
"""Requests of one span in one test; `make torture` sends 10,000."""

FLOODING = 64


def receivers(daemon: Daemon, size: str) -> dict[str, object]:
    """Receivers whose largest request is `size`."""
    ports = {"grpc": daemon.grpc_port, "http": daemon.http_port}
    protocols = {name: {"endpoint": f"127.0.0.1:{port}", "max_request_size": size} for name, port in ports.items()}
    return configuration(collectors={"otlp": {"protocols": protocols}})


@contextlib.contextmanager
def flood(port: int, body: bytes) -> Iterator[list[int]]:
    """Connections that send and send; the statuses of their answers."""
    statuses: list[int] = []
    stop = threading.Event()

    def send() -> None:
        poster = HttpPoster(port)
        while not stop.is_set():
            poster.post(body)
            statuses.append(poster.status)
        poster.close()

    threads = [threading.Thread(target=send) for _ in range(FLOODING)]
    for thread in threads:
        thread.start()
    try:
        yield statuses
    finally:
        stop.set()
        for thread in threads:
            thread.join(30)


def test_a_flood_starves_nobody(start: Start) -> None:
    """Beside 64 connections that send more than fits, each request of another address is acknowledged at once; the flood is told to wait, and afterwards all is as before."""
    daemon = start(lambda made: receivers(made, "1MiB"))
    polite = HttpPoster(daemon.http_port, source="127.0.0.2")
    runs, waits = [agent_run() for _ in range(15)], []
    with flood(daemon.http_port, agent_run(pad=600_000).requests[0]) as statuses:
        wait_for(lambda: 503 in statuses, "the flood to be refused")
        for run in runs:
            began = time.monotonic()
            assert polite.post(run.requests[0]), f"status {polite.status}"
            waits.append(time.monotonic() - began)
    polite.close()
    assert max(waits) < 5.0, waits
    assert set(statuses) == {200, 503}
    refused = daemon.metric("rubricd_spans_rejected_total", reason="overloaded") or 0
    assert refused >= statuses.count(503) > 0
    send(daemon, 1)
    wanted = {run.trace_id for run in runs}
    wait_for(
        lambda: wanted <= {one["trace_id"] for one in daemon.items("/api/v1/invocations?since=1h")}, "all runs", 60
    )


@pytest.fixture
def large() -> bytes:
    """A request of nearly 64 MiB."""
    return agent_run(pad=63 * MIB).requests[0]


def deliver(poster: HttpPoster | GrpcPoster, body: bytes) -> None:
    """Send as exporters do: again when told to, since a busy machine may need longer than 10 s for so much."""
    assert any(poster.post(body) for _ in range(5))
    poster.close()


def test_the_largest_requests_are_taken(start: Start, large: bytes) -> None:
    """Requests of 63 MiB are taken over both transports, packed and not; what is over 64 MiB is refused; memory is bounded."""
    daemon = start(configuration())
    assert 63 * MIB < len(large) < 64 * MIB
    packed = PROTOBUF | {"Content-Encoding": "gzip"}
    sender = GrpcPoster(daemon.grpc_port)
    deliver(HttpPoster(daemon.http_port), large)
    deliver(HttpPoster(daemon.http_port, headers=packed), gzip.compress(large, 1))
    deliver(GrpcPoster(daemon.grpc_port), large)
    assert not sender.post(large + large[: 2 * MIB])
    assert sender.code is grpc.StatusCode.INVALID_ARGUMENT
    sender.close()
    wait_for(lambda: daemon.metric("rubricd_spans_settled_total") == 3, "the trace to settle", 60)
    assert counts(daemon, "spans_received") >= [9]
    assert daemon.peak_memory() < 1500  # 250 MiB for each of them, and what settling holds
    assert daemon.stop() == 0


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """A daemon that several tests send to."""
    made = Daemon(tmp_path_factory.mktemp("shared"), configuration()).start()
    yield made
    made.kill()


def counts(daemon: Daemon, *names: str) -> list[float]:
    """The sums of these counters."""
    return [daemon.metric(f"rubricd_{name}_total") or 0.0 for name in names]


def test_very_many_requests_of_one_span(daemon: Daemon) -> None:
    """Every span of traces that come span by span over kept connections is counted, and in its invocation."""
    tools = 49
    received, dropped = counts(daemon, "spans_received", "spans_dropped")
    runs = [agent_run(tools, one_by_one=True) for _ in range(SMALL_REQUESTS // (tools + 1))]

    def deliver_all(some: list[Run]) -> int:
        poster = HttpPoster(daemon.http_port)
        taken = [poster.post(run.requests[place]) for place in range(tools + 1) for run in some]
        poster.close()
        assert all(taken)
        return poster.connections

    with ThreadPoolExecutor(8) as senders:
        assert set(senders.map(deliver_all, [runs[number::8] for number in range(8)])) == {1}
    wanted = {run.trace_id: tools for run in runs}

    def arrived() -> dict[str, int]:
        found = daemon.items("/api/v1/invocations?since=1h")
        return {one["trace_id"]: len(one["tool_calls"]) for one in found if one["trace_id"] in wanted}

    wait_for(lambda: arrived() == wanted, "all invocations", 60)
    assert counts(daemon, "spans_received", "spans_dropped") == [received + len(runs) * (tools + 1), dropped]


def test_a_lost_reply_doubles_nothing(daemon: Daemon) -> None:
    """A client that never hears of its acknowledgement sends the same again, over both transports: one invocation, the copies are counted."""
    received, duplicates = counts(daemon, "spans_received", "duplicate_spans")
    run = agent_run()
    body = run.requests[0]
    head = f"POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-protobuf\r\nContent-Length: {len(body)}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", daemon.http_port), 5) as client:
        client.sendall(head.encode() + body)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # gone with a reset
    wait_for(lambda: counts(daemon, "spans_received") == [received + 3], "the request to be taken")
    for poster in (HttpPoster(daemon.http_port), GrpcPoster(daemon.grpc_port)):
        assert poster.post(body)
        poster.close()
    wait_for(lambda: counts(daemon, "duplicate_spans") == [duplicates + 6], "the copies to be counted")

    def of_run(listing: str) -> list[Any]:
        return [one for one in daemon.items(f"/api/v1/{listing}?since=1h") if one["trace_id"] == run.trace_id]

    wait_for(lambda: of_run("verdicts"), "its verdict")
    assert [len(one["tool_calls"]) for one in of_run("invocations")] == [2]
    assert len(of_run("verdicts")) == 1


BROKEN = [
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(32),  # TLS to a port without
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"GET / HTTP/1.1\r\n\r\n",
    b"POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 10\r\n\r\n{",
    b"POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: -1\r\n\r\n{}",
    b"POST /v1/traces HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\nSECRET",
    b"POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Encoding: gzip\r\nContent-Type: application/json\r\nContent-Length: 6\r\n\r\n\x1f\x8bcut!",
    b"SECRET" * 10_000,
]


def test_broken_clients_hurt_nobody(daemon: Daemon) -> None:
    """Bytes of all kinds on both ports, and connections that are reset in between: the next sender is served, nothing is an error of ours, and nothing is quoted."""
    for port in (daemon.http_port, daemon.grpc_port, daemon.server_port):
        for number, text in enumerate(BROKEN):
            with socket.create_connection(("127.0.0.1", port), 5) as client, contextlib.suppress(ConnectionError):
                client.sendall(text)
                if number % 2:
                    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                elif port != daemon.grpc_port:
                    client.shutdown(socket.SHUT_WR)
                    client.settimeout(5)
                    answer = b"".join(iter(lambda: client.recv(65536), b""))
                    assert b"SECRET" not in answer
    run, sender = agent_run(), GrpcPoster(daemon.grpc_port)
    wanted = {*send(daemon, 2), run.trace_id}
    assert sender.post(run.requests[0])
    sender.close()
    wait_for(
        lambda: wanted <= {one["trace_id"] for one in daemon.items("/api/v1/invocations?since=1h")},
        "the runs to be invocations",
    )
    assert '"level": "error"' not in daemon.log
    assert "SECRET" not in daemon.log
