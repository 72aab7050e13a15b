"""Recorded export requests grouped to traces, by the same rules as the daemon's intake: what is invalid or our own is left out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from collectors.otlp.request import decode, split
from collectors.sink import Signal
from collectors.span import LogRecord, Span


def recorded_traces(requests: Iterable[tuple[bytes, Signal]]) -> Iterator[tuple[list[Span], list[LogRecord]]]:
    """The spans and log records of each trace, traces in order of first appearance."""
    traces: dict[str, tuple[list[Span], list[LogRecord]]] = {}
    for body, signal in requests:
        kept = [
            ordinal
            for ordinal, item in enumerate(split(body, signal).items)
            if item.valid and item.genai and not item.own_telemetry
        ]
        decoded = decode(body, signal, kept)
        for span in decoded.spans:
            traces.setdefault(span.trace_id, ([], []))[0].append(span)
        for record in decoded.logs:
            traces.setdefault(record.trace_id, ([], []))[1].append(record)
    yield from traces.values()
