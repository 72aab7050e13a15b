"""Where a judge's quotation stands in the transcript. Blanks and case do not count: judges see other line breaks than people. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from monitor.server.pages.shown_text import Mark

SEARCHED_CHARACTERS = 200_000
"""Of one text. Evidence farther back is shown with its criterion all the same."""
_LEAST = 3
_GAP = re.compile(r"\.{3,}|\u2026|\[\u2026[^\]]*\]")
_QUOTES = "\"'\u201c\u201d\u2018\u2019\u00ab\u00bb` \n\t"


@dataclass(frozen=True, slots=True)
class Quotation:
    """A quotation of a criterion; `anchor` names it in the page."""

    text: str
    anchor: str
    kind: str


def find_quotations(texts: Mapping[str, str], quotations: Sequence[Quotation]) -> Mapping[str, list[Mark]]:
    """Marks by text (a path), first found of each quotation. A quotation with gaps ("a … b") is marked piece by piece."""
    found: dict[str, list[Mark]] = {}
    if not quotations:
        return found
    squeezed = {path: _Squeezed.of(text[:SEARCHED_CHARACTERS]) for path, text in texts.items()}
    for quotation in quotations:
        for path, mark in _places(squeezed, quotation):
            found.setdefault(path, []).append(mark)
    return found


def _places(texts: Mapping[str, _Squeezed], quotation: Quotation) -> Iterator[tuple[str, Mark]]:
    """As it was quoted; else without the quotes that judges put around it."""
    for text in (quotation.text, quotation.text.strip(_QUOTES)):
        found = [place for piece in _GAP.split(text) for place in _first(texts, _squeeze(piece), quotation)]
        if found:
            yield from found
            return


def _first(texts: Mapping[str, _Squeezed], piece: str, quotation: Quotation) -> Iterator[tuple[str, Mark]]:
    if len(piece) < _LEAST:
        return
    for path, text in texts.items():
        place = text.characters.find(piece)
        if place >= 0:
            start, end = text.places[place], text.places[place + len(piece) - 1] + 1
            yield path, Mark(start, end, quotation.anchor, quotation.kind)
            return


@dataclass(frozen=True, slots=True)
class _Squeezed:
    """A text without blanks and case, and where each of its characters came from."""

    characters: str
    places: Sequence[int]

    @classmethod
    def of(cls, text: str) -> _Squeezed:
        characters, places = [], []
        for place, character in enumerate(text):
            if not character.isspace():
                folded = character.casefold()
                characters.append(folded)
                places.extend([place] * len(folded))
        return cls("".join(characters), places)


def _squeeze(text: str) -> str:
    return "".join(text.split()).casefold()
