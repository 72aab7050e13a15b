"""OTLP/gRPC: TraceService and LogsService, and the health service.

A thread-pool server on bytes: grpc never sees a message class. Calls are taken as streams of one message, because only then
does the handler run before the message is read: who is not authorised, or comes while there is no room, is refused without
reading on, and a message that does not come can be given up. grpc's own unpacking is switched off: it unpacks a whole message
before it looks at the size. MetricsService is answered and dropped, for the reason given in `collectors.otlp.http`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import grpc

from collectors.collector import CollectorFailed
from collectors.otlp import answer, tls
from collectors.otlp.body import sniffed_compression
from collectors.otlp.config import ReceiverConfig
from collectors.otlp.endpoint import Endpoint, bind, parse_endpoint
from collectors.otlp.fair_pool import FairPool, GrpcPool
from collectors.otlp.gate import ACKNOWLEDGE_SECONDS, Gate, refusal_of
from collectors.otlp.senders import Recent, of_grpc
from collectors.sink import Encoding, IntakeMeter, MalformedRequest, Overloaded, Signal, SpanSink

TRACE_SERVICE = "opentelemetry.proto.collector.trace.v1.TraceService"
LOGS_SERVICE = "opentelemetry.proto.collector.logs.v1.LogsService"
METRICS_SERVICE = "opentelemetry.proto.collector.metrics.v1.MetricsService"

MESSAGE_SECONDS = 30.0
"""How long the message of a call may take; exporters give up after 10 s."""

_THREADS = 32  # a thread waits while its data become durable; idle ones are not created
_CALLS_OF_CONNECTION = 64  # exporters have 1 to 10 under way; a client that wants more waits on its own side
_STOP_SECONDS = 5.0
_SWEEP_SECONDS = 5.0
_ROOM_ABOVE_LIMIT = 64 << 20
"""grpc answers RESOURCE_EXHAUSTED to what passes its limit, which exporters send again: it comes in only far above ours."""

_CODES = {code.value[0]: code for code in grpc.StatusCode}


class GrpcReceiver:
    """The gRPC listener of an OTLP collector; keeps the contract of `collectors.collector.Collector`."""

    def __init__(
        self,
        name: str,
        config: ReceiverConfig,
        sink: SpanSink,
        meter: IntakeMeter,
        message_seconds: float = MESSAGE_SECONDS,
        acknowledge_seconds: float = ACKNOWLEDGE_SECONDS,
        recent: Recent | None = None,
    ) -> None:
        self.name = name
        self._config = config
        self._gate = Gate(name, f"{name}: grpc", config, sink, meter, recent)
        self._message_seconds = message_seconds
        self._acknowledge_seconds = acknowledge_seconds
        self._awaited: dict[Any, float] = {}
        self._server: Any = None
        self._health: Any = None
        self._pool: FairPool | None = None
        self._sweeper: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._endpoints: tuple[str, ...] = ()

    @property
    def problem(self) -> str | None:
        """What is wrong with the token file, or None."""
        return self._gate.problem

    @property
    def endpoints(self) -> tuple[str, ...]:
        """`grpc://host:port` (`grpcs` with TLS); empty before the start."""
        return self._endpoints

    @property
    def in_flight_bytes(self) -> int:
        """The bytes of requests that are being taken in now."""
        return self._gate.in_flight.held

    @property
    def awaited_messages(self) -> int:
        """Calls that are open and have not sent their message."""
        return len(self._awaited)

    async def start(self) -> None:
        """Listen. Raises CollectorFailed and leaves nothing behind when that cannot be."""
        self._gate.open()
        config, place = self._config, self._gate.place
        credentials = tls.grpc_credentials(config.tls, place) if config.tls is not None else None
        self._loop = asyncio.get_running_loop()
        self._pool = FairPool(_THREADS, "otlp-grpc")
        self._server = self._new_server(GrpcPool(self._pool))
        try:
            port = self._listen(parse_endpoint(config.endpoint), credentials)
        except CollectorFailed:
            await self.stop()
            raise
        self._server.start()
        self._sweeper = self._loop.create_task(self._sweep())
        host = parse_endpoint(config.endpoint).host or "0.0.0.0"  # noqa: S104 - shown, not bound
        self._endpoints = (f"{'grpc' if credentials is None else 'grpcs'}://{Endpoint(host, port)}",)

    def _new_server(self, pool: GrpcPool) -> Any:
        from grpc_health.v1 import health, health_pb2_grpc

        options = [
            ("grpc.so_reuseport", 0),  # else a second process takes half of the connections without an error
            ("grpc.max_receive_message_length", self._config.max_request_bytes + _ROOM_ABOVE_LIMIT),
            ("grpc.per_message_decompression", 0),
            ("grpc.max_concurrent_streams", _CALLS_OF_CONNECTION),
            ("grpc.http2.min_recv_ping_interval_without_data_ms", 5000),
            ("grpc.keepalive_permit_without_calls", 1),
        ]
        server = grpc.server(pool, options=options)
        services: dict[str, Callable[[Iterator[bytes], Any], bytes]] = {
            TRACE_SERVICE: partial(self._export, Signal.TRACES),
            LOGS_SERVICE: partial(self._export, Signal.LOGS),
            METRICS_SERVICE: partial(self._export, None),
        }
        for service, behaviour in services.items():
            methods = {"Export": grpc.stream_unary_rpc_method_handler(behaviour)}
            server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, methods),))
        self._health = health.HealthServicer()
        for service in (TRACE_SERVICE, LOGS_SERVICE):
            self._health.set(service, _serving())
        health_pb2_grpc.add_HealthServicer_to_server(self._health, server)
        return server

    def _listen(self, endpoint: Endpoint, credentials: Any) -> int:
        """Bind every address of the endpoint; returns the port.

        grpc is content when one of several addresses can be bound, so each is bound by itself, and ours are held meanwhile, so that
        the reason of a failure is known and a free port stays ours.
        """
        sockets = bind(endpoint, self._gate.place)
        port: int = sockets[0].getsockname()[1]
        try:
            for address in _addresses(sockets, endpoint):
                if credentials is None:
                    self._server.add_insecure_port(address)
                else:
                    self._server.add_secure_port(address, credentials)
        except RuntimeError:
            message = f"{self._gate.place}: cannot listen on {endpoint}: the port is in use; give another endpoint"
            raise CollectorFailed(message) from None
        finally:
            for bound in sockets:
                bound.close()
        return port

    async def drain(self) -> None:
        """Answer UNAVAILABLE to everything new, and NOT_SERVING to health checks."""
        self._gate.draining = True
        if self._health is not None:
            self._health.enter_graceful_shutdown()

    async def stop(self) -> None:
        """Stop listening, let what is under way end for some seconds, and cancel the rest."""
        await self.drain()
        sweeper, self._sweeper = self._sweeper, None
        if sweeper is not None:
            sweeper.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await sweeper
        server, self._server = self._server, None
        if server is not None:
            stopped = server.stop(_STOP_SECONDS)
            await asyncio.to_thread(stopped.wait, 2 * _STOP_SECONDS)
        pool, self._pool = self._pool, None
        if pool is not None:
            await asyncio.to_thread(pool.shutdown)

    def _export(self, signal: Signal | None, messages: Iterator[bytes], context: Any) -> bytes:
        """One call, on a thread of the pool."""
        try:
            return self._taken(signal, messages, context)
        except grpc.RpcError:
            raise  # the client is gone
        except Exception as error:
            refusal = refusal_of(error)
        self._gate.complain(context.peer().rpartition(":")[0], refusal)
        if refusal.retry_seconds is not None:
            context.set_trailing_metadata(answer.retry_trailers(refusal.message, refusal.retry_seconds))
        context.abort(_CODES[int(refusal.code)], refusal.message)
        raise AssertionError  # abort raises

    def _taken(self, signal: Signal | None, messages: Iterator[bytes], context: Any) -> bytes:
        """Read, hand over and wait until durable; the answer's bytes. Without a signal the message is dropped. Raises Refusal."""
        assert self._loop is not None
        sender, now = of_grpc(context.peer()), self._loop.time()
        self._gate.admit(_authorization(context), sender, now)
        message = self._message(messages, context)
        if signal is None:
            return b""
        with self._gate.in_flight.hold(sender) as holding:
            try:
                holding.grow(len(message))
            except Overloaded as error:
                raise self._gate.refuse(error) from None
            compression = sniffed_compression(message)
            durable = self._gate.take(message, compression, signal, Encoding.PROTOBUF, holding, now)
            accepted = durable.result(self._acknowledge_seconds)
        return answer.success(accepted, signal, Encoding.PROTOBUF)

    def _message(self, messages: Iterator[bytes], context: Any) -> bytes:
        """The one message of a call; waits for it, until `abandon` cancels the call."""
        assert self._loop is not None
        self._awaited[context] = self._loop.time()
        try:
            return next(messages)
        except StopIteration:
            raise self._gate.refuse(MalformedRequest("the call has no message")) from None
        finally:
            del self._awaited[context]

    def abandon(self, now: float) -> int:
        """Cancel calls whose message has not come within `message_seconds`; `now` is the event loop's time. Returns how many.

        Else some silent clients could hold every thread.
        """
        late = [context for context, since in list(self._awaited.items()) if now - since >= self._message_seconds]
        for context in late:
            context.cancel()
        return len(late)

    async def _sweep(self) -> None:
        assert self._loop is not None
        while True:
            await asyncio.sleep(_SWEEP_SECONDS)
            self.abandon(self._loop.time())


def _addresses(sockets: list[Any], endpoint: Endpoint) -> list[str]:
    """The bound addresses as grpc writes them; its `[::]` takes IPv4 along."""
    names = [Endpoint(*bound.getsockname()[:2]) for bound in sockets]
    everywhere = [name for name in names if name.host == "::"]
    return [str(name) for name in (everywhere if everywhere and not endpoint.host else names)]


def _authorization(context: Any) -> str | None:
    for key, value in context.invocation_metadata():
        if key == "authorization":
            return str(value)
    return None


def _serving() -> Any:
    from grpc_health.v1 import health_pb2

    return health_pb2.HealthCheckResponse.SERVING
