"""The short way of usual HTTP requests, and where it gives a connection to aiohttp."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from collectors.otlp.body import Compression
from collectors.otlp.config import ReceiverConfig
from collectors.otlp.http import HttpReceiver
from collectors.otlp.plain_head import PlainHead, may_become_plain, plain_head
from collectors.sink import Accepted, Encoding, RejectReason, Signal
from tests.collectors.otlp.build import span, traces
from tests.collectors.otlp.recording import RecordingMeter, RecordingSink

HEAD = b"POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-protobuf"
BODY = traces(span())
PLAIN = HEAD + b"\r\nContent-Length: %d\r\n\r\n" % len(BODY) + BODY
CHUNKED = HEAD + b"\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n" % len(BODY) + BODY + b"\r\n0\r\n\r\n"


def test_a_head_as_exporters_send_it_is_plain() -> None:
    """Names and media types count without regard to case, values without the blanks around them."""
    head = b"POST /v1/logs HTTP/1.1\r\nhost: x\r\nCONTENT-TYPE:  Application/JSON; charset=utf-8 \r\ncontent-encoding: GZIP"
    more = b"\r\nContent-Length: 12\r\nAuthorization: Bearer a\r\nConnection: keep-alive\r\nUser-Agent: \xe9\r\nX-A:"
    assert plain_head(head + more) == PlainHead(
        Signal.LOGS, Encoding.JSON, Compression.GZIP, "application/json", 12, "Bearer a"
    )


@pytest.mark.parametrize(
    "head",
    [
        b"",
        b"GET /v1/traces HTTP/1.1\r\nContent-Type: application/x-protobuf\r\nContent-Length: 1",
        b"POST /v1/traces HTTP/1.0\r\nContent-Type: application/x-protobuf\r\nContent-Length: 1",
        b"POST /v1/traces?x=1 HTTP/1.1\r\nContent-Type: application/x-protobuf\r\nContent-Length: 1",
        b"POST /v1/metrics HTTP/1.1\r\nContent-Type: application/x-protobuf\r\nContent-Length: 1",
        HEAD,
        HEAD + b"\r\nContent-Length: 1\r\nContent-Length: 1",
        HEAD + b"\r\nContent-Length: 1\r\nContent-Type: application/json",
        HEAD + b"\r\nContent-Length: +1",
        HEAD + b"\r\nContent-Length: 1, 1",
        HEAD + b"\r\nContent-Length: 1\r\nTransfer-Encoding: chunked",
        HEAD + b"\r\nContent-Length: 1\r\nExpect: 100-continue",
        HEAD + b"\r\nContent-Length: 1\r\nConnection: close",
        HEAD + b"\r\nContent-Length: 1\r\nContent-Encoding: br",
        HEAD + b"\r\nContent-Length: 1\r\n folded: 1",
        HEAD + b"\r\nContent-Length : 1",
        HEAD + b"\r\nContent-Length: 1\r\nX: a\nTransfer-Encoding: chunked",
        HEAD + b"\r\nContent-Length: 1\r\nX: \x00",
        HEAD.replace(b"x-protobuf", b"xml") + b"\r\nContent-Length: 1",
    ],
)
def test_anything_else_is_not_plain(head: bytes) -> None:
    """Another method, path, version or framing, a field given twice, folded or with control characters: all that is for the HTTP parser."""
    assert plain_head(head) is None


def test_what_cannot_become_plain_is_seen_by_its_first_bytes() -> None:
    """The beginning of a plain head, however short, is waited for; nothing else is."""
    assert all(may_become_plain(PLAIN[:length]) for length in range(len(HEAD)))
    assert not any(may_become_plain(begun) for begun in (b"GET /", b"PO\x00", b"\x16\x03\x01", b"POST /x"))


class Sent:
    """A connection to a receiver, on which a test writes what it likes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def status(self) -> int:
        """The status of the next answer, which is read to its end."""
        head = await asyncio.wait_for(self.reader.readuntil(b"\r\n\r\n"), 5)
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        await self.reader.readexactly(length)
        return int(head.split()[1])


@pytest.fixture
async def receiver(sink: RecordingSink, meter: RecordingMeter) -> AsyncIterator[HttpReceiver]:
    made = HttpReceiver("otlp", ReceiverConfig("127.0.0.1:0", max_request_bytes=1 << 20), sink, meter)
    await made.start()
    yield made
    await made.stop()


@contextlib.asynccontextmanager
async def connected(receiver: HttpReceiver) -> AsyncIterator[Sent]:
    host, _, port = receiver.endpoints[0].removeprefix("http://").rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        yield Sent(reader, writer)
    finally:
        writer.close()


async def test_usual_requests_never_reach_the_http_parser(
    receiver: HttpReceiver, sink: RecordingSink, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A head or a body that comes byte by byte, and requests behind each other before an answer, are taken each for itself."""
    assert receiver._runner is not None
    monkeypatch.setattr(type(receiver._runner.server), "__call__", None)
    async with connected(receiver) as sent:
        for at in range(len(PLAIN)):
            sent.writer.write(PLAIN[at : at + 1])
            await sent.writer.drain()
            await asyncio.sleep(0)
        assert await sent.status() == 200
        sent.writer.write(PLAIN * 3 + PLAIN[:50])
        assert [await sent.status() for _ in range(3)] == [200] * 3
        sent.writer.write(PLAIN[50:])
        assert await sent.status() == 200
    assert [taken.body for taken in sink.taken] == [BODY] * 5
    assert receiver.in_flight_bytes == 0


async def test_a_connection_goes_over_to_the_http_parser(receiver: HttpReceiver, sink: RecordingSink) -> None:
    """Behind plain requests one of another form is answered as well, also where it came together with them, and what follows it."""
    async with connected(receiver) as sent:
        sent.writer.write(PLAIN + CHUNKED + PLAIN)
        assert [await sent.status() for _ in range(3)] == [200] * 3
        sent.writer.write(PLAIN.replace(b"/v1/traces", b"/nowhere", 1) + PLAIN)
        assert [await sent.status() for _ in range(2)] == [404, 200]
    assert [taken.body for taken in sink.taken] == [BODY] * 4


async def test_refusals_before_the_body_are_counted_once(
    receiver: HttpReceiver, sink: RecordingSink, meter: RecordingMeter
) -> None:
    """What is too large or comes while nothing is taken is refused and counted as ever, and the connection serves again."""
    async with connected(receiver) as sent:
        sent.writer.write(HEAD + b"\r\nContent-Length: 2000000\r\n\r\n")
        assert await sent.status() == 413
    async with connected(receiver) as sent:
        sink.full = 1.0
        sent.writer.write(PLAIN)
        assert await sent.status() == 503
        sink.full = 0.0
        sent.writer.write(PLAIN)
        assert await sent.status() == 200
    assert meter.counts == {("otlp", RejectReason.TOO_LARGE): 1, ("otlp", RejectReason.OVERLOADED): 1}


async def test_who_is_gone_before_the_answer_costs_nothing(receiver: HttpReceiver, sink: RecordingSink) -> None:
    """A request whose client has gone stays with the sink, holds its bytes until it is durable, and what was begun behind it is dropped."""
    sink.durable = False
    async with connected(receiver) as sent:
        sent.writer.write(PLAIN + PLAIN[:-1])
        await asyncio.to_thread(sink.arrived.wait, 5)
    async with connected(receiver) as other:
        sink.durable = True
        other.writer.write(PLAIN)
        assert await other.status() == 200
    assert receiver.in_flight_bytes == len(BODY)
    sink.futures[0].set_result(Accepted(1))
    async with asyncio.timeout(5):
        while receiver.in_flight_bytes:
            await asyncio.sleep(0)


async def test_stopping_answers_what_is_under_way(receiver: HttpReceiver, sink: RecordingSink) -> None:
    """An idle connection is closed at once, one with a request when that is answered."""
    sink.durable = False
    async with connected(receiver) as idle, connected(receiver) as busy:
        busy.writer.write(PLAIN)
        await asyncio.to_thread(sink.arrived.wait, 5)
        stopping = asyncio.ensure_future(receiver.stop())
        assert await asyncio.wait_for(idle.reader.read(), 5) == b""
        sink.futures[0].set_result(Accepted(1))
        assert await busy.status() == 200
        assert await asyncio.wait_for(busy.reader.read(), 5) == b""
        await stopping


async def test_requests_sent_ahead_wait_with_their_sender(receiver: HttpReceiver) -> None:
    """A client that sends thousands of requests before it reads an answer has little of them in our memory, and all are answered in order."""
    async with connected(receiver) as sent:
        sent.writer.write(PLAIN * 20_000)
        most = 0
        for _ in range(100):
            assert await sent.status() == 200
            assert receiver._lanes is not None
            most = max(most, *(len(lane._begun) for lane in receiver._lanes._open))
        sent.writer.transport.abort()
    assert 0 < most < 1 << 20 < 20_000 * len(PLAIN)


async def test_who_does_not_read_the_answers_is_asked_for_nothing_more(
    receiver: HttpReceiver, sink: RecordingSink
) -> None:
    """While answers pile up nothing is taken from that connection, from others it is; when they have been read it goes on."""
    async with connected(receiver) as sent, connected(receiver) as other:
        sent.writer.write(PLAIN)
        assert await sent.status() == 200
        assert receiver._lanes is not None
        (lane,) = (one for one in receiver._lanes._open if one._sender.connection == _port(sent))
        lane.pause_writing()
        sent.writer.write(PLAIN * 2)
        for _ in range(2):
            other.writer.write(PLAIN)
            assert await other.status() == 200
        assert len(sink.taken) == 3
        lane.resume_writing()
        assert [await sent.status() for _ in range(2)] == [200] * 2


def _port(sent: Sent) -> str:
    return str(sent.writer.get_extra_info("sockname")[1])
