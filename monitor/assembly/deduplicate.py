"""One copy per span and log record: retries and SDKs that send a span at its start and its end repeat them."""

from __future__ import annotations

from collections.abc import Iterable

from collectors.span import LogRecord, Span
from monitor.assembly.values import canonical


def unique_spans(spans: Iterable[Span]) -> list[Span]:
    """The richest copy of each (trace id, span id), in order of start, then id: whatever the order of arrival.

    Ended wins over open, then the later end, then more attributes, events and links, then fewer dropped ones.
    """
    best: dict[tuple[str, str], Span] = {}
    for span in spans:
        key = (span.trace_id, span.span_id)
        known = best.get(key)
        if known is None or (known is not span and _preferred(span, known)):
            best[key] = span
    return sorted(best.values(), key=lambda span: (span.start_time_unix_nano, span.trace_id, span.span_id))


def _preferred(span: Span, known: Span) -> bool:
    mine, theirs = _richness(span), _richness(known)
    if mine != theirs:
        return mine > theirs
    return _tie(span) > _tie(known)


def _richness(span: Span) -> tuple[bool, int, int, int, int]:
    dropped = span.dropped_attributes_count + span.dropped_events_count + span.dropped_links_count
    content = len(span.attributes) + len(span.events) + len(span.links)
    return span.ended, span.end_time_unix_nano, content, -dropped, span.status_code


def _tie(span: Span) -> str:
    """An arbitrary but fixed order of equally rich copies."""
    attributes = dict(span.attributes)
    return canonical([span.name, attributes, [[e.name, dict(e.attributes)] for e in span.events], span.status_message])


def unique_logs(logs: Iterable[LogRecord]) -> list[LogRecord]:
    """Each log record once, in order of time; records of equal time keep their order of arrival."""
    seen: dict[tuple[str, str, str, int], list[LogRecord]] = {}
    kept: list[LogRecord] = []
    for log in logs:
        alike = seen.setdefault((log.trace_id, log.span_id, log.event_name, log.time_unix_nano), [])
        if not any(_same(log, other) for other in alike):
            alike.append(log)
            kept.append(log)
    return sorted(kept, key=lambda log: log.time_unix_nano)


def _same(log: LogRecord, other: LogRecord) -> bool:
    if log is other:
        return True
    mine, theirs = ([one.body, dict(one.attributes)] for one in (log, other))
    return canonical(mine) == canonical(theirs)
