"""How far behind now a source is searched first. Pure.

A trace shows up in a store some time after it began: it has to end, be exported, be indexed. Searching sooner finds little and costs a request;
what shows up later is found by searching again. So the lag follows what is seen, and correctness does not depend on it.
"""

from __future__ import annotations

from dataclasses import dataclass

_LATE_SHARE_HIGH, _LATE_SHARE_LOW = 0.3, 0.1
_GROW, _SHRINK = 1.5, 0.9
_LEAST_SEEN = 20


@dataclass(slots=True)
class AdaptiveLag:
    """Grows while many traces are found only by a repeated search, shrinks while few are. All in seconds."""

    least: float
    most: float
    seconds: float
    _first: int = 0
    _late: int = 0

    def observe(self, first: int, late: int) -> None:
        """So many traces were found by the first search of their time, so many only by a later one."""
        self._first += first
        self._late += late
        seen = self._first + self._late
        if seen < _LEAST_SEEN:
            return
        share = self._late / seen
        if share > _LATE_SHARE_HIGH:
            self.seconds = min(self.most, self.seconds * _GROW)
        elif share < _LATE_SHARE_LOW:
            self.seconds = max(self.least, self.seconds * _SHRINK)
        self._first = self._late = 0
