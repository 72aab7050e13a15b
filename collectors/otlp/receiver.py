"""The collector `otlp`: a gRPC and an HTTP listener that start and stop together."""

from __future__ import annotations

import asyncio

from collectors.collector import Collector
from collectors.otlp.config import OtlpConfig
from collectors.otlp.senders import Recent
from collectors.sink import IntakeMeter, SpanSink


class OtlpReceiver:
    """Owns the listeners that the configuration asks for; keeps the contract of `collectors.collector.Collector`."""

    def __init__(self, name: str, config: OtlpConfig, sink: SpanSink, meter: IntakeMeter) -> None:
        self.name = name
        self._config = config
        self._sink = sink
        self._meter = meter
        self._listeners: list[Collector] = []

    @property
    def problem(self) -> str | None:
        """The first problem of a listener, or None."""
        return next((listener.problem for listener in self._listeners if listener.problem is not None), None)

    @property
    def endpoints(self) -> tuple[str, ...]:
        """`grpc://…` and `http://…` as bound."""
        return tuple(endpoint for listener in self._listeners for endpoint in listener.endpoints)

    async def start(self) -> None:
        """Start both listeners, or none: raises CollectorFailed of the first that cannot start."""
        started: list[Collector] = []
        try:
            for listener in self._built():
                await listener.start()
                started.append(listener)
        except BaseException:
            await asyncio.gather(*(listener.stop() for listener in started))
            raise
        self._listeners = started

    def _built(self) -> list[Collector]:
        from collectors.otlp.grpc import GrpcReceiver
        from collectors.otlp.http import HttpReceiver

        recent = Recent()  # of both: who floods one listener leaves room on the other
        built: list[Collector] = []
        if self._config.grpc is not None:
            built.append(GrpcReceiver(self.name, self._config.grpc, self._sink, self._meter, recent=recent))
        if self._config.http is not None:
            built.append(HttpReceiver(self.name, self._config.http, self._sink, self._meter, recent=recent))
        return built

    async def drain(self) -> None:
        """Refuse new requests with a retryable answer."""
        for listener in self._listeners:
            await listener.drain()

    async def stop(self) -> None:
        """Stop both; may be called twice."""
        await asyncio.gather(*(listener.stop() for listener in self._listeners))
