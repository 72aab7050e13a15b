"""Recorded export requests made fresh: shifted in time, under new trace ids, so that a replay is new traffic and not a heap of duplicates."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

from collectors.otlp.schema import DecodeError, LogRecord, Span, SplitRequest
from collectors.sink import Signal

_CONVERSATION = (b"gen_ai.conversation.id", b"session.id")
_TIMES = ("time_unix_nano", "observed_time_unix_nano")


@dataclass(frozen=True, slots=True)
class Rewrite:
    """What is changed: times by `shift_nanoseconds`; with a `salt` every trace id is replaced by one that depends on it and on the salt, and a
    conversation becomes another one of the same turns.
    """

    shift_nanoseconds: int = 0
    salt: str | None = None

    def trace_id(self, trace_id: bytes) -> bytes:
        """The trace id as it is sent; the same id and salt give the same new id, so that spans and log records stay together."""
        if self.salt is None or len(trace_id) != 16:
            return trace_id
        return hashlib.sha256(self.salt.encode() + b":" + trace_id).digest()[:16]

    def conversation_id(self, value: bytes) -> bytes:
        """The conversation id as it is sent; the same id and salt give the same new id."""
        if self.salt is None:
            return value
        return value + b"-" + hashlib.sha256(self.salt.encode() + b":" + value).hexdigest()[:8].encode()

    def time(self, nanoseconds: int) -> int:
        """A time as it is sent; 0 (not set) stays 0."""
        return max(1, nanoseconds + self.shift_nanoseconds) if nanoseconds else 0


def rewritten(body: bytes, signal: Signal, rewrite: Rewrite) -> bytes:
    """The request (protobuf) with ids and times changed and all else as it was; an item that cannot be read stays as it is.

    Raises schema.DecodeError for bytes that are no request.
    """
    request = SplitRequest.FromString(body)
    kind, change = (Span, _span) if signal is Signal.TRACES else (LogRecord, _log_record)
    for resource in request.resources:
        for scope in resource.scopes:
            for place, raw in enumerate(scope.items):
                item = _read(kind, raw)
                if item is not None:
                    change(item, rewrite)
                    scope.items[place] = item.SerializeToString()
    return bytes(request.SerializeToString())


def latest_time(body: bytes, signal: Signal) -> int:
    """The latest end of a span, or time of a log record, in nanoseconds since 1970-01-01Z; 0 without any."""
    kind = Span if signal is Signal.TRACES else LogRecord
    latest = 0
    for resource in SplitRequest.FromString(body).resources:
        for scope in resource.scopes:
            for raw in scope.items:
                item = _read(kind, raw)
                if item is not None:
                    own = (
                        item.end_time_unix_nano if kind is Span else item.time_unix_nano or item.observed_time_unix_nano
                    )
                    latest = max(latest, own)
    return latest


def _read(kind: Any, raw: bytes) -> Any:
    try:
        return kind.FromString(raw)
    except DecodeError:
        return None


def _span(span: Any, rewrite: Rewrite) -> None:
    span.trace_id = rewrite.trace_id(span.trace_id)
    span.start_time_unix_nano = rewrite.time(span.start_time_unix_nano)
    span.end_time_unix_nano = rewrite.time(span.end_time_unix_nano)
    for pair in span.attributes:
        if pair.key in _CONVERSATION and pair.value.WhichOneof("value") == "string_value":
            pair.value.string_value = rewrite.conversation_id(pair.value.string_value)
    for event in span.events:
        event.time_unix_nano = rewrite.time(event.time_unix_nano)
    for link in span.links:
        link.trace_id = rewrite.trace_id(link.trace_id)


def _log_record(record: Any, rewrite: Rewrite) -> None:
    record.trace_id = rewrite.trace_id(record.trace_id)
    for field in _TIMES:
        setattr(record, field, rewrite.time(getattr(record, field)))
