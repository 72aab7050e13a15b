"""What a trace store must be able to do to be polled by windows of time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from collectors.polling.timeline import Window


@dataclass(frozen=True, slots=True)
class Fetched:
    """A trace as an OTLP export request in protobuf. `partial`: the source says that there is more of it than it gave."""

    body: bytes
    partial: bool = False


@dataclass(frozen=True, slots=True)
class Hit:
    """A trace that a search found: its id as 32 hex digits.

    `fingerprint` changes when the trace does, as far as a search can see; "" says nothing. `load` gives the trace itself where the search brings
    it along; it may raise MalformedRequest.
    """

    trace_id: str
    fingerprint: str = ""
    load: Callable[[], Fetched] | None = None


@dataclass(frozen=True, slots=True)
class Found:
    """The hits of a search. `truncated`: there are more than `limit`, or there may be."""

    hits: tuple[Hit, ...]
    truncated: bool = False


class TraceSource(Protocol):
    """A store of traces. All methods raise SourceFault and may be called side by side.

    `resolution` is the narrowest window that a search can tell, in seconds.
    """

    resolution: float

    @property
    def endpoint(self) -> str:
        """The source's URL, for people."""
        ...

    @property
    def skew_seconds(self) -> float:
        """The source's clock minus ours."""
        ...

    async def open(self) -> None:
        """Make ready; called once. Raises CollectorFailed for what is wrong on our side (a file that cannot be read)."""
        ...

    async def close(self) -> None:
        """Release connections; may be called twice."""
        ...

    async def search(self, window: Window, limit: int) -> Found:
        """Traces with a span that began in the window (at least), at most `limit` of them, in any order."""
        ...

    async def fetch(self, trace_id: str, window: Window) -> Fetched | None:
        """The whole trace as it is now, None when it is not there (any more). `window` is where its spans are to be looked for."""
        ...
