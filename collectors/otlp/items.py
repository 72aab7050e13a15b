"""An OTLP export request taken apart without decoding what its spans say.

Ids, times and marks are all that intake needs. The attributes are checked to be well-formed and are otherwise left alone.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterator
from typing import Any, NamedTuple

from collectors.otlp import marks, schema
from collectors.sink import MalformedRequest, RejectReason, Signal

TRACE_ID_BYTES = 16
SPAN_ID_BYTES = 8
_NO_TRACE = bytes(TRACE_ID_BYTES)
_NO_SPAN = bytes(SPAN_ID_BYTES)

_NAMES = {
    Signal.TRACES: ("ExportTraceServiceRequest", "resourceSpans", "scopeSpans", "spans"),
    Signal.LOGS: ("ExportLogsServiceRequest", "resourceLogs", "scopeLogs", "logRecords"),
}


class Item(NamedTuple):
    """A span or log record of a request; its ordinal is its place in `Request.items`, in wire order.

    Ids are bytes, b"" where there is none (the parent of a root; the span of a log record that belongs to a whole trace). Times are
    nanoseconds since 1970-01-01Z as sent; a log record's time is `start`. `fault` tells why it is to be rejected, None when it is valid.
    `genai` is True for every span, and for log records of an agent's trace: only those are worth keeping. A log
    record without trace id is an ordinary one, valid and not `genai`.
    """

    trace_id: bytes
    span_id: bytes
    parent_span_id: bytes
    start: int
    end: int
    fault: RejectReason | None = None
    end_marker: bool = False
    own_telemetry: bool = False
    genai: bool = True

    @property
    def valid(self) -> bool:
        """Whether the ids are what OTLP wants and the bytes could be read."""
        return self.fault is None


class Request:
    """A split request: its items, and its bytes without some of them."""

    __slots__ = ("_parsed", "body", "items", "signal")

    def __init__(self, body: bytes, signal: Signal, parsed: Any, items: list[Item]) -> None:
        self.body = body
        self.signal = signal
        self.items = items
        self._parsed = parsed

    def without(self, ordinals: Collection[int]) -> bytes:
        """The request with those items left out; the very bytes when there are none to leave out."""
        if not ordinals:
            return self.body
        dropped = frozenset(ordinals)
        return _rebuilt(self._parsed, [ordinal for ordinal in range(len(self.items)) if ordinal not in dropped])

    def rejection(self) -> str:
        """Where the first invalid item is and what would be right; "" when all are valid."""
        for ordinal, item in enumerate(self.items):
            if item.fault is not None:
                return f"{self._place(ordinal)}{self._fault_of(ordinal, item)}"
        return ""

    def _place(self, ordinal: int) -> str:
        _, resources, scopes, items = _NAMES[self.signal]
        for r, resource in enumerate(self._parsed.resources):
            for s, scope in enumerate(resource.scopes):
                if ordinal < len(scope.items):
                    return f"{resources}[{r}].{scopes}[{s}].{items}[{ordinal}]"
                ordinal -= len(scope.items)
        raise IndexError(ordinal)

    def _fault_of(self, ordinal: int, item: Item) -> str:
        if item.fault is RejectReason.MALFORMED:
            return f": is no {'Span' if self.signal is Signal.TRACES else 'LogRecord'} message"
        if len(item.trace_id) != TRACE_ID_BYTES or item.trace_id == _NO_TRACE:
            return ".traceId: should be 16 bytes, not all zero (32 hex digits in JSON)"
        wrong_span = len(item.span_id) != SPAN_ID_BYTES or item.span_id == _NO_SPAN
        if wrong_span and (self.signal is Signal.TRACES or item.span_id):
            return ".spanId: should be 8 bytes, not all zero (16 hex digits in JSON)"
        return ".parentSpanId: should be empty or 8 bytes (16 hex digits in JSON)"


def split(body: bytes, signal: Signal) -> Request:
    """Take a protobuf request apart.

    Raises MalformedRequest when the bytes are no such request: its frame, a resource or a scope cannot be read, or there are items and
    not one can be. An item that alone cannot be read or has wrong ids is marked by its `fault`.
    """
    parsed = parse(body, signal)
    read = _span_items if signal is Signal.TRACES else _log_items
    items: list[Item] = []
    for resource, scope, raws in _scopes(parsed, signal):
        items += read(raws, marks.own_resource(resource), scope)
    request = Request(body, signal, parsed, items)
    if items and all(item.fault is RejectReason.MALFORMED for item in items):
        raise MalformedRequest(request.rejection())
    return request


def select(body: bytes, signal: Signal, ordinals: Collection[int]) -> bytes:
    """The protobuf request with only those items. Several such byte strings, one after the other, are again one request."""
    return _rebuilt(parse(body, signal), frozenset(ordinals))


def parse(body: bytes, signal: Signal) -> Any:
    """The request in split form; raises MalformedRequest for bytes that are none."""
    try:
        return schema.SplitRequest.FromString(body)
    except schema.DecodeError:
        raise MalformedRequest(f"the body is no protobuf {_NAMES[signal][0]}") from None


def _scopes(parsed: Any, signal: Signal) -> Iterator[tuple[Any, Any, Any]]:
    """Each scope's items with the parsed resource and scope."""
    _, resources, scopes, _ = _NAMES[signal]
    for r, entry in enumerate(parsed.resources):
        place = f"{resources}[{r}]"
        resource = _message(schema.Resource, entry.resource, f"{place}.resource")
        for s, inner in enumerate(entry.scopes):
            scope = _message(schema.Scope, inner.scope, f"{place}.{scopes}[{s}].scope")
            yield resource, scope, inner.items


def _message(kind: Any, pieces: Any, place: str) -> Any:
    try:
        return kind.FromString(b"".join(pieces))
    except schema.DecodeError:
        raise MalformedRequest(f"{place}: is no such message") from None


_UNREADABLE = Item(b"", b"", b"", 0, 0, RejectReason.MALFORMED)


def _span_items(raws: Any, own: bool, _scope: Any) -> Iterator[Item]:
    parse_head = schema.SpanHead.FromString
    for raw in raws:
        try:
            span = parse_head(raw)
        except schema.DecodeError:
            yield _UNREADABLE
            continue
        trace_id, span_id, parent = span.trace_id, span.span_id, span.parent_span_id
        if parent == _NO_SPAN:  # some senders write a root's parent so
            parent = b""
        wrong = (
            len(trace_id) != TRACE_ID_BYTES or len(span_id) != SPAN_ID_BYTES
            or trace_id == _NO_TRACE or span_id == _NO_SPAN or (parent and len(parent) != SPAN_ID_BYTES)
        )  # fmt: skip
        attributes = span.attributes
        yield Item(
            trace_id, span_id, parent, span.start_time_unix_nano, span.end_time_unix_nano,
            RejectReason.INVALID_ID if wrong else None, marks.ends_invocation(attributes), own or marks.own_span(attributes),
        )  # fmt: skip


def _log_items(raws: Any, own: bool, scope: Any) -> Iterator[Item]:
    parse_record, in_genai_scope = schema.LogRecord.FromString, marks.genai_scope(scope)
    for raw in raws:
        try:
            record = parse_record(raw)
        except schema.DecodeError:
            yield _UNREADABLE
            continue
        time = record.time_unix_nano or record.observed_time_unix_nano
        trace_id, span_id = record.trace_id, record.span_id
        if span_id == _NO_SPAN:
            span_id = b""
        if not trace_id or trace_id == _NO_TRACE:
            yield Item(b"", span_id, b"", time, 0, genai=False)
            continue
        found = marks.of_log_record(record, in_genai_scope)
        wrong = len(trace_id) != TRACE_ID_BYTES or (span_id and len(span_id) != SPAN_ID_BYTES)
        yield Item(
            trace_id, span_id, b"", time, 0,
            RejectReason.INVALID_ID if wrong else None, found.end_marker, own or found.own_telemetry, found.genai,
        )  # fmt: skip


def _rebuilt(parsed: Any, keep: Container[int]) -> bytes:
    """The request with only the items in `keep`; resources and scopes that lose all of theirs go with them."""
    out = schema.SplitRequest()
    ordinal = 0
    for resource in parsed.resources:
        target = None
        for scope in resource.scopes:
            kept = [raw for place, raw in enumerate(scope.items, ordinal) if place in keep]
            ordinal += len(scope.items)
            if kept:
                if target is None:
                    target = out.resources.add(resource=resource.resource, schema_url=resource.schema_url)
                target.scopes.add(scope=scope.scope, items=kept, schema_url=scope.schema_url)
    result: bytes = out.SerializeToString()
    return result
