"""An answer as a list of sentences, by its line breaks and closing marks. Pure.

The cut need not be perfect: what matters is that every character of the answer is in exactly one piece, so that no claim is left out.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_END = re.compile(r"(?<=[.!?…。！？])[\"'”’)\]*_]{0,3}(?:\s+(?=[^\s\W]|[\"'“‘(\[*_])|(?<=[。！？]))|\n+")
_SHORTEST = 5
"""Characters; a shorter piece (`Dr.`, `1.`, `Oh!`) goes with the next one."""


def sentences(answer: str, most: int) -> tuple[str, ...]:
    """The sentences of an answer, at most so many: of more, neighbours are joined evenly. Empty for a blank answer."""
    pieces = _joined_short(_cut(answer))
    if len(pieces) <= most:
        return tuple(pieces)
    per = -(-len(pieces) // most)
    return tuple(" ".join(pieces[at : at + per]) for at in range(0, len(pieces), per))


def _cut(answer: str) -> list[str]:
    pieces, start = [], 0
    for match in _END.finditer(answer):
        if "\n" not in match[0] and answer[match.end() : match.end() + 1].islower():
            continue  # `e.g. by tram`, `at 9 a.m. today`
        pieces.append(answer[start : match.end()].strip())
        start = match.end()
    pieces.append(answer[start:].strip())
    return [piece for piece in pieces if piece]


def _joined_short(pieces: Sequence[str]) -> list[str]:
    joined, held = list[str](), ""
    for piece in pieces:
        whole = f"{held} {piece}".strip()
        held = whole if len(whole) < _SHORTEST else ""
        if not held:
            joined.append(whole)
    if held and joined:
        joined[-1] = f"{joined[-1]} {held}"
    elif held:
        joined.append(held)
    return joined
