from __future__ import annotations

import asyncio
import gzip
import logging
import socket
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from grpc_health.v1 import health_pb2
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from collectors.collector import CollectorFailed
from collectors.otlp.config import ReceiverConfig
from collectors.otlp.grpc import LOGS_SERVICE, METRICS_SERVICE, TRACE_SERVICE, GrpcReceiver
from collectors.sink import Accepted, Encoding, MalformedRequest, Overloaded, RejectReason, Signal
from tests.collectors.otlp.build import logs, record, span, traces
from tests.collectors.otlp.recording import RecordingMeter, RecordingSink

MIB = 1 << 20
Start = Callable[..., Awaitable[GrpcReceiver]]


@pytest.fixture
async def start(sink: RecordingSink, meter: RecordingMeter) -> AsyncIterator[Start]:
    started: list[GrpcReceiver] = []

    async def start(message_seconds: float = 30, acknowledge_seconds: float = 10, **config: Any) -> GrpcReceiver:
        receiver = GrpcReceiver(
            "otlp", ReceiverConfig("127.0.0.1:0", **config), sink, meter, message_seconds, acknowledge_seconds
        )
        await receiver.start()
        started.append(receiver)
        return receiver

    yield start
    for receiver in started:
        await receiver.stop()


@pytest.fixture
def channel() -> Iterator[Callable[[GrpcReceiver], grpc.Channel]]:
    opened: list[grpc.Channel] = []

    def channel(receiver: GrpcReceiver) -> grpc.Channel:
        target = receiver.endpoints[0].removeprefix("grpc://")
        opened.append(grpc.insecure_channel(target, options=[("grpc.max_send_message_length", -1)]))
        return opened[-1]

    yield channel
    for one in opened:
        one.close()


@pytest.fixture
def export(channel: Callable[[GrpcReceiver], grpc.Channel]) -> Callable[..., Awaitable[bytes]]:
    async def export(receiver: GrpcReceiver, body: bytes, service: str = TRACE_SERVICE, **options: Any) -> bytes:
        """One call, off the event loop; raises grpc.RpcError."""
        call = channel(receiver).unary_unary(f"/{service}/Export")
        return bytes(await asyncio.to_thread(call, body, timeout=10, **options))

    return export


Export = Callable[..., Awaitable[bytes]]


async def refused(call: Awaitable[bytes]) -> Any:
    """The error of a call that has to fail."""
    with pytest.raises(grpc.RpcError) as raised:
        await call
    return raised.value


async def test_traces_and_logs_are_taken(start: Start, export: Export, sink: RecordingSink) -> None:
    """Requests of both services reach the sink byte for byte, and the answer has nothing to say."""
    receiver = await start()
    spans, records = traces(span()), logs(record())
    assert await export(receiver, spans) == b""
    assert await export(receiver, records, LOGS_SERVICE) == b""
    assert [(t.body, t.signal, t.encoding, t.collector) for t in sink.taken] == [
        (spans, Signal.TRACES, Encoding.PROTOBUF, "otlp"),
        (records, Signal.LOGS, Encoding.PROTOBUF, "otlp"),
    ]
    assert all(name.startswith("otlp-grpc") for name in sink.threads), "accept never runs on the event loop"


async def test_metrics_are_answered_and_dropped(start: Start, export: Export, sink: RecordingSink) -> None:
    """A shared endpoint must not fill the agents' logs with errors."""
    assert await export(await start(), b"\x0a\x00", METRICS_SERVICE) == b""
    assert sink.taken == []


async def test_other_services_are_unimplemented(start: Start, export: Export) -> None:
    """OTel-Arrow clients fall back to OTLP on UNIMPLEMENTED."""
    error = await refused(export(await start(), b"", "opentelemetry.proto.experimental.arrow.v1.ArrowTracesService"))
    assert error.code() is grpc.StatusCode.UNIMPLEMENTED


@pytest.mark.parametrize(
    "compression", [grpc.Compression.NoCompression, grpc.Compression.Gzip, grpc.Compression.Deflate]
)
@pytest.mark.parametrize("size", [0, 10, 200_000])
async def test_every_compression_of_grpc_is_unpacked(
    start: Start, export: Export, sink: RecordingSink, compression: grpc.Compression, size: int
) -> None:
    """Whatever compression a client chose, the sink gets the request; also an empty one."""
    body = traces(span(attributes={"pad": "a" * size})) if size else b""
    assert await export(await start(), body, compression=compression) == b""
    assert sink.taken[0].body == body


async def test_partial_success_is_told(start: Start, export: Export) -> None:
    """Rejected items do not make the call fail: they are counted in the answer."""
    receiver = await start()
    answer = ExportTraceServiceResponse.FromString(await export(receiver, traces(span(), span(span_id=b""))))
    assert answer.partial_success.rejected_spans == 1
    assert "spanId" in answer.partial_success.error_message
    answer = ExportLogsServiceResponse.FromString(await export(receiver, logs(record(b"x")), LOGS_SERVICE))
    assert answer.partial_success.rejected_log_records == 1


async def test_a_text_cut_inside_a_character_is_taken(
    start: Start, export: Export, sink: RecordingSink, shared: Path
) -> None:
    """Public report text-cut-inside-a-character, over gRPC: nothing is rejected."""
    body = (shared / "cases/public-reports/text-cut-inside-a-character.otlp.pb").read_bytes()
    assert await export(await start(), body) == b""
    assert len(sink.taken[0].decoded.spans) == 2


async def test_a_malformed_request_is_an_invalid_argument(start: Start, export: Export, meter: RecordingMeter) -> None:
    """Bytes that are no request are refused for good, without a retry; the sink counts them."""
    error = await refused(export(await start(), b"\xff\xff\xff"))
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "ExportTraceServiceRequest" in error.details()
    assert "google.rpc.retryinfo-bin" not in dict(error.trailing_metadata())
    assert meter.counts == {}


async def test_what_cannot_be_unpacked_is_an_invalid_argument(
    start: Start, export: Export, meter: RecordingMeter
) -> None:
    """A message that begins like gzip and is cut is malformed, and counted."""
    error = await refused(export(await start(), gzip.compress(b"x" * 1000)[:20]))
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert meter.counts == {("otlp", RejectReason.MALFORMED): 1}


@pytest.mark.parametrize("compression", [grpc.Compression.NoCompression, grpc.Compression.Gzip])
@pytest.mark.parametrize("size", [1_200_000, 40_000_000])
async def test_what_is_too_large_is_an_invalid_argument(
    start: Start, export: Export, sink: RecordingSink, meter: RecordingMeter, compression: grpc.Compression, size: int
) -> None:
    """Our limit answers, packed or not, far above it, too: RESOURCE_EXHAUSTED would be sent again for ever."""
    receiver = await start(max_request_bytes=MIB)
    error = await refused(export(receiver, traces(span(attributes={"pad": "a" * size})), compression=compression))
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "1048576 bytes" in error.details()
    assert meter.counts == {("otlp", RejectReason.TOO_LARGE): 1}
    assert await export(receiver, traces(span())) == b""
    assert len(sink.taken) == 1


def retry_delays(error: Any) -> tuple[int, int]:
    """The delays that the two trailers ask for, in seconds."""
    trailers = dict(error.trailing_metadata())
    status, info = Status.FromString(trailers["grpc-status-details-bin"]), RetryInfo()
    assert status.details[0].Unpack(info)
    return RetryInfo.FromString(trailers["google.rpc.retryinfo-bin"]).retry_delay.seconds, info.retry_delay.seconds


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        (Overloaded("full", 2), grpc.StatusCode.UNAVAILABLE),
        (MalformedRequest("resourceSpans[0]: wrong"), grpc.StatusCode.INVALID_ARGUMENT),
        (RuntimeError("secret content"), grpc.StatusCode.INTERNAL),
    ],
)
async def test_errors_of_the_sink_have_their_code(
    start: Start,
    export: Export,
    sink: RecordingSink,
    caplog: pytest.LogCaptureFixture,
    fault: Exception,
    code: grpc.StatusCode,
) -> None:
    """Overload is retryable by both trailers, malformed data are not, a fault of ours says nothing of its inside."""
    sink.fault = fault
    error = await refused(export(await start(), traces(span())))
    assert error.code() is code
    if code is grpc.StatusCode.UNAVAILABLE:
        assert retry_delays(error) == (2, 2)
    assert "secret content" not in error.details() + caplog.text


async def test_nothing_is_acknowledged_before_it_is_durable(start: Start, export: Export, sink: RecordingSink) -> None:
    """The answer waits for the sink's future; one that fails is to be sent again."""
    sink.durable = False
    receiver = await start()
    waiting = asyncio.ensure_future(export(receiver, traces(span())))
    await asyncio.to_thread(sink.arrived.wait, 5)
    assert not waiting.done()
    sink.futures[0].set_result(Accepted(1))
    assert await waiting == b""
    sink.arrived.clear()
    waiting = asyncio.ensure_future(export(receiver, traces(span())))
    await asyncio.to_thread(sink.arrived.wait, 5)
    sink.futures[1].set_exception(Overloaded("the disk is full", 30))
    error = await refused(waiting)
    assert error.code() is grpc.StatusCode.UNAVAILABLE
    assert retry_delays(error) == (3, 3)


async def test_a_sink_that_never_answers_is_unavailable(start: Start, export: Export, sink: RecordingSink) -> None:
    """A call that is given up does not cancel the sink's future."""
    sink.durable = False
    error = await refused(export(await start(acknowledge_seconds=0.05), traces(span())))
    assert error.code() is grpc.StatusCode.UNAVAILABLE
    sink.futures[0].set_result(Accepted(1))


async def test_bytes_in_flight_are_bounded(
    start: Start, export: Export, sink: RecordingSink, meter: RecordingMeter
) -> None:
    """While the budget is used up calls get UNAVAILABLE; afterwards they are taken again."""
    sink.durable = False
    receiver = await start(max_in_flight_bytes=100_000)
    body = traces(span(attributes={"pad": "a" * 60_000}))
    waiting = asyncio.ensure_future(export(receiver, body))
    await asyncio.to_thread(sink.arrived.wait, 5)
    for compression in (grpc.Compression.NoCompression, grpc.Compression.Gzip):
        error = await refused(export(receiver, body, compression=compression))
        assert error.code() is grpc.StatusCode.UNAVAILABLE
    assert meter.counts == {("otlp", RejectReason.OVERLOADED): 2}
    sink.futures[0].set_result(Accepted(1))
    await waiting
    assert receiver.in_flight_bytes == 0
    sink.durable = True
    assert await export(receiver, body) == b""


async def health(channel: grpc.Channel, service: str = "") -> int:
    call = channel.unary_unary("/grpc.health.v1.Health/Check")
    request = health_pb2.HealthCheckRequest(service=service).SerializeToString()
    answer = await asyncio.to_thread(call, request, timeout=5)
    return int(health_pb2.HealthCheckResponse.FromString(answer).status)


async def test_draining_refuses_what_is_new_and_answers_what_is_under_way(
    start: Start, export: Export, channel: Callable[[GrpcReceiver], grpc.Channel], sink: RecordingSink
) -> None:
    """After `drain` calls get UNAVAILABLE with a delay, health checks NOT_SERVING, and the call under way its answer."""
    sink.durable = False
    receiver = await start()
    serving, not_serving = health_pb2.HealthCheckResponse.SERVING, health_pb2.HealthCheckResponse.NOT_SERVING
    assert [await health(channel(receiver), service) for service in ("", TRACE_SERVICE, LOGS_SERVICE)] == [serving] * 3
    waiting = asyncio.ensure_future(export(receiver, traces(span())))
    await asyncio.to_thread(sink.arrived.wait, 5)
    await receiver.drain()
    error = await refused(export(receiver, traces(span())))
    assert error.code() is grpc.StatusCode.UNAVAILABLE
    assert retry_delays(error) == (1, 1)
    assert await health(channel(receiver)) == not_serving
    stopping = asyncio.ensure_future(receiver.stop())
    sink.futures[0].set_result(Accepted(1))
    assert await waiting == b""
    await stopping


async def test_stop_may_come_twice_and_before_the_start(
    sink: RecordingSink, meter: RecordingMeter, start: Start
) -> None:
    """`stop` is safe at any time, and frees the port."""
    await GrpcReceiver("otlp", ReceiverConfig("127.0.0.1:0"), sink, meter).stop()
    receiver = await start()
    await receiver.stop()
    await receiver.stop()
    port = int(receiver.endpoints[0].rpartition(":")[2])
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", port)) != 0


async def test_a_port_in_use_fails_the_start(start: Start, sink: RecordingSink, meter: RecordingMeter) -> None:
    """The second receiver on a port fails, naming the endpoint; also where only one address of a name is taken."""
    port = (await start()).endpoints[0].rpartition(":")[2]
    second = GrpcReceiver("otlp", ReceiverConfig(f"localhost:{port}"), sink, meter)
    with pytest.raises(CollectorFailed, match=f"otlp: grpc: cannot listen on localhost:{port}: the port is in use"):
        await second.start()
    assert second.endpoints == ()


@pytest.mark.parametrize("endpoint", [":0", "localhost:0", "0.0.0.0:0"])
async def test_every_way_to_name_an_endpoint_listens(
    sink: RecordingSink, meter: RecordingMeter, export: Export, endpoint: str
) -> None:
    """A name, a wildcard and nothing at all as host can be reached over IPv4."""
    receiver = GrpcReceiver("otlp", ReceiverConfig(endpoint), sink, meter)
    await receiver.start()
    try:
        assert await export(receiver, b"") == b""
    finally:
        await receiver.stop()


async def test_only_bearers_of_a_token_come_in(
    start: Start, export: Export, sink: RecordingSink, meter: RecordingMeter, tmp_path: Path
) -> None:
    """With a token file a call without a token of it is UNAUTHENTICATED and counted."""
    file = tmp_path / "tokens"
    file.write_text("alpha\n")
    receiver = await start(bearer_token_file=str(file))
    for metadata in ((), (("authorization", "Bearer beta"),)):
        error = await refused(export(receiver, traces(span()), metadata=metadata))
        assert error.code() is grpc.StatusCode.UNAUTHENTICATED
    assert await export(receiver, traces(span()), metadata=(("authorization", "Bearer alpha"),)) == b""
    assert meter.counts == {("otlp", RejectReason.UNAUTHORIZED): 2}


async def test_who_may_not_come_in_is_refused_before_the_message_is_read(
    start: Start, channel: Callable[[GrpcReceiver], grpc.Channel], tmp_path: Path
) -> None:
    """A caller without a token gets its answer although its message never comes."""
    file = tmp_path / "tokens"
    file.write_text("alpha\n")
    receiver = await start(bearer_token_file=str(file))
    call = channel(receiver).stream_unary(f"/{TRACE_SERVICE}/Export").future(never(), timeout=5)
    error = await asyncio.to_thread(call.exception)
    assert error.code() is grpc.StatusCode.UNAUTHENTICATED


def never() -> Iterator[bytes]:
    """A client that opens a call and sends nothing."""
    import threading

    threading.Event().wait(6)
    yield b""


async def test_a_message_that_does_not_come_is_given_up(
    start: Start, export: Export, channel: Callable[[GrpcReceiver], grpc.Channel]
) -> None:
    """Silent calls are cancelled when their time is over, so that they cannot hold every thread."""
    receiver = await start(message_seconds=30)
    loop = asyncio.get_running_loop()
    calls = [channel(receiver).stream_unary(f"/{TRACE_SERVICE}/Export").future(never(), timeout=5) for _ in range(3)]
    async with asyncio.timeout(5):
        while receiver.awaited_messages < 3:
            await asyncio.sleep(0)
    assert receiver.abandon(loop.time() + 29) == 0
    assert receiver.abandon(loop.time() + 30) == 3
    for call in calls:
        error = await asyncio.to_thread(call.exception)
        assert error.code() is grpc.StatusCode.CANCELLED
    assert await export(receiver, traces(span())) == b""


async def test_a_call_without_a_message_is_an_invalid_argument(
    start: Start, channel: Callable[[GrpcReceiver], grpc.Channel]
) -> None:
    """A call that ends before its message is refused, not answered."""
    call = channel(await start()).stream_unary(f"/{TRACE_SERVICE}/Export").future(iter(()), timeout=5)
    error = await asyncio.to_thread(call.exception)
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT


async def test_refusals_are_logged_once_per_peer_without_content(
    start: Start, export: Export, caplog: pytest.LogCaptureFixture
) -> None:
    """Rubbish is one line in the log, which names the peer and quotes nothing."""
    receiver = await start()
    for _ in range(3):
        await refused(export(receiver, zlib.compress(b"secret")[:-1]))
    lines = [entry.getMessage() for entry in caplog.records if entry.name.startswith("collectors")]
    assert len(lines) == 1
    assert "127.0.0.1" in lines[0]
    assert not [entry for entry in caplog.records if entry.levelno >= logging.ERROR]
