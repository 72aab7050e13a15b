"""Recorded export requests grouped to traces: what the daemon's intake would leave out is left out here.

Unlike the daemon, which settles trace by trace, this sees the whole input, and puts together traces that make one turn (DECISIONS 20).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from collectors.otlp.request import decode, split
from collectors.sink import Signal
from collectors.span import LogRecord, Span
from monitor.assembly import ties

Traces = tuple[list[Span], list[LogRecord]]


def recorded_traces(requests: Iterable[tuple[bytes, Signal]]) -> Iterator[Traces]:
    """The spans and log records of each trace, in order of first appearance; those of traces that are to be assembled together as one."""
    traces: dict[str, Traces] = {}
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
    yield from _joined(list(traces.values()))


def _joined(traces: list[Traces]) -> Iterator[Traces]:
    """Traces tied to one another (one needs what another leaves) put together."""
    group = list(range(len(traces)))

    def first(place: int) -> int:
        while group[place] != place:
            place = group[place]
        return place

    leaves: dict[str, int] = {}
    found = [ties(*trace) for trace in traces]
    for place, tied in enumerate(found):
        for key in tied.leaves:
            leaves.setdefault(key, place)
    for place, tied in enumerate(found):
        for key in tied.needs:
            if key in leaves:
                one, other = sorted((first(place), first(leaves[key])))
                group[other] = one
    together: dict[int, Traces] = {}
    for place, (spans, logs) in enumerate(traces):
        of_group = together.setdefault(first(place), ([], []))
        of_group[0].extend(spans)
        of_group[1].extend(logs)
    yield from together.values()
