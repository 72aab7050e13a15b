"""How much of a long conversation is shown: small turns whole, large ones cut to equal room, and of very many turns the first and the last. Pure."""

from __future__ import annotations

from collections.abc import Sequence


def fair_share(sizes: Sequence[int], room: int) -> int:
    """The size to which the larger ones are to be cut so that all fit into `room`; the largest size where they fit as they are."""
    left, rest = room, sorted(sizes)
    for place, size in enumerate(rest):
        share = left // (len(rest) - place)
        if size > share:
            return share
        left -= size
    return rest[-1] if rest else room


def kept_ends(count: int, most: int) -> tuple[int, int]:
    """(first, last): how many of `count` are shown from the beginning and from the end when at most `most` can be: a third and two thirds."""
    if count <= most:
        return count, 0
    first = max(1, most // 3)
    return first, max(1, most - first)
