"""Whether Prometheus can read a monitor's annotation, which is a template of Go's text/template.

Source: https://pkg.go.dev/text/template, "Actions". Only what goes wrong by a slip of the pen is looked at: the braces, and the ends of blocks.
"""

from __future__ import annotations

import re

_TOKEN = re.compile(r"\"(?:\\.|[^\"\\\n])*\"|`[^`]*`|'(?:\\.|[^'\\\n])*'|\}\}|[\"`'{]")
"""Quoted texts, the end of an action, and what cannot stand in one."""
_COMMENT = re.compile(r"(?:-\s)?/\*")
_OPENS = frozenset({"if", "range", "with", "define", "block"})


def template_fault(text: str) -> str | None:
    """What is wrong with a template and what would be right; None where its braces and blocks are whole."""
    opened, position = 0, 0
    while (start := text.find("{{", position)) >= 0:
        end = _end(text, start + 2)
        if end is None:
            return 'has a {{ without its }}, or too many braces: write {{ $labels.agent }}, or {{ "{{" }} for the braces themselves'
        words = text[start + 2 : end].removeprefix("-").removesuffix("-").split(None, 1)
        if not words:
            return "has nothing between {{ and }}: write {{ $labels.agent }}"
        opened += (words[0] in _OPENS) - (words[0] == "end")
        if opened < 0:
            return "has an {{ end }} without an {{ if … }}"
        position = end + 2
    return "has an {{ if … }} without its {{ end }}" if opened else None


def _end(text: str, start: int) -> int | None:
    """Where the action that begins at `start` has its `}}`; None where it has none."""
    comment = _COMMENT.match(text, start)
    if comment is not None:
        closed = text.find("*/", comment.end())
        end = text.find("}}", closed)
        return end if closed >= 0 and end >= 0 else None
    for token in _TOKEN.finditer(text, start):
        if token[0] == "}}":
            return token.start()
        if len(token[0]) == 1:
            return None
    return None
