"""The one way in: what a collector hands over, and what it learns back.

Receivers and pollers alike hand over whole OTLP export requests as bytes. The sink decides what is kept, makes it
durable, and only then resolves the future; a receiver acknowledges only after that.
"""

from __future__ import annotations

from concurrent.futures import Future
from enum import StrEnum
from typing import Protocol

from collectors.immutable import immutable


class Signal(StrEnum):
    """Which export request the bytes hold."""

    TRACES = "traces"
    LOGS = "logs"


class Encoding(StrEnum):
    """How the export request is encoded: protobuf, or OTLP's own JSON mapping (hex ids, integer enums)."""

    PROTOBUF = "protobuf"
    JSON = "json"


class RejectReason(StrEnum):
    """Why spans or log records were not taken (label `reason` of `spans_rejected_total`)."""

    INVALID_ID = "invalid_id"
    MALFORMED = "malformed"
    TOO_LARGE = "too_large"
    UNAUTHORIZED = "unauthorized"
    UNSUPPORTED = "unsupported"
    OVERLOADED = "overloaded"


@immutable(frozen=True, slots=True)
class Accepted:
    """The outcome of one request: `accepted` and `rejected` are spans or log records.

    `message` is set when something was rejected: it names the field and what would be right, never any content.
    """

    accepted: int
    rejected: int = 0
    message: str = ""


class MalformedRequest(Exception):
    """The bytes are not an OTLP export request; the same bytes will never be. The message names the place."""


class Overloaded(Exception):
    """Nothing was taken; send the same again after `retry_after_seconds` (1 to 3)."""

    def __init__(self, message: str, retry_after_seconds: float = 1.0) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds


class SpanSink(Protocol):
    """Takes OTLP export requests.

    `pressure` is asked before a request is read; it is cheap, and may be called from any thread.
    `accept` may be called from any thread and does its decoding on the calling one: never call it on an event loop.
    Raises MalformedRequest or Overloaded at once; otherwise the future resolves when the data is durable, or
    fails with Overloaded when it could not be made durable (disk full, read-only, closing).
    """

    def accept(self, body: bytes, signal: Signal, encoding: Encoding, collector: str) -> Future[Accepted]:
        """Take one export request that came by the collector of that name (`otlp`, `tempo/prod`)."""
        ...

    def pressure(self) -> float:
        """How much of the room for data that has not settled is used, from 0. Raises Overloaded while nothing can be taken."""
        ...


class IntakeMeter(Protocol):
    """What collectors report about what never reached the sink. Calls are cheap and thread-safe."""

    def rejected(self, collector: str, reason: RejectReason, count: int = 1) -> None:
        """Count spans (or, where they could not be counted, requests) that were refused."""
        ...
