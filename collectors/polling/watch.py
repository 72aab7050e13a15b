"""The traces that were found, and when each is to be looked at again. Pure: time is an argument, in seconds of the source's clock.

A store shows a trace piece by piece. So a trace is fetched again until it has not changed for as long as spans may show up late; what
looks whole is fetched again less often. What was sent before is not sent again unless something is new in it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from collectors.polling.content import TraceContent
from collectors.polling.timeline import Window

_WHOLE_FACTOR, _OPEN_FACTOR = 3.0, 0.5
"""The pause before a trace is fetched again, as a multiple of the time since it changed."""
MAX_WATCH_SECONDS = 24 * 3600.0
"""A trace that goes on changing is left after this: what comes later changes nothing that was judged (contract section 3)."""
PARTIAL_SECONDS = 900.0
"""How long a trace that the source gives in part only is held back, in the hope of the rest."""


@dataclass(slots=True)
class Watched:
    """What is known of a trace. Searches of [`since`, `until`) found it, last at `seen`.

    `digest` is of what was sent, b"" before; `next_at` None once it is settled.
    """

    first_seen: float
    seen: float
    since: float
    until: float
    digest: bytes = b""
    fingerprint: str = ""
    changed_at: float = 0.0
    next_at: float | None = 0.0
    partial: bool = False
    unusable: bool = False


class Watch:
    """The traces of a source. `settle_seconds`: unchanged for so long, a trace is settled; `interval`: the shortest pause."""

    def __init__(self, settle_seconds: float, interval: float) -> None:
        self.settle_seconds = settle_seconds
        self._interval = interval
        self._traces: dict[str, Watched] = {}

    def __len__(self) -> int:
        return len(self._traces)

    def hit(self, trace_id: str, fingerprint: str, window: Window, now: float) -> bool:
        """A search of that window found the trace: whether it is to be fetched now."""
        known = self._traces.get(trace_id)
        if known is None:
            self._traces[trace_id] = Watched(
                now, now, window.start, window.end, fingerprint=fingerprint, changed_at=now
            )
            return True
        known.seen = now
        known.since, known.until = min(known.since, window.start), max(known.until, window.end)
        if fingerprint and fingerprint != known.fingerprint:
            known.fingerprint = fingerprint
            known.next_at = now
        return known.next_at is not None and known.next_at <= now

    def knows(self, trace_id: str) -> bool:
        """Whether the trace was found before."""
        return trace_id in self._traces

    def is_news(self, trace_id: str, content: TraceContent, partial: bool, now: float) -> bool:
        """Whether what was fetched is to be sent: it differs from what was sent, and is not held back as partial."""
        one = self._traces[trace_id]
        one.partial = partial
        if not content.spans or content.digest == one.digest:
            return False
        return not partial or now - one.first_seen >= PARTIAL_SECONDS

    def fetched(self, trace_id: str, content: TraceContent, now: float) -> None:
        """What was fetched is durable, or was known: when to look next."""
        one = self._traces[trace_id]
        held_back = one.partial and now - one.first_seen < PARTIAL_SECONDS
        if not held_back and content.digest != one.digest:
            is_first = not one.digest
            one.digest = content.digest
            one.changed_at = min(now, max(content.newest_end, 0.0)) if is_first else now
        quiet = now - one.changed_at
        if not held_back and (quiet >= self.settle_seconds or now - one.first_seen >= MAX_WATCH_SECONDS):
            one.next_at = None
            return
        pause = max(self._interval, quiet * (_WHOLE_FACTOR if content.whole and not one.partial else _OPEN_FACTOR))
        one.next_at = now + min(pause, max(self._interval, self.settle_seconds - quiet))

    def missing(self, trace_id: str, now: float) -> None:
        """The source found the trace and does not have it: it may be there later, for as long as things may be late."""
        one = self._traces.get(trace_id)
        if one is not None:
            quiet = now - one.first_seen
            one.next_at = None if quiet >= self.settle_seconds else now + max(self._interval, quiet * _OPEN_FACTOR)

    def mark_unusable(self, trace_id: str) -> bool:
        """The trace cannot be taken (too large, unreadable). Whether that is new."""
        one = self._traces[trace_id]
        was, one.unusable = one.unusable, True
        return not was

    def due(self, now: float, limit: int) -> list[str]:
        """Up to `limit` traces to be fetched again now, the longest due first."""
        found = [(one.next_at, trace_id) for trace_id, one in self._traces.items() if one.next_at is not None]
        return [trace_id for at, trace_id in sorted(found)[:limit] if at <= now]

    def extent(self, trace_id: str) -> Window:
        """The time that searches found the trace in."""
        one = self._traces[trace_id]
        return Window(one.since, one.until)

    def forget(self, now: float) -> None:
        """Let go of settled traces that no search can find any more as new: those not found for twice the overlap."""
        bound = now - 2 * self.settle_seconds
        gone = [key for key, one in self._traces.items() if one.next_at is None and one.seen < bound]
        for key in gone:
            del self._traces[key]

    def as_json(self, before: float) -> dict[str, Any]:
        """The traces still open that lie wholly before that time: stretches that are searched again bring back the others."""
        return {
            trace_id: [one.first_seen, one.changed_at, one.since, one.until]
            for trace_id, one in self._traces.items()
            if one.next_at is not None and one.until <= before
        }

    def restore(self, saved: Mapping[str, Sequence[float]], now: float) -> None:
        """From the cursor; they are fetched at the next poll. Raises ValueError or TypeError for what is none."""
        for trace_id, (first_seen, changed_at, since, until) in saved.items():
            self._traces[str(trace_id)] = Watched(first_seen, now, since, until, changed_at=changed_at, next_at=now)
