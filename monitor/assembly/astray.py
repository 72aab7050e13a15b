"""Log records without a trace id: some SDKs write them when the span has ended, and lose the context (OpenLIT's streams do).

A record that names a model's response belongs to the one span of the same service that names it too, if it was written while that span ran or
right after it. Nothing else is looked at, and where two spans come into question neither gets the record.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from collectors.span import LogRecord, Span

RESPONSE_ID = "gen_ai.response.id"
AFTER_NS = 5 * 1_000_000_000
"""How long after its end a span's record may be written."""


def adopted(astray: Iterable[LogRecord], spans: Sequence[Span]) -> list[LogRecord]:
    """The records that belong to one of the spans, with its ids; others are left out."""
    named: dict[str, list[Span]] = {}
    for span in {(span.trace_id, span.span_id): span for span in spans}.values():
        response = span.attributes.get(RESPONSE_ID)
        if isinstance(response, str) and response.strip():
            named.setdefault(response, []).append(span)
    found: list[LogRecord] = []
    for record in astray:
        response = record.attributes.get(RESPONSE_ID)
        owners = [span for span in named.get(response, ()) if _fits(record, span)] if isinstance(response, str) else []
        if len(owners) == 1:
            found.append(replace(record, trace_id=owners[0].trace_id, span_id=owners[0].span_id))
    return found


def _fits(record: LogRecord, span: Span) -> bool:
    started, ended = span.start_time_unix_nano, max(span.end_time_unix_nano, span.start_time_unix_nano)
    same_service = record.resource.attributes.get("service.name") == span.resource.attributes.get("service.name")
    return same_service and started <= record.time_unix_nano <= ended + AFTER_NS
