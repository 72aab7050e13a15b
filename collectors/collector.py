"""The life cycle every collector follows."""

from __future__ import annotations

from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class HistoryStretch:
    """What one reading of the past came to: it is read up to `until` (seconds since 1970-01-01Z).

    `traces` are new ones of this reading, `spans` what was handed over of them, `left_out` traces that could not be taken. `cut`: the source had
    more than it gives.
    """

    until: float
    traces: int
    spans: int = 0
    left_out: int = 0
    cut: bool = False


class History(Protocol):
    """The past of a source that can be read again."""

    @property
    def earlier_seconds(self) -> float:
        """How long before the end of a run its first span may lie."""
        ...

    async def read(self, since: float, until: float, deliver_as: str | None) -> HistoryStretch:
        """Read the next stretch of what began in [since, until) and hand it over under the name `deliver_as`, or only count it for None.

        When it returns, what it read is durable. Reading goes on at the stretch's `until`, and is over when that is `until`; one that equals
        `since` asks to be called once more. Raises `collectors.polling.faults.SourceFault` when the source fails: the same call may be repeated.
        """
        ...


@runtime_checkable
class ReadsHistory(Protocol):
    """A collector whose source can be read again."""

    history: History | None
