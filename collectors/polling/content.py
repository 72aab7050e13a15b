"""What a fetched trace amounts to: whether it has changed since last time, and whether it looks whole."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from collectors.otlp.items import Item, parse, split
from collectors.sink import Signal

_NANOS = 1e9


@dataclass(frozen=True, slots=True)
class TraceContent:
    """A trace as an OTLP request in protobuf with what is watched of it.

    `digest` is the same for the same spans in whatever order, with attributes in whatever order. `newest_end` is the latest end of a span,
    seconds since 1970-01-01Z, 0 without any. `whole`: there is a root, every parent is there, every span has ended.
    """

    body: bytes
    digest: bytes
    spans: int
    newest_end: float
    whole: bool


def trace_content(body: bytes) -> TraceContent:
    """Look at a trace in protobuf. Raises MalformedRequest for bytes that are none."""
    items = split(body, Signal.TRACES).items
    raws = (raw for entry in parse(body, Signal.TRACES).resources for scope in entry.scopes for raw in scope.items)
    marks = {_mark(item, raw) for item, raw in zip(items, raws, strict=True)}
    digest = hashlib.blake2b(repr(sorted(marks)).encode(), digest_size=8).digest()
    newest = max((max(item.start, item.end) for item in items), default=0) / _NANOS
    return TraceContent(body, digest, len(items), newest, _whole(items))


def _mark(item: Item, raw: bytes) -> tuple[bytes, int, int, int]:
    """Tells copies from changes: length and sum of the bytes do not depend on the order of attributes, which stores do not keep."""
    return item.span_id, item.end, len(raw), sum(raw)


def _whole(items: list[Item]) -> bool:
    ids = {item.span_id for item in items}
    parents = {item.parent_span_id for item in items if any(item.parent_span_id)}
    ended = all(item.end and item.end >= item.start for item in items)
    return ended and parents <= ids and any(not any(item.parent_span_id) for item in items)
