"""Label values and names as they may stand on the page: bounded, printable, escaped. One bad label would fail a whole scrape."""

from __future__ import annotations

import re

MAX_LENGTH = 64
OTHER = "other"
"""What label values past the limits are folded into."""

RESERVED_NAMES = frozenset(
    {"job", "instance", "namespace", "pod", "service", "container", "endpoint", "le", "quantile"}
)
"""Names that Prometheus or its service discovery give to targets; ours never use them."""

_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_TRACE_ID = re.compile(r"[0-9a-f]{32}")


def clean(value: str) -> str:
    """A label value cut to 64 characters, each character that does not print (also half a surrogate pair) as U+FFFD."""
    if len(value) <= MAX_LENGTH and value.isprintable():
        return value
    return "".join(character if character.isprintable() else "�" for character in value[:MAX_LENGTH])


def usable_name(name: str) -> bool:
    """Whether a name of the configuration can be a label: Prometheus takes it and nobody else claims it."""
    return _NAME.fullmatch(name) is not None and not name.startswith("__") and name not in RESERVED_NAMES


def is_trace_id(text: str) -> bool:
    """Whether a text is a trace id of 32 lower-case hex digits; nothing else may stand in an exemplar."""
    return _TRACE_ID.fullmatch(text) is not None


def label_block(names: tuple[str, ...], values: tuple[str, ...]) -> str:
    """`{agent="a",rubric="b"}`, names in order of the alphabet, values escaped as both exposition formats want it."""
    if not names:
        return ""
    return "{" + ",".join(f'{name}="{escaped(value)}"' for name, value in sorted(zip(names, values, strict=True))) + "}"


def escaped(value: str) -> str:
    """A label value with backslash, line feed and quote escaped."""
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
