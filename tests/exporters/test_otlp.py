"""Verdicts over OTLP to a real receiver on loopback."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent import futures
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import Queue
from typing import Any

import grpc
import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest, ExportLogsServiceResponse
from opentelemetry.proto.collector.logs.v1.logs_service_pb2_grpc import (
    LogsServiceServicer,
    add_LogsServiceServicer_to_server,
)
from opentelemetry.proto.common.v1.common_pb2 import KeyValue

from monitor.exporters.otlp import EvaluationExporter, is_plaintext, logs_url
from monitor.model.verdict import ErrorType, EvaluationFailure, Judgement, Outcome, Verdict
from monitor.settings.tree import OtlpExporter

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
Received = Queue[tuple[dict[str, str], ExportLogsServiceRequest]]

VERDICT = Verdict(
    invocation_id=f"{TRACE}-{SPAN}",
    trace_id=TRACE,
    span_id=SPAN,
    conversation_id="c-1041",
    agent_name="restaurant-booking",
    agent_version="1.2",
    environment="production",
    ended_at=1_700_000_000.0,
    monitor="booking-quality",
    rubric="booking",
    rubric_version="0123456789ab",
    judge="default",
    judgement=Judgement(Outcome.PASS, score=0.94, explanation="it kept to the rules", judge_model="gpt-x"),
    inclusion_probability=0.1,
    revision=1,
    judged_at=1_700_000_060.5,
)
FAILED = replace(
    VERDICT, judgement=Judgement(None, score=0.3, failure=EvaluationFailure(ErrorType.TIMEOUT, "60 s passed"))
)


@pytest.fixture
def grpc_receiver() -> Iterator[tuple[str, Received]]:
    received: Received = Queue()

    class Receiver(LogsServiceServicer):
        def Export(self, request: ExportLogsServiceRequest, context: grpc.ServicerContext) -> ExportLogsServiceResponse:
            received.put((dict(context.invocation_metadata()), request))
            return ExportLogsServiceResponse()

    server = grpc.server(futures.ThreadPoolExecutor(2))
    add_LogsServiceServicer_to_server(Receiver(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield f"127.0.0.1:{port}", received
    server.stop(None).wait()


@pytest.fixture
def http_receiver() -> Iterator[tuple[str, Received]]:
    received: Received = Queue()

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            found = {name.lower(): value for name, value in self.headers.items()} | {"path": self.path}
            received.put((found, ExportLogsServiceRequest.FromString(body)))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *arguments: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"127.0.0.1:{server.server_port}", received
    server.shutdown()
    thread.join()
    server.server_close()


def _plain(pairs: Any) -> dict[str, Any]:
    def value(pair: KeyValue) -> Any:
        return getattr(pair.value, str(pair.value.WhichOneof("value")))

    return {pair.key: value(pair) for pair in pairs}


def _send(settings: OtlpExporter, received: Received, *verdicts: Verdict) -> tuple[dict[str, str], Any, list[Any]]:
    exporter = EvaluationExporter(settings)
    for verdict in verdicts:
        exporter.emit(verdict)
    assert exporter.close(10)
    headers, request = received.get(timeout=10)
    (resource_logs,) = request.resource_logs
    (scope_logs,) = resource_logs.scope_logs
    return headers, _plain(resource_logs.resource.attributes), list(scope_logs.log_records)


@pytest.mark.parametrize("protocol", ["grpc", "http/protobuf"])
def test_a_verdict_arrives(protocol: Any, request: pytest.FixtureRequest) -> None:
    """A verdict arrives over either protocol as an event of the invocation's root, with what the contract names and no explanation."""
    endpoint, received = request.getfixturevalue("grpc_receiver" if protocol == "grpc" else "http_receiver")
    settings = OtlpExporter(endpoint=endpoint, protocol=protocol, insecure=True, headers={"X-Scope-OrgID": "agents"})
    headers, resource, (record,) = _send(settings, received, VERDICT)
    assert headers["x-scope-orgid"] == "agents"
    assert headers.get("path", "/v1/logs") == "/v1/logs"
    assert resource["service.name"] == "rubricd"
    assert (record.trace_id.hex(), record.span_id.hex()) == (TRACE, SPAN)
    assert record.event_name == "gen_ai.evaluation.result"
    assert record.time_unix_nano == 1_700_000_060_500_000_000
    assert record.body.WhichOneof("value") is None
    assert _plain(record.attributes) == {
        "gen_ai.evaluation.name": "booking",
        "gen_ai.evaluation.score.value": 0.94,
        "gen_ai.evaluation.score.label": "pass",
        "gen_ai.agent.name": "restaurant-booking",
        "gen_ai.conversation.id": "c-1041",
        "rubricd.monitor": "booking-quality",
        "rubricd.rubric.version": "0123456789ab",
        "rubricd.judge.model": "gpt-x",
        "rubricd.inclusion_probability": 0.1,
    }


def test_a_failed_evaluation_has_no_score(grpc_receiver: tuple[str, Received]) -> None:
    """A failed evaluation carries `error.type` and neither score nor label."""
    _, _, (record,) = _send(OtlpExporter(endpoint=grpc_receiver[0]), grpc_receiver[1], FAILED)
    found = _plain(record.attributes)
    assert found["error.type"] == "timeout"
    assert not [name for name in found if name.startswith("gen_ai.evaluation.score")]


def test_explanations_only_when_asked_for(grpc_receiver: tuple[str, Received]) -> None:
    """The explanation is content: it is sent only with `explanations: true`."""
    settings = OtlpExporter(endpoint=grpc_receiver[0], explanations=True)
    _, _, (record,) = _send(settings, grpc_receiver[1], VERDICT)
    assert _plain(record.attributes)["gen_ai.evaluation.explanation"] == "it kept to the rules"


def test_ids_that_are_none_do_not_stop_a_record(grpc_receiver: tuple[str, Received]) -> None:
    """A verdict whose trace id is no hex goes without ids, and the next one is not harmed."""
    broken = replace(VERDICT, trace_id="not hex", span_id="")
    _, _, records = _send(OtlpExporter(endpoint=grpc_receiver[0]), grpc_receiver[1], broken, VERDICT)
    assert [record.trace_id.hex() for record in records] == ["", TRACE]


def test_emitting_never_raises(grpc_receiver: tuple[str, Received], caplog: pytest.LogCaptureFixture) -> None:
    """A verdict that cannot be made a record is logged by the kind of fault alone, and after closing nothing is raised either."""
    exporter = EvaluationExporter(OtlpExporter(endpoint=grpc_receiver[0]))
    exporter.emit(replace(VERDICT, judged_at="secret words"))  # type: ignore[arg-type]
    assert "an evaluation result was not exported: TypeError" in caplog.text
    assert "secret words" not in caplog.text
    assert exporter.close(10)
    exporter.emit(VERDICT)


@pytest.mark.parametrize("protocol", ["grpc", "http/protobuf"])
def test_closing_has_a_deadline(protocol: Any) -> None:
    """A receiver that takes the connection and never answers does not hold up the end of the program."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        host, port = silent.getsockname()
        exporter = EvaluationExporter(OtlpExporter(endpoint=f"{host}:{port}", protocol=protocol))
        for _ in range(10):
            exporter.emit(VERDICT)
        assert exporter.close(0.2) is False


@pytest.mark.parametrize(
    ("endpoint", "insecure", "headers", "plaintext", "url"),
    [
        ("collector:4318", None, {}, True, "http://collector:4318/v1/logs"),
        ("collector:4318", None, {"authorization": "x"}, False, "https://collector:4318/v1/logs"),
        ("collector:4318", True, {"authorization": "x"}, True, "http://collector:4318/v1/logs"),
        ("collector:4318", False, {}, False, "https://collector:4318/v1/logs"),
        ("http://collector:4318", None, {"authorization": "x"}, True, "http://collector:4318/v1/logs"),
        ("https://otlp.example/", True, {}, False, "https://otlp.example/v1/logs"),
        ("https://otlp.example/otlp/v1/logs", None, {}, False, "https://otlp.example/otlp/v1/logs"),
    ],
)
def test_tls(endpoint: str, insecure: bool | None, headers: dict[str, Any], plaintext: bool, url: str) -> None:
    """The scheme decides on TLS; without one it is off, unless `insecure: false` or headers that may carry secrets ask for it."""
    settings = OtlpExporter(endpoint=endpoint, insecure=insecure, headers=headers)
    assert (is_plaintext(settings), logs_url(settings)) == (plaintext, url)


def test_nothing_heavy_before_it_is_used() -> None:
    """Importing the module does not import OpenTelemetry or gRPC."""
    script = "import sys, monitor.exporters.otlp; print([m for m in ('grpc', 'opentelemetry') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
