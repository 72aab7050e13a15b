"""The whole collector over real sockets, with the exporters of the OpenTelemetry SDK."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import pytest
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcExporter
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter as HttpLogExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpExporter
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import SimpleLogRecordProcessor
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter

from collectors.catalogue import build_collector
from collectors.collector import Collector, CollectorFailed
from collectors.otlp.config import OtlpConfig, ReceiverConfig
from collectors.sink import Overloaded, Signal
from collectors.span import Span, StatusCode
from tests.collectors.otlp.recording import RecordingMeter, RecordingSink


@pytest.fixture
def sink() -> RecordingSink:
    return RecordingSink()


@pytest.fixture
async def collector(sink: RecordingSink) -> AsyncIterator[Collector]:
    config = OtlpConfig(ReceiverConfig("localhost:0"), ReceiverConfig("localhost:0"))
    collector = build_collector("otlp", config, sink, RecordingMeter())
    await collector.start()
    yield collector
    await collector.stop()


def endpoint(collector: Collector, scheme: str) -> str:
    """The URL of one listener, as exporters want it."""
    return next(url for url in collector.endpoints if url.startswith(scheme)).replace("grpc://", "http://")


def exporters(collector: Collector) -> dict[str, SpanExporter]:
    http, target = endpoint(collector, "http") + "/v1/traces", endpoint(collector, "grpc")
    return {
        "http": HttpExporter(http),
        "http gzip": HttpExporter(http, compression=Compression.Gzip),
        "http deflate": HttpExporter(http, compression=Compression.Deflate),
        "grpc": GrpcExporter(target, insecure=True),
        "grpc gzip": GrpcExporter(target, insecure=True, compression=grpc.Compression.Gzip),
    }


def trace(exporter: SpanExporter) -> None:
    """An agent's run as an SDK sends it."""
    provider = TracerProvider(resource=Resource({"service.name": "shop-bot"}), shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    tracer = provider.get_tracer("my.agent", "1")
    with tracer.start_as_current_span(
        "invoke_agent shop", attributes={"gen_ai.operation.name": "invoke_agent"}
    ) as root:
        root.add_event("thought", {"step": 1})
        with tracer.start_as_current_span(
            "execute_tool find", attributes={"tags": ["a", "b"], "n": 7, "ok": True, "x": 0.5}
        ):
            pass
    provider.shutdown()


@pytest.mark.parametrize("name", ["http", "http gzip", "http deflate", "grpc", "grpc gzip"])
async def test_the_sdks_exporters_are_understood(collector: Collector, sink: RecordingSink, name: str) -> None:
    """What the Python SDK exports arrives whole over both transports, packed or not."""
    await asyncio.to_thread(trace, exporters(collector)[name])
    spans: dict[str, Span] = {span.name: span for taken in sink.taken for span in taken.decoded.spans}
    root, tool = spans["invoke_agent shop"], spans["execute_tool find"]
    assert (tool.parent_span_id, tool.trace_id, root.parent_span_id) == (root.span_id, root.trace_id, "")
    assert tool.attributes == {"tags": ["a", "b"], "n": 7, "ok": True, "x": 0.5}
    assert (root.events[0].name, root.events[0].attributes) == ("thought", {"step": 1})
    assert root.ended
    assert (root.status_code, root.scope.name, root.resource.attributes["service.name"]) == (
        StatusCode.UNSET,
        "my.agent",
        "shop-bot",
    )


async def test_the_sdks_log_exporter_is_understood(collector: Collector, sink: RecordingSink) -> None:
    """Log records of the Python SDK arrive with their event name and trace."""

    def emit() -> None:
        provider = LoggerProvider(shutdown_on_exit=False)
        provider.add_log_record_processor(
            SimpleLogRecordProcessor(HttpLogExporter(endpoint(collector, "http") + "/v1/logs"))
        )
        tracer = TracerProvider(shutdown_on_exit=False).get_tracer("t")
        with tracer.start_as_current_span("chat"):
            provider.get_logger("my.agent").emit(
                event_name="gen_ai.choice", body={"index": 0}, attributes={"gen_ai.system": "x"}
            )
        provider.shutdown()

    await asyncio.to_thread(emit)
    (taken,) = sink.taken
    (record,) = taken.decoded.logs
    assert taken.signal is Signal.LOGS
    assert (record.event_name, record.body, record.attributes) == (
        "gen_ai.choice",
        {"index": 0},
        {"gen_ai.system": "x"},
    )
    assert record.span_id


@pytest.mark.parametrize("name", ["http", "grpc"])
async def test_the_sdks_exporters_send_again_after_overload(
    collector: Collector, sink: RecordingSink, name: str
) -> None:
    """A refusal with a delay of one second costs an SDK that second and nothing else."""
    sink.fault = Overloaded("full", 1)

    def recover() -> None:
        refusals.append(1)
        if len(refusals) > 1:
            sink.fault = None

    refusals: list[int] = []
    sink.before = recover
    await asyncio.to_thread(trace, exporters(collector)[name])
    assert len(refusals) == 2
    assert len([span for taken in sink.taken for span in taken.decoded.spans]) == 2


async def test_both_listeners_stop(collector: Collector) -> None:
    """After `stop` nothing listens; stopping again is fine."""
    ports = [int(url.rpartition(":")[2]) for url in collector.endpoints]
    assert len(set(ports)) == 2
    assert collector.problem is None
    await collector.drain()
    await collector.stop()
    await collector.stop()
    for port in ports:
        with socket.socket() as probe:
            assert probe.connect_ex(("127.0.0.1", port)) != 0


async def test_a_listener_that_cannot_start_takes_the_other_with_it(sink: RecordingSink) -> None:
    """When one port is in use the collector fails as a whole and leaves the other port free."""
    with socket.socket() as probe, socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        probe.bind(("127.0.0.1", 0))
        free, taken = probe.getsockname()[1], other.getsockname()[1]
        probe.close()
        config = OtlpConfig(ReceiverConfig(f"127.0.0.1:{free}"), ReceiverConfig(f"127.0.0.1:{taken}"))
        with pytest.raises(CollectorFailed, match=f"127.0.0.1:{taken}"):
            await build_collector("otlp", config, sink, RecordingMeter()).start()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", free))


@pytest.mark.parametrize(("config", "schemes"), [
    (OtlpConfig(ReceiverConfig("127.0.0.1:0"), None), ["grpc"]),
    (OtlpConfig(None, ReceiverConfig("127.0.0.1:0")), ["http"]),
])  # fmt: skip
async def test_a_protocol_that_is_off_stays_closed(sink: RecordingSink, config: OtlpConfig, schemes: list[str]) -> None:
    """Only configured listeners are opened."""
    collector = build_collector("otlp", config, sink, RecordingMeter())
    await collector.start()
    assert [url.partition(":")[0] for url in collector.endpoints] == schemes
    await collector.stop()


async def test_problems_of_a_listener_are_the_collectors(sink: RecordingSink, tmp_path: Path) -> None:
    """A token file that goes missing shows as the collector's problem."""
    file = tmp_path / "tokens"
    file.write_text("alpha")
    config = OtlpConfig(None, ReceiverConfig("127.0.0.1:0", bearer_token_file=str(file)))
    collector = build_collector("otlp", config, sink, RecordingMeter())
    await collector.start()
    file.unlink()
    assert "the tokens read before stay in force" in (collector.problem or "")  # before any request asks for it
    exporter = HttpExporter(endpoint(collector, "http") + "/v1/traces", headers={"Authorization": "Bearer alpha"})
    await asyncio.to_thread(trace, exporter)
    assert len(sink.taken) == 1
    await collector.stop()
