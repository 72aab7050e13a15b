"""Which traces lie in the frames that are parked, in a fixed amount of memory: a counting Bloom filter."""

from __future__ import annotations

from collections.abc import Iterable

_COUNTERS = 2**23
_MASK = _COUNTERS - 1
_SHIFTS = (0, 20, 40)
"""Three places of each id, out of the 64 bits of its hash, which Python salts: nobody can choose ids that fall together."""
_MOST = 255


class Seen:
    """A multiset of trace ids, 8 MB. An id that is in it is never denied; with 250,000 in it one of 1,500 others seems to be, with 2 million one
    of 7.

    One thread changes it at a time; any may ask meanwhile.
    """

    __slots__ = ("_counters",)

    def __init__(self) -> None:
        self._counters = bytearray(_COUNTERS)  # the kernel gives its pages as they are written

    def add(self, trace_ids: Iterable[bytes]) -> None:
        """Those are in it once more."""
        counters = self._counters
        for trace_id in trace_ids:
            told = hash(trace_id)
            for shift in _SHIFTS:
                place = told >> shift & _MASK
                if counters[place] < _MOST:
                    counters[place] += 1

    def remove(self, trace_ids: Iterable[bytes]) -> None:
        """Those, which were added, are in it once less."""
        counters = self._counters
        for trace_id in trace_ids:
            told = hash(trace_id)
            for shift in _SHIFTS:
                place = told >> shift & _MASK
                if 0 < counters[place] < _MOST:  # one that was full has lost count, and stays
                    counters[place] -= 1

    def __contains__(self, trace_id: bytes) -> bool:
        told = hash(trace_id)
        return all(self._counters[told >> shift & _MASK] for shift in _SHIFTS)
