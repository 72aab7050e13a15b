from __future__ import annotations

import asyncio
import contextlib
import gzip
import io
import json
import logging
import socket
import threading
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from collectors.collector import CollectorFailed
from collectors.otlp import connections
from collectors.otlp.config import ReceiverConfig
from collectors.otlp.http import HttpReceiver
from collectors.sink import Accepted, Encoding, MalformedRequest, Overloaded, RejectReason, Signal
from tests.collectors.otlp.build import logs, record, span, traces
from tests.collectors.otlp.recording import RecordingMeter, RecordingSink

PROTOBUF = {"Content-Type": "application/x-protobuf"}
JSON = {"Content-Type": "application/json"}
MIB = 1 << 20

Start = Callable[..., Awaitable[HttpReceiver]]


@pytest.fixture
async def start(sink: RecordingSink, meter: RecordingMeter) -> AsyncIterator[Start]:
    started: list[HttpReceiver] = []

    async def start(
        body_seconds: float = 30, acknowledge_seconds: float = 10, idle_seconds: float = 75, **config: Any
    ) -> HttpReceiver:
        listener = ReceiverConfig("127.0.0.1:0", **config)
        receiver = HttpReceiver("otlp", listener, sink, meter, body_seconds, acknowledge_seconds, idle_seconds)
        await receiver.start()
        started.append(receiver)
        return receiver

    yield start
    for receiver in started:
        await receiver.stop()


@pytest.fixture
async def client() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


class Answer:
    """A whole answer."""

    def __init__(self, status: int, headers: Any, body: bytes) -> None:
        self.status, self.headers, self.body = status, headers, body


@pytest.fixture
def post(client: aiohttp.ClientSession) -> Callable[..., Awaitable[Answer]]:
    async def post(
        receiver: HttpReceiver,
        body: Any,
        headers: dict[str, str] = PROTOBUF,
        path: str = "/v1/traces",
        method: str = "POST",
    ) -> Answer:
        async with client.request(method, receiver.endpoints[0] + path, data=body, headers=headers) as response:
            return Answer(response.status, response.headers, await response.read())

    return post


Post = Callable[..., Awaitable[Answer]]


async def test_protobuf_is_taken(start: Start, post: Post, sink: RecordingSink) -> None:
    """A protobuf request reaches the sink byte for byte, and the answer has nothing to say."""
    body = traces(span())
    answer = await post(await start(), body)
    assert (answer.status, answer.body, answer.headers["Content-Type"]) == (200, b"", "application/x-protobuf")
    (taken,) = sink.taken
    assert (taken.body, taken.signal, taken.encoding, taken.collector) == (
        body,
        Signal.TRACES,
        Encoding.PROTOBUF,
        "otlp",
    )
    assert all(name.startswith("otlp-http") for name in sink.threads), "accept never runs on the event loop"


async def test_json_is_taken(start: Start, post: Post, sink: RecordingSink) -> None:
    """A JSON request with a charset is answered in JSON, with nothing in it."""
    answer = await post(await start(), b'{"resourceSpans":[]}', {"Content-Type": "application/json; charset=utf-8"})
    assert (answer.status, answer.body, answer.headers["Content-Type"]) == (200, b"{}", "application/json")
    assert sink.taken[0].encoding is Encoding.JSON


async def test_logs_are_taken(start: Start, post: Post, sink: RecordingSink) -> None:
    """/v1/logs hands over log requests."""
    assert (await post(await start(), logs(record()), path="/v1/logs")).status == 200
    assert sink.taken[0].signal is Signal.LOGS


@pytest.mark.parametrize(
    ("path", "signal"),
    [("/v1/traces/v1/logs", Signal.LOGS), ("/v1/logs/v1/traces", Signal.TRACES), ("/v1/traces/", Signal.TRACES)],
)
async def test_misrouted_paths_count_by_their_end(
    start: Start, post: Post, sink: RecordingSink, path: str, signal: Signal
) -> None:
    """An exporter with a signal's URL as its base reaches the signal that it means."""
    assert (await post(await start(), b"", path=path)).status == 200
    assert sink.taken[0].signal is signal


async def test_metrics_are_answered_and_dropped(start: Start, post: Post, sink: RecordingSink) -> None:
    """A shared endpoint must not fill the agents' logs with errors."""
    receiver = await start()
    answer = await post(receiver, b"\x0a\x00", path="/v1/metrics")
    assert (answer.status, answer.body) == (200, b"")
    assert (await post(receiver, b"{}", JSON, path="/v1/metrics")).body == b"{}"
    assert sink.taken == []


@pytest.mark.parametrize(
    ("method", "path", "headers", "status"),
    [
        ("GET", "/v1/traces", PROTOBUF, 405),
        ("OPTIONS", "/v1/traces", PROTOBUF, 405),
        ("PUT", "/v1/logs", PROTOBUF, 405),
        ("POST", "/", PROTOBUF, 404),
        ("POST", "/v1/spans", JSON, 404),
        ("POST", "/v1/traces", {"Content-Type": "text/plain"}, 415),
        ("POST", "/v1/traces", {**PROTOBUF, "Content-Encoding": "br"}, 415),
        ("POST", "/v1/traces", {**JSON, "Content-Encoding": "gzip, gzip"}, 415),
    ],
)
async def test_what_is_not_understood_is_said(
    start: Start, post: Post, sink: RecordingSink, method: str, path: str, headers: dict[str, str], status: int
) -> None:
    """Wrong method, path, type or compression have their status and a Status body in the request's encoding."""
    answer = await post(await start(), b"", headers, path, method)
    assert answer.status == status
    if headers["Content-Type"] == "application/x-protobuf":
        assert Status.FromString(answer.body).message
        assert answer.headers["Content-Type"] == "application/x-protobuf"
    else:
        assert json.loads(answer.body)["message"]
    assert ("Allow" in answer.headers) is (status == 405)
    assert not any(name.startswith("Access-Control") for name in answer.headers)
    assert sink.taken == []


async def test_unsupported_requests_are_counted(start: Start, post: Post, meter: RecordingMeter) -> None:
    """A type or compression that is not understood counts as unsupported; a wrong path counts nothing."""
    receiver = await start()
    await post(receiver, b"", {"Content-Type": "text/plain"})
    await post(receiver, b"", {**JSON, "Content-Encoding": "br"})
    await post(receiver, b"", path="/nowhere")
    assert meter.counts == {("otlp", RejectReason.UNSUPPORTED): 2}


@pytest.mark.parametrize(("name", "pack"), [("gzip", gzip.compress), ("deflate", zlib.compress), ("identity", bytes)])
async def test_packed_bodies_are_unpacked(
    start: Start, post: Post, sink: RecordingSink, name: str, pack: Callable[[bytes], bytes]
) -> None:
    """gzip, deflate (zlib) and identity reach the sink unpacked."""
    body = traces(span(attributes={"pad": "a" * 100_000}))
    assert (await post(await start(), pack(body), {**PROTOBUF, "Content-Encoding": name})).status == 200
    assert sink.taken[0].body == body


async def test_gzip_that_grows(
    start: Start, post: Post, sink: RecordingSink, meter: RecordingMeter, shared: Path
) -> None:
    """Public report gzip-that-grows: each step has its answer, and the receiver goes on."""
    steps = json.loads((shared / "cases/public-reports/gzip-that-grows.steps.json").read_text())
    receiver = await start(max_request_bytes=steps["configure"]["max_body_bytes"])
    small, grown = traces(span(attributes={"pad": "a" * 900_000})), traces(span(attributes={"pad": "a" * 40_000_000}))
    bodies = [
        gzip.compress(small),
        gzip.compress(grown),
        gzip.compress(gzip.compress(grown)),
        traces(span(attributes={"pad": "a" * 1_200_000})),
        b"ten bytes.",
        gzip.compress(small)[:500],
        traces(span()),
        traces(span()),
    ]
    for step, body in zip(steps["requests"], bodies, strict=True):
        headers = {**PROTOBUF, **({"Content-Encoding": step["content_encoding"]} if step["content_encoding"] else {})}
        answer = await post(receiver, io.BytesIO(body), headers)
        assert str(answer.status) in str(step["answer"]), step["body"]
    assert [len(taken.body) for taken in sink.taken] == [len(small), len(traces(span()))]
    assert (meter.of(RejectReason.TOO_LARGE), meter.of(RejectReason.MALFORMED), meter.of(RejectReason.UNSUPPORTED)) == (
        2,
        2,
        2,
    )


async def chunks(size: int, count: int) -> AsyncIterator[bytes]:
    """A body without Content-Length."""
    for _ in range(count):
        yield bytes(size)


async def test_chunked_bodies_are_taken_and_limited(start: Start, post: Post, sink: RecordingSink) -> None:
    """A body without length is read as it comes, and refused as soon as it passes the limit."""
    receiver = await start(max_request_bytes=MIB)
    body = traces(span(attributes={"pad": "a" * 300_000}))

    async def pieces() -> AsyncIterator[bytes]:
        for at in range(0, len(body), 1000):
            yield body[at : at + 1000]

    assert (await post(receiver, pieces())).status == 200
    assert sink.taken[0].body == body
    assert (await post(receiver, chunks(100_000, 50))).status == 413


async def test_what_the_sink_calls_malformed_is_400(start: Start, post: Post, meter: RecordingMeter) -> None:
    """A body that is no request is refused for good, in the request's encoding; the sink counts it, not the receiver."""
    receiver = await start()
    answer = await post(receiver, b"\xff\xff\xff")
    assert (answer.status, Status.FromString(answer.body).code) == (400, 3)
    answer = await post(receiver, b"{broken", JSON)
    assert (answer.status, json.loads(answer.body)["code"]) == (400, 3)
    assert meter.counts == {}


async def test_partial_success_is_told(start: Start, post: Post) -> None:
    """Rejected spans do not make the request fail: they are counted in the answer."""
    answer = await post(await start(), traces(span(), span(span_id=b"")))
    partial = ExportTraceServiceResponse.FromString(answer.body).partial_success
    assert (answer.status, partial.rejected_spans) == (200, 1)
    assert "spanId" in partial.error_message


@pytest.mark.parametrize("case", ["ids-in-base64", "defaults-left-out-and-one-bad-span"])
async def test_public_cases_get_partial_success_in_json(start: Start, post: Post, shared: Path, case: str) -> None:
    """Public reports ids-in-base64 and defaults-left-out-and-one-bad-span: 200, one rejected, the field named."""
    body = (shared / f"cases/public-reports/{case}.otlp.json").read_bytes()
    answer = await post(await start(), body, JSON)
    partial = json.loads(answer.body)["partialSuccess"]
    assert (answer.status, partial["rejectedSpans"]) == (200, "1")
    assert "Id: should be" in partial["errorMessage"]


@pytest.mark.parametrize(
    ("case", "headers"),
    [("text-cut-inside-a-character.otlp.pb", PROTOBUF), ("half-a-surrogate-pair.otlp.json", JSON)],
)
async def test_public_cases_of_bad_text_are_taken_whole(
    start: Start, post: Post, sink: RecordingSink, shared: Path, case: str, headers: dict[str, str]
) -> None:
    """Public reports text-cut-inside-a-character and half-a-surrogate-pair: 200, nothing rejected, both spans there."""
    answer = await post(await start(), (shared / "cases/public-reports" / case).read_bytes(), headers)
    assert (answer.status, answer.body) == (200, b"{}" if headers is JSON else b"")
    assert len(sink.taken[0].decoded.spans) == 2


async def test_nothing_is_acknowledged_before_it_is_durable(start: Start, post: Post, sink: RecordingSink) -> None:
    """The answer waits for the sink's future."""
    sink.durable = False
    receiver = await start()
    waiting = asyncio.ensure_future(post(receiver, traces(span())))
    await asyncio.to_thread(sink.arrived.wait, 5)
    await post(receiver, b"", path="/nowhere")
    assert not waiting.done()
    sink.futures[0].set_result(Accepted(1))
    assert (await waiting).status == 200


async def test_what_could_not_be_made_durable_is_to_be_sent_again(
    start: Start, post: Post, sink: RecordingSink
) -> None:
    """A future that fails with Overloaded is 503 with a short Retry-After."""
    sink.durable = False
    receiver = await start()
    waiting = asyncio.ensure_future(post(receiver, traces(span())))
    await asyncio.to_thread(sink.arrived.wait, 5)
    sink.futures[0].set_exception(Overloaded("the disk is full", 30))
    answer = await waiting
    assert (answer.status, answer.headers["Retry-After"]) == (503, "3")


async def test_a_sink_that_never_answers_is_503_and_keeps_its_future(
    start: Start, post: Post, sink: RecordingSink
) -> None:
    """A request that is given up does not cancel the sink's future: the data may still become durable."""
    sink.durable = False
    answer = await post(await start(acknowledge_seconds=0.05), traces(span()))
    assert (answer.status, answer.headers["Retry-After"]) == (503, "1")
    sink.futures[0].set_result(Accepted(1))


@pytest.mark.parametrize(
    ("fault", "status", "retry"),
    [
        (Overloaded("full", 2), 503, "2"),
        (MalformedRequest("resourceSpans[0]: wrong"), 400, None),
        (RuntimeError("secret content"), 500, None),
    ],
)
async def test_errors_of_the_sink_have_their_status(
    start: Start,
    post: Post,
    sink: RecordingSink,
    caplog: pytest.LogCaptureFixture,
    fault: Exception,
    status: int,
    retry: str | None,
) -> None:
    """Overload is retryable, malformed data are not, a fault of ours says nothing of its inside."""
    sink.fault = fault
    answer = await post(await start(), traces(span()))
    assert (answer.status, answer.headers.get("Retry-After")) == (status, retry)
    assert "secret content" not in str(answer.body) + caplog.text


async def test_bytes_in_flight_are_bounded(
    start: Start, post: Post, sink: RecordingSink, meter: RecordingMeter
) -> None:
    """While the budget is used up new requests get 503 before they are read; afterwards they are taken again."""
    sink.durable = False
    receiver = await start(max_in_flight_bytes=100_000)
    body = traces(span(attributes={"pad": "a" * 60_000}))
    waiting = asyncio.ensure_future(post(receiver, body))
    await asyncio.to_thread(sink.arrived.wait, 5)
    answer = await post(receiver, body)
    assert (answer.status, answer.headers["Retry-After"]) == (503, "1")
    assert (await post(receiver, gzip.compress(body), {**PROTOBUF, "Content-Encoding": "gzip"})).status == 503
    assert meter.of(RejectReason.OVERLOADED) == 2
    sink.futures[0].set_result(Accepted(1))
    assert (await waiting).status == 200
    sink.durable = True
    assert (await post(receiver, body)).status == 200


async def test_a_sender_over_its_share_is_refused_while_room_is_short(
    start: Start, post: Post, sink: RecordingSink, meter: RecordingMeter
) -> None:
    """Where room for unsettled data is short, one that sent more than others is refused before its body is read; one that sent little is taken."""
    receiver = await start()
    receiver._gate._recent.note("10.0.0.1", 1_000, asyncio.get_running_loop().time())
    assert (await post(receiver, traces(span(attributes={"pad": "a" * 60_000})))).status == 200
    sink.full = 0.9
    answer = await post(receiver, traces(span()))
    assert (answer.status, answer.headers["Retry-After"]) == (503, "2")
    assert meter.of(RejectReason.OVERLOADED) == 1
    receiver._gate._recent.note("10.0.0.1", 1_000_000, asyncio.get_running_loop().time())
    assert (await post(receiver, traces(span()))).status == 200
    sink.full = 1.0
    answer = await post(receiver, traces(span()))
    assert (answer.status, answer.headers["Retry-After"]) == (503, "3")
    assert len(sink.taken) == 2


async def test_draining_refuses_what_is_new_and_answers_what_is_under_way(
    start: Start, post: Post, sink: RecordingSink
) -> None:
    """After `drain` new requests get 503 with Retry-After; the one under way gets its answer."""
    sink.durable = False
    receiver = await start()
    waiting = asyncio.ensure_future(post(receiver, traces(span())))
    await asyncio.to_thread(sink.arrived.wait, 5)
    await receiver.drain()
    answer = await post(receiver, traces(span()))
    assert (answer.status, answer.headers["Retry-After"]) == (503, "1")
    stopping = asyncio.ensure_future(receiver.stop())
    sink.futures[0].set_result(Accepted(1))
    assert (await waiting).status == 200
    await stopping


async def test_stop_may_come_twice_and_before_the_start(
    sink: RecordingSink, meter: RecordingMeter, start: Start
) -> None:
    """`stop` is safe at any time, and frees the port."""
    await HttpReceiver("otlp", ReceiverConfig("127.0.0.1:0"), sink, meter).stop()
    receiver = await start()
    await receiver.stop()
    await receiver.stop()
    port = int(receiver.endpoints[0].rpartition(":")[2])
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", port)) != 0


async def test_a_port_in_use_fails_the_start(start: Start, sink: RecordingSink, meter: RecordingMeter) -> None:
    """The second receiver on a port fails, naming the endpoint."""
    port = (await start()).endpoints[0].rpartition(":")[2]
    second = HttpReceiver("otlp", ReceiverConfig(f"localhost:{port}"), sink, meter)
    with pytest.raises(CollectorFailed, match=f"otlp: http: cannot listen on localhost:{port}: the port is in use"):
        await second.start()
    assert second.endpoints == ()


async def test_only_bearers_of_a_token_come_in(
    start: Start, post: Post, sink: RecordingSink, meter: RecordingMeter, tmp_path: Path
) -> None:
    """With a token file a request without a token of it is 401, before its body is looked at, and counted."""
    file = tmp_path / "tokens"
    file.write_text("alpha\n")
    receiver = await start(bearer_token_file=str(file))
    for headers in (PROTOBUF, {**PROTOBUF, "Authorization": "Bearer beta"}):
        answer = await post(receiver, b"\xff", headers)
        assert (answer.status, answer.headers["WWW-Authenticate"]) == (401, "Bearer")
    assert (await post(receiver, traces(span()), {**PROTOBUF, "Authorization": "Bearer alpha"})).status == 200
    assert meter.counts == {("otlp", RejectReason.UNAUTHORIZED): 2}
    file.unlink()
    assert (await post(receiver, traces(span()), {**PROTOBUF, "Authorization": "Bearer alpha"})).status == 200
    assert receiver.problem is not None


async def test_a_missing_token_file_fails_the_start(start: Start) -> None:
    """A listener that nobody could use does not start; the message names the file."""
    with pytest.raises(CollectorFailed, match=r"auth\.bearer_token_file: /nowhere/tokens: No such file"):
        await start(bearer_token_file="/nowhere/tokens")


@contextlib.asynccontextmanager
async def raw(receiver: HttpReceiver) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A connection on which a test writes what it likes."""
    host, _, port = receiver.endpoints[0].removeprefix("http://").rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        yield reader, writer
    finally:
        writer.close()


HEAD = b"POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-protobuf\r\n"


async def status_line(reader: asyncio.StreamReader) -> bytes:
    return (await asyncio.wait_for(reader.readline(), 5)).split()[1]


async def test_a_body_that_does_not_come_is_given_up(start: Start, post: Post, sink: RecordingSink) -> None:
    """A client that stops in its body is answered 408 and its connection closed; others are served meanwhile."""
    receiver = await start(body_seconds=0.2)
    async with raw(receiver) as (reader, writer):
        writer.write(HEAD + b"Content-Length: 100\r\n\r\nabc")
        assert (await post(receiver, traces(span()))).status == 200
        head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 5)
    assert head.startswith(b"HTTP/1.1 408")
    assert b"connection: close" in head.lower()
    assert len(sink.taken) == 1
    assert receiver.in_flight_bytes == 0


@pytest.mark.parametrize("sent", [b"", HEAD + b"X-Slow: "])
async def test_a_head_that_does_not_come_is_given_up(start: Start, sent: bytes) -> None:
    """A client that opens a connection and never finishes a request head is cut off."""
    async with raw(await start(idle_seconds=0.2)) as (reader, writer):
        writer.write(sent)
        assert await asyncio.wait_for(reader.read(), 5) == b""


async def test_a_client_that_goes_away_in_its_body_leaves_no_trace(
    start: Start, post: Post, sink: RecordingSink, caplog: pytest.LogCaptureFixture
) -> None:
    """A connection that ends in the middle of a body holds nothing and is no error of ours."""
    receiver = await start()
    async with raw(receiver) as (_, writer):
        writer.write(HEAD + b"Content-Length: 100\r\n\r\nabc")
        await reading(receiver)
    while receiver.in_flight_bytes:
        await asyncio.sleep(0)
    assert (await post(receiver, traces(span()))).status == 200
    assert len(sink.taken) == 1
    assert not [entry for entry in caplog.records if entry.levelno >= logging.ERROR]


@pytest.mark.parametrize("at_once", [True, False])
async def test_broken_chunks_are_refused(
    start: Start, sink: RecordingSink, caplog: pytest.LogCaptureFixture, at_once: bool
) -> None:
    """A chunk that has no length is refused at once, and by one answer, which ends the connection; the log does not quote it."""
    receiver = await start()
    first, second = HEAD + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", b"secret\r\nabc"
    async with raw(receiver) as (reader, writer):
        writer.write(first + (second if at_once else b""))
        if not at_once:
            await reading(receiver)
            writer.write(second)
        answer = await asyncio.wait_for(reader.read(), 5)
    assert answer.startswith(b"HTTP/1.1 400")
    assert answer.count(b"HTTP/1.1") == 1
    assert sink.taken == []
    assert "secret" not in caplog.text
    assert not [entry for entry in caplog.records if entry.levelno >= logging.ERROR]


CLOSE = HEAD + b"Connection: close\r\n"
OLD = HEAD.replace(b"1.1", b"1.0")


@pytest.mark.parametrize("head", [CLOSE, OLD, CLOSE + b"Transfer-Encoding: chunked\r\n"])
@pytest.mark.parametrize("before", [0, 1])
@pytest.mark.parametrize("cut", [None, -2, 3])
async def test_what_follows_the_last_request_is_ignored(
    start: Start, sink: RecordingSink, head: bytes, before: int, cut: int | None
) -> None:
    """Behind `Connection: close` or HTTP/1.0 nothing more is read: the request is taken and answered, and the connection ends (RFC 9112, 9.6)."""
    body = traces(span())
    counted = b"Content-Length: %d\r\n\r\n" % len(body)
    if b"chunked" in head:
        last = head + b"\r\n", b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
    else:
        last = head + counted, body
    sent = (
        (HEAD.replace(b"traces", b"traces/") + counted + body) * before + b"".join(last) + (HEAD + counted + body) * 2
    )
    at = len(sent) if cut is None else sent.index(last[0]) + len(last[0]) + cut
    async with raw(await start()) as (reader, writer):
        writer.write(sent[:at])
        for _ in range(5):  # until that has been read
            await asyncio.sleep(0)
        writer.write(sent[at:])
        answer = await asyncio.wait_for(reader.read(), 5)
    assert answer.count(b" 200 OK\r\n") == answer.count(b"HTTP/1.") == before + 1
    assert [taken.body for taken in sink.taken] == [body] * (before + 1)


async def reading(receiver: HttpReceiver) -> None:
    """Return once the receiver holds a part of a body."""
    async with asyncio.timeout(5):
        while not receiver.in_flight_bytes:
            await asyncio.sleep(0)


async def test_what_is_no_http_is_one_line_without_content(start: Start, caplog: pytest.LogCaptureFixture) -> None:
    """Bytes that are no HTTP are answered 400 with an OTLP status; neither answer nor log quotes them, and the log has no traceback."""
    async with raw(await start()) as (reader, writer):
        writer.write(b"secret \x00 nonsense\r\n\r\n")
        head, _, body = (await reader.read()).partition(b"\r\n\r\n")
        assert head.startswith((b"HTTP/1.0 400", b"HTTP/1.1 400"))
        assert json.loads(body) == {"code": 3, "message": "no HTTP request"}
        assert b"secret" not in head
    assert "secret" not in caplog.text
    assert not [entry for entry in caplog.records if entry.levelno >= logging.ERROR]


async def test_a_client_that_waits_to_be_asked_is_asked(start: Start) -> None:
    """`Expect: 100-continue` is answered before the body is read, unless the request is refused."""
    receiver = await start(max_request_bytes=1000)
    body = traces(span())
    async with raw(receiver) as (reader, writer):
        writer.write(HEAD + b"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n" % len(body))
        assert await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 5) == b"HTTP/1.1 100 Continue\r\n\r\n"
        writer.write(body)
        assert await status_line(reader) == b"200"
    async with raw(receiver) as (reader, writer):
        writer.write(HEAD + b"Expect: 100-continue\r\nContent-Length: 2000\r\n\r\n")
        assert await status_line(reader) == b"413"


async def test_a_client_of_http_1_0_is_not_asked(start: Start) -> None:
    """RFC 9110, section 10.1.1: `Expect` means nothing there, and the only answer is that to the request."""
    body = traces(span())
    head = OLD + b"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n" % len(body)
    receiver = await start()
    async with raw(receiver) as (reader, writer):
        writer.write(head)
        await reading(receiver)
        writer.write(body)
        assert await status_line(reader) == b"200"


@pytest.mark.parametrize(("more", "status"), [(125, b"200"), (126, b"400")])
async def test_a_request_has_128_fields_at_most(start: Start, more: int, status: bytes) -> None:
    """One more is refused, however short they are."""
    body = traces(span())
    fields = b"".join(b"X%d: y\r\n" % number for number in range(more))
    async with raw(await start()) as (reader, writer):
        writer.write(HEAD + fields + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        assert await status_line(reader) == status


async def test_connections_are_kept(start: Start) -> None:
    """Many requests go over one connection, also after refusals."""
    body = traces(span())
    async with raw(await start()) as (reader, writer):
        for content, status in ((body, b"200"), (b"\xff", b"400"), (body, b"200")):
            writer.write(HEAD + b"Content-Length: %d\r\n\r\n" % len(content) + content)
            head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 5)
            assert head.split()[1] == status
            length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
            await reader.readexactly(length)


async def test_one_address_cannot_take_all_connections(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """An address holds half of the connections at most, and gets room back with those that end; another address finds room beside it."""
    monkeypatch.setattr(connections, "allowed", lambda kind: 4)
    receiver = await start()
    port = int(receiver.endpoints[0].rpartition(":")[2])

    async def served(address: str) -> asyncio.StreamWriter | None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(address, 0))
        with contextlib.suppress(ConnectionError):
            writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            if await reader.readline():
                return writer
        writer.close()
        return None

    flood = [await served("127.0.0.1") for _ in range(3)]
    assert [bool(one) for one in flood] == [True, True, False]
    polite = await served("127.0.0.2")
    assert flood[0] is not None
    assert polite is not None
    flood[0].close()
    async with asyncio.timeout(5):
        while (again := await served("127.0.0.1")) is None:
            pass
    for writer in (flood[1], polite, again):
        assert writer is not None
        writer.close()


async def test_refusals_are_logged_once_per_peer_without_content(
    start: Start, post: Post, caplog: pytest.LogCaptureFixture
) -> None:
    """A peer that sends rubbish for ever is one line in the log, which names it and quotes nothing."""
    receiver = await start()
    for _ in range(3):
        await post(receiver, b"{secret", JSON)
    lines = [entry.getMessage() for entry in caplog.records if entry.name.startswith("collectors")]
    assert len(lines) == 1
    assert "127.0.0.1" in lines[0]
    assert "secret" not in lines[0]


async def test_the_event_loop_is_free_while_the_sink_works(start: Start, post: Post, sink: RecordingSink) -> None:
    """A sink that blocks does not keep the loop from answering others."""
    entered, go = threading.Event(), threading.Event()

    def block() -> None:
        entered.set()
        go.wait(5)

    sink.before = block
    receiver = await start()
    waiting = asyncio.ensure_future(post(receiver, traces(span())))
    await asyncio.to_thread(entered.wait, 5)
    assert (await post(receiver, b"", path="/nowhere")).status == 404
    go.set()
    assert (await waiting).status == 200
