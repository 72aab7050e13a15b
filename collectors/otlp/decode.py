"""From protobuf to the plain values of `collectors.span`. Nothing here raises over what a span says: bad text is repaired, what is
nested too deep is cut, and both are counted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

from collectors.otlp import schema
from collectors.otlp.items import SPAN_ID_BYTES, TRACE_ID_BYTES, parse
from collectors.sink import Signal
from collectors.span import (
    Attributes,
    LogRecord,
    Resource,
    Scope,
    Span,
    SpanEvent,
    SpanLink,
    StatusCode,
    Value,
)

MAX_DEPTH = 64
"""Arrays and maps inside each other up to here; a value below it is None. Agents' messages nest about ten deep."""

MAX_EVENTS = 10_000
"""Events of a span, and likewise links, that are read; the others count as dropped. SDKs keep 128 by default (OpenTelemetry specification, span
limits); one that takes two bytes on the wire takes a hundred times that as a value, so that a small packed request could fill all memory.
"""

_STATUS_CODES = {code.value: code for code in StatusCode}


@dataclass(frozen=True, slots=True)
class Decoded:
    """The decoded items of a request, in wire order: `spans` or `logs`, by signal.

    `ordinals` has the place of each in the request. Items with wrong ids, and log records without trace id, are left out and counted
    in `skipped`. `repaired` counts values that were not valid Unicode or were nested too deep.
    """

    spans: list[Span]
    logs: list[LogRecord]
    repaired: int
    ordinals: list[int]
    skipped: int


def decode(body: bytes, signal: Signal, ordinals: Collection[int] | None = None, *, traceless: bool = False) -> Decoded:
    """Decode all items of a protobuf request, or those with the given ordinals.

    `traceless`: log records without trace id as well, with an empty one.
    Raises MalformedRequest when the bytes are no such request at all.
    """
    reader = _Reader(traceless)
    spans: list[Span] = []
    logs: list[LogRecord] = []
    places: list[int] = []
    skipped = 0
    for ordinal, raw, resource, scope in _chosen(parse(body, signal), ordinals, reader):
        span = reader.span(raw, resource, scope) if signal is Signal.TRACES else None
        record = reader.log_record(raw, resource, scope) if signal is Signal.LOGS else None
        if span is not None:
            spans.append(span)
        elif record is not None:
            logs.append(record)
        else:
            skipped += 1
            continue
        places.append(ordinal)
    return Decoded(spans, logs, reader.repaired, places, skipped)


def _chosen(
    parsed: Any, ordinals: Collection[int] | None, reader: _Reader
) -> Iterator[tuple[int, bytes, Resource, Scope]]:
    """The wanted items with their resource and scope, each of which is decoded once."""
    wanted = None if ordinals is None else frozenset(ordinals)
    first = 0
    for entry in parsed.resources:
        resource = None
        for inner in entry.scopes:
            chosen = [(n, raw) for n, raw in enumerate(inner.items, first) if wanted is None or n in wanted]
            first += len(inner.items)
            if not chosen:
                continue
            resource = resource or reader.resource(b"".join(entry.resource))
            scope = reader.scope(b"".join(inner.scope))
            for ordinal, raw in chosen:
                yield ordinal, raw, resource, scope


class _Reader:
    """Reads messages of `schema` and counts what had to be repaired."""

    def __init__(self, traceless: bool = False) -> None:
        self.repaired = 0
        self._traceless = traceless

    def span(self, raw: bytes, resource: Any, scope: Any) -> Span | None:
        """A span, or None where it has no right ids or cannot be read."""
        message = _parsed(schema.Span, raw)
        if message is None or not (_is_id(message.trace_id, TRACE_ID_BYTES) and _is_id(message.span_id, SPAN_ID_BYTES)):
            return None
        parent = message.parent_span_id
        if parent and len(parent) != SPAN_ID_BYTES:
            return None
        status, events, links = message.status, message.events, message.links
        return Span(
            trace_id=message.trace_id.hex(),
            span_id=message.span_id.hex(),
            parent_span_id=parent.hex() if any(parent) else "",
            name=self.text(message.name),
            kind=message.kind,
            start_time_unix_nano=message.start_time_unix_nano,
            end_time_unix_nano=message.end_time_unix_nano,
            attributes=self.attributes(message.attributes),
            events=tuple([self._event(event) for event in events[:MAX_EVENTS]]),
            links=tuple([self._link(link) for link in links[:MAX_EVENTS] if _is_link(link)]),
            status_code=_STATUS_CODES.get(status.code, StatusCode.UNSET),
            status_message=self.text(status.message),
            trace_state=self.text(message.trace_state),
            flags=message.flags,
            dropped_attributes_count=message.dropped_attributes_count,
            dropped_events_count=message.dropped_events_count + max(0, len(events) - MAX_EVENTS),
            dropped_links_count=message.dropped_links_count + max(0, len(links) - MAX_EVENTS),
            resource=resource,
            scope=scope,
        )

    def log_record(self, raw: bytes, resource: Any, scope: Any) -> LogRecord | None:
        """A log record, or None where it has no right trace id, a wrong span id, or cannot be read."""
        message = _parsed(schema.LogRecord, raw)
        if message is None or not (
            _is_id(message.trace_id, TRACE_ID_BYTES) or (self._traceless and not any(message.trace_id))
        ):
            return None
        span_id = message.span_id
        if span_id and len(span_id) != SPAN_ID_BYTES:
            return None
        attributes = self.attributes(message.attributes)
        event = self.text(message.event_name) or attributes.get("event.name")
        return LogRecord(
            trace_id=message.trace_id.hex() if any(message.trace_id) else "",
            span_id=span_id.hex() if any(span_id) else "",
            event_name=event if isinstance(event, str) else "",
            time_unix_nano=message.time_unix_nano or message.observed_time_unix_nano,
            severity_number=message.severity_number,
            body=self.value(message.body),
            attributes=attributes,
            resource=resource,
            scope=scope,
        )

    def resource(self, raw: bytes) -> Resource:
        """A resource; one that cannot be read is empty."""
        message = _parsed(schema.Resource, raw)
        return Resource() if message is None else Resource(self.attributes(message.attributes))

    def scope(self, raw: bytes) -> Scope:
        """An instrumentation scope; one that cannot be read is empty."""
        message = _parsed(schema.Scope, raw)
        if message is None:
            return Scope()
        return Scope(self.text(message.name), self.text(message.version), self.attributes(message.attributes))

    def _event(self, event: Any) -> SpanEvent:
        return SpanEvent(self.text(event.name), event.time_unix_nano, self.attributes(event.attributes))

    def _link(self, link: Any) -> SpanLink:
        return SpanLink(link.trace_id.hex(), link.span_id.hex(), self.attributes(link.attributes))

    def attributes(self, pairs: Any, depth: int = 0) -> Attributes:
        """Attributes as a dict; of a key that is given twice the last value wins."""
        result: dict[str, Value] = {}
        for (
            pair
        ) in pairs:  # most of the cost of decoding is here: nearly all values are texts, and nearly all texts are right
            given = pair.value
            text = given.string_value
            try:
                key = pair.key.decode()
                value = text.decode() if text else self.value(given, depth)
            except UnicodeDecodeError:
                key, value = self.text(pair.key), self.value(given, depth)
            result[key] = value
        return result

    def value(self, given: Any, depth: int = 0) -> Value:
        """An AnyValue; None where it is empty or of a kind that only profiles use."""
        kind = given.WhichOneof("value")
        if kind == "string_value":
            return self.text(given.string_value)
        if kind is None or kind == "string_value_strindex":
            return None
        if kind == "array_value" or kind == "kvlist_value":
            return self._nested(kind, getattr(given, kind), depth + 1)
        scalar: Value = getattr(given, kind)
        return scalar

    def _nested(self, kind: str, raw: bytes, depth: int) -> Value:
        is_array = kind == "array_value"
        message = _parsed(schema.ArrayValue if is_array else schema.KeyValueList, raw) if depth <= MAX_DEPTH else None
        if message is None:
            self.repaired += 1
            return None
        if is_array:
            return [self.value(element, depth) for element in message.values]
        return self.attributes(message.values, depth)

    def text(self, raw: bytes) -> str:
        """A text; each byte sequence that is no UTF-8 becomes U+FFFD."""
        try:
            return raw.decode()
        except UnicodeDecodeError:
            self.repaired += 1
            return raw.decode(errors="replace")


def _parsed(kind: Any, raw: bytes) -> Any:
    try:
        return kind.FromString(raw)
    except schema.DecodeError:
        return None


def _is_id(raw: bytes, length: int) -> bool:
    return len(raw) == length and any(raw)


def _is_link(link: Any) -> bool:
    return _is_id(link.trace_id, TRACE_ID_BYTES) and _is_id(link.span_id, SPAN_ID_BYTES)
