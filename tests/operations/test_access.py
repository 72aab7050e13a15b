"""Tokens, certificates and closed paths, end to end with real exporters and the real process."""

from __future__ import annotations

import os
import socket
import ssl
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import pytest
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpExporter
from opentelemetry.sdk.trace.export import SpanExporter

from tests.collectors.otlp.certificates import Authority
from tests.operations.conftest import Start
from tests.operations.running import answered, configuration, send
from tests.support.agents import provider, run_agent
from tests.support.daemon import Daemon, wait_for
from tests.support.judge_server import JudgeServer


def receivers(daemon: Daemon, **section: Any) -> dict[str, Any]:
    """Both receivers on the daemon's ports with a section in each."""
    return {
        "grpc": {"endpoint": f"127.0.0.1:{daemon.grpc_port}", **section},
        "http": {"endpoint": f"127.0.0.1:{daemon.http_port}", **section},
    }


def traced(exporter: SpanExporter) -> str:
    """One run through an exporter."""
    tracers = provider(exporter)
    trace_id = run_agent(tracers, "shop-bot", "A table.", "Done.")
    tracers.shutdown()
    return trace_id


def test_a_rotated_token_is_taken_over(start: Start, tmp_path: Path) -> None:
    """Receivers and API take the token that the file holds now: the old one is refused from the swap on, the new one serves, without a restart."""
    mounted = tmp_path / "secret"
    (mounted / "..1").mkdir(parents=True)
    (mounted / "..1" / "token").write_text("old-token\n")
    (mounted / "..data").symlink_to("..1")
    (mounted / "token").symlink_to("..data/token")
    auth = {"bearer_token_file": str(mounted / "token")}
    daemon = start(
        lambda made: configuration(
            collectors={"otlp": {"protocols": receivers(made, auth=auth)}},
            server={"endpoint": f"127.0.0.1:{made.server_port}", "auth": auth},
        )
    )

    def statuses(token: str) -> list[int]:
        bearer = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        return [
            answered(daemon.http_port, "POST", "/v1/traces", b"{}", bearer)[0],
            answered(daemon.server_port, "GET", "/api/v1/verdicts?since=1h", headers=bearer)[0],
            answered(daemon.server_port, "GET", "/api/v1/verdicts?since=1h")[0],
            answered(daemon.server_port, "GET", "/metrics")[0],
        ]

    assert statuses("old-token") == [200, 200, 401, 200]
    (mounted / "..2").mkdir()
    (mounted / "..2" / "token").write_text("new-token\n")
    (mounted / "..tmp").symlink_to("..2")
    (mounted / "..tmp").rename(mounted / "..data")
    assert statuses("old-token") == [401, 401, 401, 200]
    assert statuses("new-token") == [200, 200, 401, 200]
    traced(
        GrpcExporter(
            endpoint=f"127.0.0.1:{daemon.grpc_port}", insecure=True, headers={"authorization": "Bearer new-token"}
        )
    )
    text = answered(daemon.server_port, "GET", "/metrics")[2].decode()
    assert 'rubricd_spans_received_total{collector="otlp"} 2.0' in text
    assert 'rubricd_spans_rejected_total{collector="otlp",reason="unauthorized"} 1.0' in text
    assert "old-token" not in daemon.log
    assert "new-token" not in daemon.log


def test_certificates_are_asked_for(
    start: Start, tmp_path: Path, required_program: Callable[[str, str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """TLS on both receivers and the API: real exporters with a client certificate come in, without one they do not, and commands speak to the API."""
    for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)  # requests prefers these to what the exporter is given
    authority = Authority(required_program("openssl", "apt install openssl"), tmp_path / "ca")
    server, client = authority.issue("server"), authority.issue("client")
    mutual = {"cert_file": server.cert, "key_file": server.key, "client_ca_file": authority.file}
    (tmp_path / "token").write_text("api-token")
    served = {
        "tls": {"cert_file": server.cert, "key_file": server.key},
        "auth": {"bearer_token_file": str(tmp_path / "token")},
    }
    daemon = start(
        lambda made: configuration(
            collectors={"otlp": {"protocols": receivers(made, tls=mutual)}},
            server={"endpoint": f"127.0.0.1:{made.server_port}", **served},
        ),
        ready=False,
    )
    trusted = ssl.create_default_context(cafile=authority.file)

    def get(path: str, token: str = "") -> bytes:
        request = urllib.request.Request(f"https://127.0.0.1:{daemon.server_port}{path}")
        request.add_header("Authorization", f"Bearer {token}")
        with urllib.request.urlopen(request, timeout=10, context=trusted) as answer:
            return bytes(answer.read())

    def ready() -> bool:
        try:
            return b"ready" in get("/readyz")
        except OSError:
            return False

    wait_for(ready, "the daemon over TLS")
    credentials = grpc.ssl_channel_credentials(
        *(Path(name).read_bytes() for name in (authority.file, client.key, client.cert))
    )
    ids = {traced(GrpcExporter(endpoint=f"localhost:{daemon.grpc_port}", credentials=credentials))}
    url = f"https://localhost:{daemon.http_port}/v1/traces"
    ids.add(traced(HttpExporter(
        endpoint=url, certificate_file=authority.file, client_certificate_file=client.cert, client_key_file=client.key
    )))  # fmt: skip
    wait_for(lambda: get("/metrics").count(b'spans_received_total{collector="otlp"} 4.0'), "both runs to come in")
    assert answer_to_stranger(daemon.http_port, authority.file) == b""
    plain = grpc.ssl_channel_credentials(Path(authority.file).read_bytes())
    with grpc.secure_channel(f"localhost:{daemon.grpc_port}", plain) as channel, pytest.raises(grpc.FutureTimeoutError):
        grpc.channel_ready_future(channel).result(timeout=1.5)
    monkeypatch.setenv("SSL_CERT_FILE", authority.file)
    status = subprocess.run(
        [sys.executable, "-m", "monitor", "status", "--server", f"https://localhost:{daemon.server_port}",
         "--token-file", str(tmp_path / "token")],
        capture_output=True, text=True, cwd=Path(__file__).parents[2], check=False, env=dict(os.environ),
    )  # fmt: skip
    assert status.returncode == 0, status.stderr
    assert "grpcs://" in status.stdout
    assert daemon.stop() == 0


def answer_to_stranger(port: int, authority: str) -> bytes:
    """What a client without a certificate reads; in TLS 1.3 it learns of the refusal at its first read only."""
    context = ssl.create_default_context(cafile=authority)
    try:
        with (
            socket.create_connection(("localhost", port), 5) as plain,
            context.wrap_socket(plain, server_hostname="localhost") as stranger,
        ):
            stranger.sendall(b"POST /v1/traces HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n")
            return stranger.recv(100)
    except (ssl.SSLError, ConnectionError):
        return b""


def test_an_open_listener_shows_no_content(start: Start) -> None:
    """On all addresses and without authorisation figures and health are served; content and changes answer 403 with the key to set; no CORS header ever."""
    daemon = start(lambda made: configuration(server={"endpoint": f"0.0.0.0:{made.server_port}"}))
    port = daemon.server_port
    for path in ("/metrics", "/healthz", "/readyz", "/api/v1/monitors", "/api/v1/collectors"):
        status, headers, _ = answered(port, "GET", path, headers={"Origin": "https://evil.example"})
        assert status == 200, path
        assert not [name for name in headers if name.startswith("access-control-")]
    closed = [
        ("GET", "/api/v1/verdicts"),
        ("GET", "/api/v1/invocations"),
        ("DELETE", "/api/v1/invocations?trace_id=" + "0" * 32),
    ]
    for method, path in [*closed, ("GET", "/api/v1/traces/" + "0" * 32), ("POST", "/-/reload")]:
        status, headers, body = answered(port, method, path)
        assert status == 403, path
        assert b"server.auth.bearer_token_file" in body
    assert daemon.stop() == 0


def test_logs_and_figures_carry_neither_secrets_nor_content(start: Start, judge: JudgeServer) -> None:
    """With a judge that refuses the key, at the most talkative level: no key and no word of a conversation in log, metrics or readiness."""
    judge.mode = "unauthorized"
    sections = configuration(judge.url, logging={"level": "debug"})
    sections["judges"]["default"] |= {"api_key": "${env:JUDGE_KEY}", "max_attempts": 1}
    daemon = start(sections, environment={"JUDGE_KEY": "sk-very-secret-0123456789"})
    send(daemon, 2, "My dog is called Zebedee.")
    answered(
        daemon.http_port, "POST", "/v1/traces", b'{"resourceSpans": [{"Zebedee', {"Content-Type": "application/json"}
    )
    wait_for(
        lambda: daemon.metric("rubricd_verdicts_total", rubric="party_size_limit", verdict="pass") == 2, "verdicts"
    )
    wait_for(lambda: "401" in daemon.log or "unauthorized" in daemon.log, "the refusal of the key to be logged")
    shown = daemon.log + daemon.metrics() + answered(daemon.server_port, "GET", "/readyz")[2].decode()
    assert "sk-very-secret" not in shown
    assert "Zebedee" not in shown
    assert daemon.stop() == 0
    assert "Zebedee" not in daemon.log
