"""OTLP/HTTP: POST /v1/traces and /v1/logs, protobuf and JSON.

The event loop reads and answers; unpacking and the sink run in a few threads. Nothing is acknowledged before the sink says that it is
durable. /v1/metrics is answered 200 and not read: agents commonly set one endpoint for all signals, and an error there would fill
their logs every minute without helping anybody.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from functools import partial
from typing import TYPE_CHECKING, Any

from collectors.collector import CollectorFailed
from collectors.otlp import answer, tls
from collectors.otlp.answer import StatusCode
from collectors.otlp.body import TooLarge, compression_of, encoding_of
from collectors.otlp.config import ReceiverConfig
from collectors.otlp.connections import Connections, WithoutContent
from collectors.otlp.endpoint import Endpoint, bind, parse_endpoint
from collectors.otlp.gate import ACKNOWLEDGE_SECONDS, Gate, Refusal, refusal_of
from collectors.otlp.hand_over import HandOver, is_quick
from collectors.otlp.in_flight import Holding
from collectors.otlp.lane import Lanes, Rules
from collectors.otlp.senders import Recent, Sender, of_socket
from collectors.sink import Accepted, Encoding, IntakeMeter, MalformedRequest, Overloaded, Signal, SpanSink

if TYPE_CHECKING:
    import socket

    from aiohttp import web

METRICS = "metrics"
_SUFFIXES = {"/v1/traces": Signal.TRACES, "/v1/logs": Signal.LOGS, "/v1/metrics": METRICS}
_STOP_SECONDS = 3.0
_LINGER_SECONDS = 2.0  # for what a refused client is still sending, so that it reads our answer
IDLE_SECONDS = 75.0
"""How long a connection may stay without a whole request head; exporters send every 5 to 60 s."""

BODY_SECONDS = 30.0
"""How long a body may take; exporters give up after 10 s."""


class HttpReceiver:
    """The HTTP listener of an OTLP collector; keeps the contract of `collectors.collector.Collector`."""

    def __init__(
        self,
        name: str,
        config: ReceiverConfig,
        sink: SpanSink,
        meter: IntakeMeter,
        body_seconds: float = BODY_SECONDS,
        acknowledge_seconds: float = ACKNOWLEDGE_SECONDS,
        idle_seconds: float = IDLE_SECONDS,
        recent: Recent | None = None,
    ) -> None:
        self.name = name
        self._config = config
        self._gate = Gate(name, f"{name}: http", config, sink, meter, recent)
        self._body_seconds = body_seconds
        self._acknowledge_seconds = acknowledge_seconds
        self._idle_seconds = idle_seconds
        self._runner: web.ServerRunner | None = None
        self._hand_over: HandOver | None = None
        self._lanes: Lanes | None = None
        self._listening: list[asyncio.Server] = []
        self._endpoints: tuple[str, ...] = ()

    @property
    def problem(self) -> str | None:
        """What is wrong with the token file, or None."""
        return self._gate.problem

    @property
    def endpoints(self) -> tuple[str, ...]:
        """The URL to send to, without a path; empty before the start."""
        return self._endpoints

    @property
    def in_flight_bytes(self) -> int:
        """The bytes of requests that are being taken in now."""
        return self._gate.in_flight.held

    async def start(self) -> None:
        """Listen. Raises CollectorFailed and leaves nothing behind when that cannot be."""
        from aiohttp import web

        from collectors.otlp.neutral import answer_neutrally

        self._gate.open()
        config, place = self._config, self._gate.place
        context = tls.http_context(config.tls, place) if config.tls is not None else None
        endpoint = parse_endpoint(config.endpoint)
        sockets = bind(endpoint, place)
        server = web.Server(
            self._handle,
            access_log=None,
            logger=WithoutContent(logging.getLogger(__name__)),
            auto_decompress=False,
            keepalive_timeout=self._idle_seconds,
            lingering_time=_LINGER_SECONDS,
        )
        self._runner = web.ServerRunner(server, shutdown_timeout=_STOP_SECONDS)
        self._hand_over = HandOver("otlp-http", self._acknowledge_seconds)
        await self._runner.setup()
        answer_neutrally(self._runner.server, _unreadable)
        self._lanes = Lanes(self._rules(server))
        await self._listen(sockets, context)
        host, port = endpoint.host or "0.0.0.0", sockets[0].getsockname()[1]  # noqa: S104 - shown, not bound
        self._endpoints = (f"{'http' if context is None else 'https'}://{Endpoint(host, port)}",)

    def _rules(self, server: web.Server) -> Rules:
        from aiohttp.helpers import rfc822_formatted_time

        assert self._hand_over is not None
        connections, idle = Connections("otlp"), self._idle_seconds
        return Rules(self._gate, self._hand_over, connections, server, self._body_seconds, idle, rfc822_formatted_time)

    async def _listen(self, sockets: list[socket.socket], context: Any) -> None:
        assert self._lanes is not None
        loop = asyncio.get_running_loop()
        try:
            for bound in sockets:
                self._listening.append(await loop.create_server(self._lanes, sock=bound, ssl=context, backlog=512))
        except OSError as error:
            await self.stop()
            for bound in sockets:
                bound.close()
            place = f"{self._gate.place}: cannot listen on {self._config.endpoint}"
            raise CollectorFailed(f"{place}: {error.strerror or error}") from None

    async def drain(self) -> None:
        """Answer 503 to everything new."""
        self._gate.draining = True

    async def stop(self) -> None:
        """Stop listening, let what is under way end for some seconds, and close every connection."""
        self._gate.draining = True
        while self._listening:
            self._listening.pop().close()
        lanes, self._lanes = self._lanes, None
        if lanes is not None:
            await lanes.close(_STOP_SECONDS)
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()
        hand_over, self._hand_over = self._hand_over, None
        if hand_over is not None:
            await hand_over.close()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer any request; whatever goes wrong becomes an answer, too."""
        encoding = encoding_of(request.headers.get("Content-Type", "")) or Encoding.JSON
        try:
            signal = _signal_of(request)
            if signal is METRICS:
                self._admit(request)
                return _response(request, encoding, 200, b"{}" if encoding is Encoding.JSON else b"")
            assert isinstance(signal, Signal)
            accepted = await self._export(request, signal)
        except Exception as error:
            refusal = refusal_of(error)
            self._gate.complain(request.remote or "an unknown peer", refusal)
            return _refused(request, encoding, refusal)
        return _response(request, encoding, 200, answer.success(accepted, signal, encoding))

    async def _export(self, request: web.BaseRequest, signal: Signal) -> Accepted:
        """Take one export request; raises Refusal."""
        sender, now = self._admit(request)
        encoding = encoding_of(request.headers.get("Content-Type", ""))
        if encoding is None:
            raise self._gate.unsupported("the Content-Type should be application/x-protobuf or application/json")
        compression = compression_of(",".join(request.headers.getall("Content-Encoding", [])))
        if compression is None:
            raise self._gate.unsupported("the Content-Encoding should be gzip, deflate or none")
        assert self._hand_over is not None
        with self._gate.in_flight.hold(sender) as holding:
            body = await self._read(request, holding)
            take = partial(self._gate.take, body, compression, signal, encoding, holding, now)
            return await self._hand_over.begin(sender, take, quick=is_quick(len(body), encoding, compression))

    def _admit(self, request: web.BaseRequest) -> tuple[Sender, float]:
        """Who sends, and when; raises the Refusal of a request that is not to be read."""
        transport = request.transport
        sender = of_socket(transport.get_extra_info("peername") if transport is not None else None)
        now = asyncio.get_running_loop().time()
        self._gate.admit(request.headers.get("Authorization"), sender, now)
        return sender, now

    async def _read(self, request: web.BaseRequest, holding: Holding) -> bytes:
        """The body, refused as soon as it is too large or there is no room for it; raises Refusal."""
        try:
            length = request.content_length
            if length is not None and length > self._gate.limit:
                raise TooLarge(self._gate.limit)
            holding.grow(length or 0)
            if length is not None and request.content.is_eof():  # the whole body came with its head
                return request.content.read_nowait()
            await _continue(request)
            async with asyncio.timeout(self._body_seconds):
                return await self._pieces(request, holding, counted=length is not None)
        except (TooLarge, Overloaded) as error:
            raise self._gate.refuse(error) from None
        except TimeoutError:
            message = f"the body did not come within {self._body_seconds:g} seconds"
            raise Refusal(408, StatusCode.INVALID_ARGUMENT, message) from None
        except Exception:  # the peer went away, or its chunks are broken
            raise self._gate.refuse(MalformedRequest("the body ends before its length or its last chunk")) from None

    async def _pieces(self, request: web.BaseRequest, holding: Holding, counted: bool) -> bytes:
        pieces: list[bytes] = []
        size = 0
        while piece := await request.content.readany():
            size += len(piece)
            if size > self._gate.limit:
                raise TooLarge(self._gate.limit)
            if not counted:
                holding.grow(len(piece))
            pieces.append(piece)
        return b"".join(pieces)


def _signal_of(request: web.BaseRequest) -> Signal | str:
    """The signal that a path ends in; an exporter with a signal's URL as its base posts to /v1/traces/v1/logs."""
    path = request.path.rstrip("/")
    for suffix, signal in _SUFFIXES.items():
        if path.endswith(suffix):
            if request.method != "POST":
                raise Refusal(405, StatusCode.UNIMPLEMENTED, "only POST is understood here")
            return signal
    raise Refusal(404, StatusCode.NOT_FOUND, "OTLP is taken at /v1/traces and /v1/logs")


async def _continue(request: web.BaseRequest) -> None:
    """Ask for the body where the client waits to be asked; one of HTTP/1.0 does not know such an answer (RFC 9110, section 10.1.1)."""
    if request.version >= (1, 1) and request.headers.get("Expect", "").lower() == "100-continue":
        with contextlib.suppress(ConnectionError):
            await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")


def _unreadable(status: int) -> web.Response:
    """The answer to what is no HTTP. Its encoding is unknown; JSON can be read by people."""
    from aiohttp import web

    code, said = (
        (StatusCode.INTERNAL, "a fault of the receiver")
        if status >= 500
        else (StatusCode.INVALID_ARGUMENT, "no HTTP request")
    )
    body = answer.failure(code, said, Encoding.JSON)
    return web.Response(status=status, body=body, headers={"Content-Type": "application/json", "Server": "rubricd"})


def _refused(request: web.BaseRequest, encoding: Encoding, refusal: Refusal) -> web.Response:
    headers = {}
    if refusal.retry_seconds is not None:
        headers["Retry-After"] = str(refusal.retry_seconds)
    elif refusal.http_status == 405:
        headers["Allow"] = "POST"
    elif refusal.http_status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    body = answer.failure(refusal.code, refusal.message, encoding)
    response = _response(request, encoding, refusal.http_status, body, headers)
    if refusal.http_status == 408:
        response.force_close()
    return response


def _response(
    request: web.BaseRequest, encoding: Encoding, status: int, body: bytes, headers: dict[str, str] | None = None
) -> web.Response:
    """An answer in the media type of the request."""
    from aiohttp import web

    asked = request.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    known = encoding_of(asked) is encoding
    media_type = asked if known else "application/json" if encoding is Encoding.JSON else "application/x-protobuf"
    return web.Response(
        status=status, body=body, headers={"Content-Type": media_type, "Server": "rubricd", **(headers or {})}
    )
