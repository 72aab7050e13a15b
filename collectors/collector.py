"""The life cycle every collector follows."""

from __future__ import annotations

from typing import Protocol, runtime_checkable


class CollectorFailed(Exception):
    """A collector could not start; the message names the endpoint or file and what would be right."""


class Collector(Protocol):
    """Takes telemetry from one source and hands it to a sink.

    `start` is called once, on the event loop, after the sink can take data; it raises CollectorFailed and leaves nothing behind
    when it cannot start (port in use, bad certificate). `drain` may be called at any time after `start`: the collector takes
    nothing more (503 / UNAVAILABLE) but answers what is under way. `stop` may be called at any time and
    twice; when it returns nothing more reaches the sink. A source that fails later reports itself by `problem` and goes on trying.
    """

    name: str

    async def start(self) -> None:
        """Begin to take telemetry."""
        ...

    async def drain(self) -> None:
        """Refuse new telemetry with a retryable answer."""
        ...

    async def stop(self) -> None:
        """Finish what is under way and release every resource."""
        ...

    @property
    def problem(self) -> str | None:
        """Why the source is not delivering, or None when all is well."""
        ...

    @property
    def endpoints(self) -> tuple[str, ...]:
        """Where it listens or what it reads, as bound (a port of 0 has become the real one)."""
        ...


@runtime_checkable
class Polls(Protocol):
    """A collector that reads a source by itself, and so can lag behind it."""

    @property
    def lag_seconds(self) -> float:
        """Everything that the source showed up to so many seconds ago has been taken."""
        ...
