"""Text of traces and judges as it is shown: escaped, cut, control characters visible, evidence marked. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from markupsafe import Markup, escape

INLINE_CHARACTERS = 4_000
"""Characters shown in the page; all of a longer text is a page of plain text of its own."""

ONE_LINE = 72
"""Characters of a JSON value that is shown on one line."""

_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb\ud800-\udfff]"
)
"""Controls, direction marks, blanks without width and half surrogate pairs: they change how text looks, or cannot be sent. Joiners stay."""


SHORT = "short"
"""The kind of mark that shows where others lie as well: evidence of what fell short."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A part of a text that evidence points to: characters [start, end), the anchor it gets, and how it is coloured."""

    start: int
    end: int
    anchor: str
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Shown:
    """A text in a page. `cut` is how many characters are left out, `length` how many there are."""

    html: Markup
    length: int
    cut: int = 0


def as_text(value: Any) -> str:
    """A text as it is, with one kind of line end; other values as JSON, indented where they are long."""
    if not isinstance(value, str):
        line = json.dumps(value, ensure_ascii=False, default=str)
        value = line if len(line) <= ONE_LINE else json.dumps(value, ensure_ascii=False, indent=2, default=str)
    return str(value).replace("\r\n", "\n")


def shown(text: str, marks: Sequence[Mark] = (), limit: int = INLINE_CHARACTERS) -> Shown:
    """The beginning of a text as HTML. Marks may overlap; those behind the cut are left out."""
    length = len(text)
    end = length if length <= limit + limit // 10 else limit  # nobody wants a link for the last few words
    return Shown(Markup("").join(_parts(text, end, marks)), length, length - end)


def plain(text: str) -> Markup:
    """A whole text as HTML, for short ones: names, explanations."""
    return _visible(text)


def bare(text: str) -> str:
    """A text for places that take no elements, such as titles: unseen characters as `U+202E`; not escaped."""
    return _UNSEEN.sub(lambda match: f"U+{ord(match.group()):04X}", text)


def encodable(text: str) -> bytes:
    """UTF-8; half surrogate pairs, which have none, become `?`."""
    return text.encode("utf-8", "replace")


def _parts(text: str, end: int, marks: Sequence[Mark]) -> Iterator[Markup]:
    """Between two edges of marks the same marks hold."""
    inside = sorted((mark for mark in marks if mark.start < end), key=lambda mark: (mark.start, mark.end))
    edges = sorted({0, end, *(edge for mark in inside for edge in (mark.start, min(mark.end, end)))})
    begun: set[str] = set()
    for start, stop in pairwise(edges):
        piece = _visible(text[start:stop])
        holding = sorted((m for m in inside if m.start <= start and stop <= m.end), key=lambda m: m.kind != SHORT)
        for mark in holding[:1]:
            fresh = [one.anchor for one in holding if one.anchor not in begun]
            begun.update(fresh)
            anchors = Markup("").join(Markup('<a id="{}"></a>').format(anchor) for anchor in fresh)
            piece = Markup('{}<mark class="{}">{}</mark>').format(anchors, mark.kind, piece)
        yield piece


def _visible(text: str) -> Markup:
    """Escaped, with a small label for each character that cannot be seen."""
    found, last = [], 0
    for match in _UNSEEN.finditer(text):
        code = f"U+{ord(match.group()):04X}"
        found += [escape(text[last : match.start()]), Markup('<span class="unseen">{}</span>').format(code)]
        last = match.end()
    return Markup("").join([*found, escape(text[last:])])
