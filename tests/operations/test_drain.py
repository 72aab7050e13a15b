"""SIGTERM: what is under way ends, what is new is refused, the last figures are read, and nothing is lost."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

from monitor.app import DRAIN_SECONDS
from tests.operations.conftest import Start
from tests.operations.running import answered, configuration, send
from tests.support.daemon import Daemon, wait_for
from tests.support.judge_server import JudgeServer, judge_server

SCRAPER = {"X-Prometheus-Scrape-Timeout-Seconds": "1"}


@pytest.fixture
def slow_judge() -> Iterator[JudgeServer]:
    """A judge that takes two seconds."""
    with judge_server(latency=2.0) as server:
        yield server


@pytest.fixture
def backend() -> Iterator[tuple[str, list[str]]]:
    """The address of a backend that takes log records over OTLP/HTTP, and the names of the evaluations that it got."""
    names: list[str] = []

    class Backend(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            sent = ExportLogsServiceRequest.FromString(self.rfile.read(int(self.headers["Content-Length"])))
            records = [one for logs in sent.resource_logs for scope in logs.scope_logs for one in scope.log_records]
            names.extend(pair.value.string_value for one in records for pair in one.attributes
                         if pair.key == "gen_ai.evaluation.name")  # fmt: skip
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Backend)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"127.0.0.1:{server.server_port}", names
    server.shutdown()
    thread.join()
    server.server_close()


def scrape(daemon: Daemon) -> str:
    """What a Prometheus reads."""
    status, _, body = answered(daemon.server_port, "GET", "/metrics", headers=SCRAPER)
    assert status == 200
    return body.decode()


def test_a_drain_ends_what_is_under_way(start: Start, slow_judge: JudgeServer, backend: tuple[str, list[str]]) -> None:
    """While evaluations end after SIGTERM, readiness is refused, telemetry is put off with Retry-After, and metrics and health are served; their
    results are sent to the OTLP backend before the process ends.
    """
    exported = {"otlp": {"endpoint": backend[0], "protocol": "http/protobuf", "insecure": True}}
    daemon = start(configuration(slow_judge.url, exporters=exported))
    assert daemon.process is not None
    send(daemon, 3)
    wait_for(lambda: slow_judge.count >= 3, "calls under way")
    daemon.process.send_signal(signal.SIGTERM)
    began = time.monotonic()
    wait_for(lambda: daemon.status("/readyz") == 503, "readiness to be refused", 5)
    assert b"draining" in answered(daemon.server_port, "GET", "/readyz")[2]
    assert daemon.status("/healthz") == 200
    status, headers, _ = answered(daemon.http_port, "POST", "/v1/traces", b"{}", {"Content-Type": "application/json"})
    assert status == 503
    assert 1 <= int(headers["retry-after"]) <= 3
    assert "rubricd_verdicts_total" in scrape(daemon)
    assert daemon.stop(DRAIN_SECONDS) == 0
    assert time.monotonic() - began < DRAIN_SECONDS
    assert sorted(backend[1]) == ["party_size_limit"] * 3 + ["polite"] * 3
    daemon.start()
    assert len(daemon.items("/api/v1/verdicts?since=1h&rubric=polite")) == 3
    assert slow_judge.count == 3  # none was asked for twice


def test_nothing_acknowledged_is_lost_at_a_drain(start: Start, judge: JudgeServer) -> None:
    """SIGTERM in the middle of traffic: every trace that was acknowledged is stored and judged once after the restart."""
    daemon = start(configuration(judge.url))
    acknowledged: set[str] = set()
    stopped = threading.Event()

    def traffic() -> None:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

        from tests.support.agents import provider, run_agent

        real = OTLPSpanExporter(endpoint=f"http://127.0.0.1:{daemon.http_port}/v1/traces", timeout=1)
        results: list[bool] = []

        class Watched(SpanExporter):
            def export(self, spans):  # type: ignore[no-untyped-def]
                results.append(False)  # an exporter out of time may also raise
                result = real.export(spans)
                results[-1] = result is SpanExportResult.SUCCESS
                return result

        tracers = provider(Watched())
        while not stopped.is_set():
            results.clear()
            trace_id = run_agent(tracers, "shop-bot", "A table.", "Done.")
            if results and all(results):
                acknowledged.add(trace_id)

    thread = threading.Thread(target=traffic)
    thread.start()
    try:
        wait_for(lambda: len(acknowledged) >= 20, "traffic")
        assert daemon.stop(DRAIN_SECONDS) == 0
    finally:
        stopped.set()
        thread.join(30)
    daemon.start()
    wait_for(
        lambda: {one["trace_id"] for one in daemon.items("/api/v1/verdicts?since=1h&rubric=polite")} >= acknowledged,
        "all acknowledged traces to be judged",
    )
    verdicts = daemon.items("/api/v1/verdicts?since=1h&rubric=polite")
    assert len(verdicts) == len({one["trace_id"] for one in verdicts})


def test_the_last_figures_are_scraped(start: Start) -> None:
    """After SIGTERM the page stays until whoever scrapes it regularly has read it once more, and then the process ends at once."""
    daemon = start(configuration())
    assert daemon.process is not None
    for _ in range(3):
        scrape(daemon)
        time.sleep(0.5)  # the interval of this scraper
    send(daemon, 2)
    daemon.process.send_signal(signal.SIGTERM)
    wait_for(lambda: '"draining"' in daemon.log, "the drain to begin", 5)
    with pytest.raises(AssertionError):
        wait_for(lambda: daemon.process is None or daemon.process.poll() is not None, "an early end", 0.6)
    assert 'rubricd_spans_received_total{collector="otlp"} 6.0' in scrape(daemon)
    assert daemon.stop(20) == 0
    assert "no scrape came in time" not in daemon.log


def test_a_person_at_the_keyboard_waits_for_no_scraper(start: Start) -> None:
    """SIGINT, and a second SIGTERM, do not wait for the last scrape; a single one that is not followed by a scrape says so."""
    daemon = start(configuration())
    assert daemon.process is not None
    for number, times in ((signal.SIGINT, 1), (signal.SIGTERM, 2), (signal.SIGTERM, 1)):
        for _ in range(2):
            scrape(daemon)
            time.sleep(0.5)
        daemon.process.send_signal(number)
        wait_for(lambda: '"draining"' in daemon.log, "the drain to begin", 20)
        if times == 2:
            daemon.process.send_signal(number)
        assert daemon.process.wait(20) == 0
        assert ("no scrape came in time" in daemon.log) is (number == signal.SIGTERM and times == 1)
        (daemon.folder / "stderr.log").write_text("")
        daemon.start()
