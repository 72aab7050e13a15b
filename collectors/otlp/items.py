"""An OTLP export request taken apart without decoding what its spans say.

Ids, times and marks are all that intake needs. The attributes are checked to be well-formed and are otherwise left alone.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from collectors.otlp import marks, schema
from collectors.sink import MalformedRequest, RejectReason, Signal

TRACE_ID_BYTES = 16
SPAN_ID_BYTES = 8
_NO_TRACE = bytes(TRACE_ID_BYTES)
_NO_SPAN = bytes(SPAN_ID_BYTES)

_TIME_BITS = 63
"""A time that needs more bits lies after the year 2262: no clock says so, and nothing that keeps times with a sign can hold it."""

_NAMES = {
    Signal.TRACES: ("ExportTraceServiceRequest", "resourceSpans", "scopeSpans", "spans"),
    Signal.LOGS: ("ExportLogsServiceRequest", "resourceLogs", "scopeLogs", "logRecords"),
}


Wanted = Callable[[bytes], bool]
"""Of a trace id (16 bytes), whether anybody wants the trace's spans."""


class Item(NamedTuple):
    """A span or log record of a request; its ordinal is its place in `Request.items`, in wire order.

    Ids are bytes, b"" where there is none (the parent of a root; the span of a log record that belongs to a whole trace). Times are
    nanoseconds since 1970-01-01Z as sent; a log record's time is `start`. `fault` tells why it is to be rejected, None when it is valid.
    `genai` is True for every span, and for log records of an agent's trace: only those are worth keeping. A log
    record without trace id is an ordinary one, valid and not `genai`. `unwanted` is True for a span of a trace that the caller of `split` does not want:
    nothing else is known of it, not even whether the rest of it can be read.
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
    unwanted: bool = False

    @property
    def valid(self) -> bool:
        """Whether the ids are what OTLP wants and the bytes could be read."""
        return self.fault is None


class Request:
    """A split request: its items, and its bytes with only some of them.

    `plain` is True where it is known that all items are valid spans and none is `own_telemetry`.
    """

    __slots__ = ("_parsed", "body", "items", "plain", "signal")

    def __init__(
        self, body: bytes, signal: Signal, items: list[Item], parsed: Any = None, *, plain: bool = False
    ) -> None:
        """`parsed` is the body in split form; without it that is made when it is asked for."""
        self.body = body
        self.signal = signal
        self.items = items
        self.plain = plain
        self._parsed = parsed

    def keeping(self, ordinals: Sequence[int]) -> bytes:
        """The request with only those items, given in ascending order; the very bytes when these are all."""
        return self.body if len(ordinals) == len(self.items) else _rebuilt(self._split_form, ordinals)

    def rejection(self) -> str:
        """Where the first invalid item is and what would be right; "" when all are valid."""
        for ordinal, item in enumerate(self.items):
            if item.fault is not None:
                return f"{self._place(ordinal)}{self._fault_of(ordinal, item)}"
        return ""

    @property
    def _split_form(self) -> Any:
        if self._parsed is None:
            self._parsed = parse(self.body, self.signal)
        return self._parsed

    def _place(self, ordinal: int) -> str:
        _, resources, scopes, items = _NAMES[self.signal]
        for r, resource in enumerate(self._split_form.resources):
            for s, scope in enumerate(resource.scopes):
                if ordinal < len(scope.items):
                    return f"{resources}[{r}].{scopes}[{s}].{items}[{ordinal}]"
                ordinal -= len(scope.items)
        raise IndexError(ordinal)

    def _fault_of(self, ordinal: int, item: Item) -> str:
        if item.fault is RejectReason.MALFORMED and item.trace_id:
            name = ".startTimeUnixNano or endTimeUnixNano" if self.signal is Signal.TRACES else ".timeUnixNano"
            return f"{name}: should be nanoseconds since 1970-01-01Z, before the year 2262"
        if item.fault is RejectReason.MALFORMED:
            return f": is no {'Span' if self.signal is Signal.TRACES else 'LogRecord'} message"
        if len(item.trace_id) != TRACE_ID_BYTES or item.trace_id == _NO_TRACE:
            return ".traceId: should be 16 bytes, not all zero (32 hex digits in JSON)"
        wrong_span = len(item.span_id) != SPAN_ID_BYTES or item.span_id == _NO_SPAN
        if wrong_span and (self.signal is Signal.TRACES or item.span_id):
            return ".spanId: should be 8 bytes, not all zero (16 hex digits in JSON)"
        return ".parentSpanId: should be empty or 8 bytes (16 hex digits in JSON)"


def split(body: bytes, signal: Signal, wanted: Wanted | None = None) -> Request:
    """Take a protobuf request apart. `wanted` tells of a trace id whether anybody wants its spans; those of other traces are not looked into.

    Raises MalformedRequest when the bytes are no such request: its frame, a resource or a scope cannot be read, or there are items and
    not one can be. An item that alone cannot be read or has wrong ids is marked by its `fault`.
    """
    if wanted is None and signal is Signal.TRACES and (heads := _heads(body)) is not None:
        items, plain = _items_of(heads)
        return Request(body, signal, items, plain=plain)
    parsed = parse(body, signal)
    items = []
    for resource, scope, raws in _scopes(parsed, signal):
        own = marks.own_resource(resource)
        items += _span_items(raws, own, wanted) if signal is Signal.TRACES else _log_items(raws, own, scope)
    request = Request(body, signal, items, parsed)
    if items and all(item.fault is RejectReason.MALFORMED and not item.trace_id for item in items):
        raise MalformedRequest(request.rejection())
    return request


def select(body: bytes, signal: Signal, ordinals: Collection[int]) -> bytes:
    """The protobuf request with only those items. Several such byte strings, one after the other, are again one request."""
    return _rebuilt(parse(body, signal), sorted(frozenset(ordinals)))


def parse(body: bytes, signal: Signal) -> Any:
    """The request in split form; raises MalformedRequest for bytes that are none."""
    try:
        return schema.SplitRequest.FromString(body)
    except schema.DecodeError:
        raise MalformedRequest(f"the body is no protobuf {_NAMES[signal][0]}") from None


def _heads(body: bytes) -> Any:
    """A request of spans, all their heads read at once, which costs less than one by one; None when not every one can be read."""
    try:
        return schema.HeadRequest.FromString(body)
    except schema.DecodeError:
        return None


def _items_of(heads: Any) -> tuple[list[Item], bool]:
    """The items, and whether all of them are plain (see Request)."""
    items: list[Item] = []
    plain = True
    for resource, _, spans in _scopes(heads, Signal.TRACES):
        own = marks.own_resource(resource)
        plain = _add_spans(spans, own, items) and plain
    return items, plain


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
_UNWANTED = Item(b"", b"", b"", 0, 0, unwanted=True)
_TRACE_ID_TAG, _SPAN_ID_TAG = b"\x0a\x10", b"\x12\x08"
"""How the first two fields of a span begin where they have the right length; every SDK writes them first."""

_SPAN_ID_AT = 2 + TRACE_ID_BYTES + 2
_SPAN_ID_END = _SPAN_ID_AT + SPAN_ID_BYTES


def _span_items(raws: Any, own: bool, wanted: Wanted | None) -> list[Item]:
    """The items of a scope's spans, each read by itself and only where it is wanted; runs of those that are read are looked at together."""
    parse_head = schema.SpanHead.FromString
    found: list[Item] = []
    heads: list[Any] = []
    asks = wanted is not None and not own
    begin, unwanted = b"", False
    for raw in raws:
        if asks and raw[:_SPAN_ID_AT] != begin:  # spans of a trace are mostly neighbours
            begin = raw[:_SPAN_ID_AT]
            unwanted = _is_unwanted(begin, wanted)
        if unwanted and len(raw) >= _SPAN_ID_END and raw[_SPAN_ID_AT:_SPAN_ID_END] != _NO_SPAN:
            other = _UNWANTED
        else:
            try:
                heads.append(parse_head(raw))
                continue
            except schema.DecodeError:
                other = _UNREADABLE
        if heads:
            _add_spans(heads, own, found)
            heads = []
        found.append(other)
    _add_spans(heads, own, found)
    return found


def _add_spans(spans: Iterable[Any], own: bool, items: list[Item]) -> bool:
    """Add the items of spans whose heads could be read, all of one scope; whether all of them are plain (see Request).

    Every span comes through here, so it is one loop without calls: what is usual is asked first, and a trace id once in a row.
    """
    add, make, own_span, plain = items.append, tuple.__new__, marks.own_span, True
    known: bytes | None = None
    for span in spans:
        trace_id, span_id, parent = span.trace_id, span.span_id, span.parent_span_id
        attributes, start, end = span.attributes, span.start_time_unix_nano, span.end_time_unix_nano
        if parent == _NO_SPAN:  # some senders write a root's parent so
            parent = b""
        wrong = len(span_id) != SPAN_ID_BYTES or span_id == _NO_SPAN or (parent and len(parent) != SPAN_ID_BYTES)
        if trace_id != known:
            wrong = wrong or len(trace_id) != TRACE_ID_BYTES or trace_id == _NO_TRACE
            known = None if wrong else trace_id
        fault = RejectReason.INVALID_ID if wrong else RejectReason.MALFORMED if (start | end) >> _TIME_BITS else None
        ours = own or own_span(attributes)
        if ours or fault is not None:
            plain = False
        ends = marks.END_MARKER in attributes and marks.ends_invocation(attributes)
        # what Item(…) does, in half the time
        add(make(Item, (trace_id, span_id, parent, start, end, fault, ends, ours, True, False)))
    return plain


def _is_unwanted(begin: bytes, wanted: Any) -> bool:
    """Whether a span that begins so, up to its span id, has a right trace id that is unwanted."""
    trace_id = begin[2:18]
    return begin[:2] == _TRACE_ID_TAG and begin[18:] == _SPAN_ID_TAG and trace_id != _NO_TRACE and not wanted(trace_id)


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
            RejectReason.INVALID_ID if wrong else RejectReason.MALFORMED if time >> _TIME_BITS else None, found.end_marker, own or found.own_telemetry, found.genai,
        )  # fmt: skip


def _rebuilt(parsed: Any, keep: Sequence[int]) -> bytes:
    """The request with only the items in `keep`, in ascending order; resources and scopes that lose all of theirs go with them."""
    out = schema.SplitRequest()
    first = at = 0
    for resource in parsed.resources:
        target = None
        for scope in resource.scopes:
            items, end = scope.items, bisect_left(keep, first + len(scope.items), at)
            if end > at:
                if target is None:
                    target = out.resources.add(resource=resource.resource, schema_url=resource.schema_url)
                kept = [items[ordinal - first] for ordinal in keep[at:end]]
                target.scopes.add(scope=scope.scope, items=kept, schema_url=scope.schema_url)
            first, at = first + len(items), end
    result: bytes = out.SerializeToString()
    return result
