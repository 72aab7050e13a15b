"""Which traces belong together, given pairs and more of them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def together(traces: Iterable[str], sets: Iterable[Sequence[str]]) -> list[list[str]]:
    """The traces in groups: two that are in one of the sets are in one group. All in order of `traces`, which hold every member."""
    order = list(dict.fromkeys(traces))
    leader = {trace: trace for trace in order}

    def first(trace: str) -> str:
        while leader[trace] != trace:
            leader[trace] = leader[leader[trace]]
            trace = leader[trace]
        return trace

    for members in sets:
        for member in members[1:]:
            leader[first(member)] = first(members[0])
    groups: dict[str, list[str]] = {}
    for trace in order:
        groups.setdefault(first(trace), []).append(trace)
    return list(groups.values())
