"""Whether Prometheus can read a monitor's annotation, which is a template of Go's text/template.

Source: https://pkg.go.dev/text/template, "Actions". Only what goes wrong by a slip of the pen is looked at: the braces, and the ends of blocks.
"""

from __future__ import annotations

import re

_ACTION = re.compile(
    r"\{\{(?:-\s)?\s*(?P<body>/\*.*?\*/|(?:" + r'"(?:\\.|[^"\\\n])*"' + r"|`[^`]*`|'(?:\\.|[^'\\\n])*'|(?!\}\})[^\"`'{])*?)\s*(?:\s-)?\}\}",
    re.DOTALL,
)
_OPENS = frozenset({"if", "range", "with", "define", "block"})


def template_fault(text: str) -> str | None:
    """What is wrong with a template and what would be right; None where its braces and blocks are whole."""
    opened, position = 0, 0
    while (start := text.find("{{", position)) >= 0:
        action = _ACTION.match(text, start)
        if action is None:
            return 'has a {{ without its }}, or too many braces: write {{ $labels.agent }}, or {{ "{{" }} for the braces themselves'
        words = action["body"].split(None, 1)
        if not words:
            return "has nothing between {{ and }}: write {{ $labels.agent }}"
        opened += (words[0] in _OPENS) - (words[0] == "end")
        if opened < 0:
            return "has an {{ end }} without an {{ if … }}"
        position = action.end()
    return "has an {{ if … }} without its {{ end }}" if opened else None
