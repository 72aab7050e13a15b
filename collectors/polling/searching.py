"""Searching a window completely, whatever the source's limit of results: halve it until each part fits. Never a silent cap."""

from __future__ import annotations

from dataclasses import dataclass, field

from collectors.polling.faults import FaultKind, SourceFault
from collectors.polling.source import Found, Hit, TraceSource
from collectors.polling.timeline import Window

_LARGEST_FACTOR = 64
"""How far the limit is raised for a window that cannot be halved any more."""


@dataclass(slots=True)
class Searched:
    """All hits of a window, each trace once, and the parts of it whose results may be cut off."""

    hits: dict[str, Hit] = field(default_factory=dict)
    cut: list[Window] = field(default_factory=list)
    requests: int = 0


async def search_all(source: TraceSource, window: Window, limit: int) -> Searched:
    """Search a window, halving it where a search hits its limit. Raises SourceFault."""
    done = Searched()
    left = [window]
    while left:
        part = left.pop()
        found = await _search(source, part, limit)
        done.requests += 1
        if found.truncated and part.width / 2 >= source.resolution:
            middle = part.start + part.width / 2
            left += [Window(middle, part.end), Window(part.start, middle)]
            continue
        hits = found.hits
        if found.truncated:
            hits = await _with_more(source, part, limit, done)
        for hit in hits:
            done.hits[hit.trace_id] = hit
    return done


async def _search(source: TraceSource, part: Window, limit: int) -> Found:
    """A search whose answer would be too large is one that found too much, while its window can be halved."""
    try:
        return await source.search(part, limit)
    except SourceFault as fault:
        if fault.kind is FaultKind.TOO_LARGE and part.width / 2 >= source.resolution:
            return Found((), truncated=True)
        raise


async def _with_more(source: TraceSource, part: Window, limit: int, done: Searched) -> tuple[Hit, ...]:
    """The narrowest window is still too full: ask for more at once, as far as the source lets us."""
    best: tuple[Hit, ...] = ()
    factor = 1
    while factor <= _LARGEST_FACTOR:
        try:
            found = await source.search(part, limit * factor)
        except SourceFault as fault:
            if fault.kind not in (FaultKind.REFUSED, FaultKind.TOO_LARGE) or factor == 1:
                raise
            break  # more than the source gives at once
        done.requests += 1
        best = found.hits
        if not found.truncated:
            return best
        factor *= 4
    done.cut.append(part)
    return best
