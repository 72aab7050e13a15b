"""Below which sampling number traces are kept at intake, over changes of the rate. Time is an argument, seconds since 1970-01-01Z."""

from __future__ import annotations

import threading

MAX_CUT_TRACES = 250_000
"""Cut traces that are remembered at most, about 30 MB. What is more is judged without the spans that came before."""


class KeptBelow:
    """The rate of the early drop. Thread-safe.

    A lower rate holds at once: traces that are open stay, which the caller sees to. A higher one holds only for traces that nothing was
    dropped of, or they would be judged as whole without their first spans. Which these are nobody noted, so for `idle_timeout` after the
    change the old rate goes on, and the traces that it costs are noted; after that each of them is dropped until it has been silent for
    `idle_timeout`, which is when assembly gives a trace up as well. All others are kept by the new rate from then on.
    """

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._rate = 1.0
        self._held: tuple[tuple[float, float], ...] = ()  # (old rate, until when)
        self._idle_timeout = 0.0
        self._cut: dict[bytes, float] = {}  # when a noted trace was last seen
        self._cut_until = 0.0

    def change(self, rate: float, now: float, idle_timeout: float) -> None:
        """Another rate, 1.0 for all traces; `idle_timeout` is that of assembly, in seconds."""
        with self._mutex:
            held = tuple(one for one in self._held if one[1] > now)
            if rate > self._rate:
                held += ((self._rate, now + idle_timeout),)
            self._held, self._rate, self._idle_timeout = held, rate, idle_timeout

    def at(self, now: float) -> float:
        """The rate that holds for traces that begin now."""
        return min([self._rate, *(rate for rate, until in self._held if until > now)])

    def keeps_all(self, now: float) -> bool:
        """Whether nothing needs to be asked of single traces."""
        return self.at(now) >= 1.0 and self._cut_until <= now

    def keeps(self, trace_id: bytes, number: float, now: float) -> bool:
        """Whether a trace that is not open is kept, by its sampling number."""
        with self._mutex:
            if number >= self._rate:
                return False
            seen = self._cut.get(trace_id)
            was_cut = seen is not None and seen + self._idle_timeout > now
            if number < self.at(now) and not was_cut:
                return True
            self._note(trace_id, now)
            return False

    def _note(self, trace_id: bytes, now: float) -> None:
        if self._cut_until <= now:
            self._cut.clear()
        if len(self._cut) < MAX_CUT_TRACES or trace_id in self._cut:
            self._cut[trace_id] = now
            self._cut_until = now + self._idle_timeout
