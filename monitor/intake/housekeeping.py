"""The journal no longer and no larger than needed, and the figures of intake."""

from __future__ import annotations

from collections import Counter

from monitor.intake.compaction import rewrite_survivors
from monitor.intake.frames import SEGMENT_HEADER
from monitor.intake.index import Index
from monitor.intake.journal import Journal
from monitor.model.origin import collector_of
from monitor.telemetry import Telemetry

EVERY_SECONDS = 1.0
QUIET_ROTATION_SECONDS = 60.0
"""A journal in which all has settled is begun anew after this, so that content does not stay in it for want of traffic."""

PRESSURE = 0.8
"""Share of the journal's largest size from which segments that are mostly settled are rewritten before their age asks for it."""

ROTATION_PRESSURE = 0.5
"""Share of the journal's largest size from which the present segment is closed for the room in it: well before anything is refused, which a large
request is sooner than at `NEW_TRACES_UNTIL` of the sink, and a journal of few MiB is one segment.
"""

LARGE_SHARE = 0.25
"""Of the journal's largest size: a present segment of that share is closed under pressure although not all of it has settled."""

RETRY_SECONDS = 60.0


class Housekeeping:
    """Trims, rotates and rewrites segments, and sets the gauges. Called by the settler, while nothing is being settled."""

    def __init__(self, journal: Journal, index: Index, telemetry: Telemetry) -> None:
        self._journal = journal
        self._index = index
        self._telemetry = telemetry
        self._next_at = 0.0
        self._tried: dict[int, float] = {}
        self._collectors: set[str] = set()

    def step(self, now: float, max_age: float, *, trim: bool) -> None:
        """Trim where something has settled; the rest about once a second. `max_age` is the journal's, in seconds."""
        if trim:
            self._trim()
        if self._next_at - EVERY_SECONDS <= now < self._next_at:
            return
        self._next_at = now + EVERY_SECONDS
        self._rotate(now, max_age)
        self._rewrite_one(now, max_age)
        self._trim()
        self._show(now)

    def _trim(self) -> None:
        closed_below = self._journal.active  # asked first
        self._journal.trim(self._index.live_segments, closed_below)

    def _rotate(self, now: float, max_age: float) -> None:
        """Close the present segment when it is old, or when all of it has settled and nothing came for a while.

        Under pressure it is closed as soon as all of it has settled, and where it is a large part of the journal before: then its end can be
        waited for, or what is open in it be rewritten, while the journal goes on.
        """
        active, most = self._journal.active, self._journal.max_bytes
        size = self._journal.segments().get(active, 0)
        if size <= SEGMENT_HEADER.size:
            return
        age = now - self._journal.begun_at(active)
        settled = active not in self._index.live_segments
        pressed = self._journal.size > ROTATION_PRESSURE * most
        quiet = settled and (pressed or age > QUIET_ROTATION_SECONDS)
        if age > max_age or quiet or (pressed and size > LARGE_SHARE * most):
            self._journal.rotate().result()

    def _rewrite_one(self, now: float, max_age: float) -> None:
        """Rewrite the oldest closed segment that is past its age; under pressure, the oldest that is mostly settled."""
        sizes = self._journal.segments()
        live = self._index.live_segments
        pressed = sum(sizes.values()) > PRESSURE * self._journal.max_bytes
        for segment, size in sizes.items():
            if segment >= self._journal.active or segment not in live:
                continue
            old = now - self._journal.begun_at(segment) > max_age
            tried = now - self._tried.get(segment, float("-inf")) < RETRY_SECONDS
            if tried or not (old or pressed):
                continue
            self._tried = {number: at for number, at in self._tried.items() if number in sizes} | {segment: now}
            rewrite_survivors(self._journal, self._index, segment, None if old else size // 2)
            return

    def _show(self, now: float) -> None:
        counts: Counter[str] = Counter()
        for origin, count in self._index.open_traces.items():
            counts[collector_of(origin)] += count
        lasts: dict[str, float] = {}
        for origin, at in self._index.last_data_of_oldest().items():
            lasts[collector_of(origin)] = min(at, lasts.get(collector_of(origin), at))
        self._collectors |= counts.keys()
        for collector in self._collectors:
            self._telemetry.open_traces.labels(collector).set(counts[collector])
            lag = now - lasts[collector] if collector in lasts else 0.0
            self._telemetry.ingest_lag.labels(collector).set(max(0.0, lag))
        self._telemetry.journal_bytes.set(self._journal.size)
