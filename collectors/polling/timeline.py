"""Which stretches of time a source has been searched for, and which are to be searched again. Pure: time is an argument, in seconds.

Stores are searched by when spans began, and a span shows up only after it has ended and was indexed: behind what was searched already. So
each stretch is searched again, with pauses that grow with its age, until it is older than the overlap. What shows up late by d is found
after at most about 1.5 d, at the price of a dozen searches of each stretch instead of one at every poll.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

PAUSE_SHARE = 0.5
"""The pause before a stretch is searched again, as a share of its age."""


@dataclass(frozen=True, slots=True)
class Window:
    """A stretch of time [start, end), seconds since 1970-01-01Z as the source's clock shows them."""

    start: float
    end: float

    @property
    def width(self) -> float:
        """Seconds."""
        return self.end - self.start


@dataclass(slots=True)
class _Slice:
    start: float
    end: float
    next_at: float
    searched: bool = False


@dataclass(frozen=True, slots=True)
class DueWindow:
    """A window to search now; `fresh` when it was never searched before."""

    window: Window
    fresh: bool


class Timeline:
    """The stretches that are not final. `head` is where the next one begins."""

    def __init__(self, head: float, overlap: float, interval: float, widest: float) -> None:
        """`overlap`: how late spans may show up; `interval`: the shortest pause; `widest`: the longest window of one search."""
        self.head = head
        self.overlap = overlap
        self._interval = interval
        self._widest = widest
        self._slices: list[_Slice] = []

    def extend(self, until: float, catch_up: float) -> float:
        """Take in the time up to `until`. Returns how many seconds were left out because they lie further back than `catch_up`."""
        if until <= self.head:
            return 0.0
        skipped = max(0.0, until - catch_up - self.head)
        self.head += skipped
        while self.head < until:
            end = min(until, self.head + self._widest)
            self._slices.append(_Slice(self.head, end, end))
            self.head = end
        return skipped

    def reset(self, head: float) -> None:
        """Begin anew from there: the clock was wrong."""
        self.head = head
        self._slices = [one for one in self._slices if one.end <= head]

    def due(self, now: float) -> Iterator[DueWindow]:
        """What is to be searched now, oldest first; neighbours are joined up to the widest window."""
        found: list[_Slice] = []
        for one in [one for one in self._slices if one.next_at <= now]:
            if found and (
                one.start != found[-1].end
                or one.end - found[0].start > self._widest
                or one.searched != found[0].searched
            ):
                yield _joined(found)
                found = []
            found.append(one)
        if found:
            yield _joined(found)

    def searched(self, window: Window, now: float) -> None:
        """That window was searched at `now`, and what was found is durable. What is older than the overlap is final."""
        kept = []
        for one in self._slices:
            if window.start <= one.start and one.end <= window.end:
                age = now - one.end
                if age >= self.overlap:
                    continue
                one.searched = True
                one.next_at = min(now + max(self._interval, age * PAUSE_SHARE), one.end + self.overlap)
            kept.append(one)
        self._slices = kept

    @property
    def complete_until(self) -> float:
        """Up to here every stretch was searched at least once."""
        return min((one.start for one in self._slices if not one.searched), default=self.head)

    @property
    def oldest(self) -> float:
        """Where the oldest stretch begins that will be searched again."""
        return min((one.start for one in self._slices), default=self.head)

    def as_json(self) -> dict[str, Any]:
        """For the cursor."""
        return {
            "head": self.head,
            "slices": [[one.start, one.end, one.next_at, int(one.searched)] for one in self._slices],
        }

    def restore(self, saved: Any) -> None:
        """From the cursor. Raises ValueError, KeyError or TypeError for what is none."""
        self.head = float(saved["head"])
        self._slices = [
            _Slice(float(start), float(end), float(at), bool(done)) for start, end, at, done in saved["slices"]
        ]


def _joined(slices: list[_Slice]) -> DueWindow:
    return DueWindow(Window(slices[0].start, slices[-1].end), not slices[0].searched)
