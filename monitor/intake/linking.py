"""Which traces a link ties: one whose roots were sent messages from inside of another's run. Pure but for the question it is given."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from monitor.intake.loose import Loose

MOST_LINKED = 100
"""Traces that links tie together at most, the earliest: each that comes has all of them put together anew. The others stand by themselves."""

Belongs = Callable[[Loose, Loose], bool]
"""Whether a trace is a part of one by itself: the latter holds a span inside of a run that the former is linked to."""


def linked_pairs(fresh: Collection[str], known: Mapping[str, Loose], belongs: Belongs) -> list[tuple[str, str]]:
    """The pairs of traces that are tied by links. What does not touch a fresh trace, or one that waits, stays as it was stored.

    A trace that was sent messages by one which was sent messages itself belongs to the first of them. Traces that are not known tie nothing.
    """
    waiting = sorted((one for one in known.values() if one.linked is not None), key=lambda one: one.key)
    groups = _Groups()
    pairs: list[tuple[str, str]] = []
    tied: set[str] = set()
    progress = True
    while progress:
        progress = False
        for one in list(waiting):
            sender = known.get(one.linked.trace_id) if one.linked is not None else None
            if sender is None or not groups.may_join(one.trace_id, sender.trace_id):
                continue
            if sender.trace_id in tied or _is_tied(one, sender, fresh, belongs):
                groups.join(one.trace_id, sender.trace_id)
                pairs.append((one.trace_id, sender.trace_id))
                tied.add(one.trace_id)
                waiting.remove(one)
                progress = True
    return pairs


def _is_tied(one: Loose, sender: Loose, fresh: Collection[str], belongs: Belongs) -> bool:
    stored = one.turn is not None and sender.turn is not None
    if stored and one.trace_id not in fresh and sender.trace_id not in fresh:
        return one.turn == sender.turn
    return belongs(one, sender)


class _Groups:
    """Traces that are tied together so far, and how many they are."""

    def __init__(self) -> None:
        self._leader: dict[str, str] = {}
        self._size: dict[str, int] = {}

    def may_join(self, one: str, other: str) -> bool:
        """Whether two traces are together, or would not be too many."""
        first, second = self._first(one), self._first(other)
        return first == second or self._size.get(first, 1) + self._size.get(second, 1) <= MOST_LINKED

    def join(self, one: str, other: str) -> None:
        """Two traces are together from now on."""
        first, second = self._first(one), self._first(other)
        if first != second:
            self._size[second] = self._size.get(first, 1) + self._size.get(second, 1)
            self._leader[first] = second

    def _first(self, trace_id: str) -> str:
        while trace_id in self._leader:
            trace_id = self._leader[trace_id]
        return trace_id
