"""Decodes attribute values: structures as they are, JSON once or twice, Python reprs, else text. Never evaluates.

Nothing here raises for bad input. Redaction markers are told from content here, once for all conventions.
"""

from __future__ import annotations

import base64
import json
import math
import re
from typing import Any

from monitor.assembly.literal import NotALiteral, keyword_repr, python_literal
from monitor.model.invocation import Capture

MAX_DEPTH = 64
"""Deeper values are kept as text: nothing real nests deeper, and later steps recurse."""

_read_at = json.JSONDecoder(strict=False, parse_constant=lambda _: None).raw_decode
"""Reads one JSON value at a place of a text; NaN and the infinities, which are no JSON, are null."""

_JSON_SPACE = " \t\n\r"

_OPENING = frozenset('"[{')

_KEYWORDS = re.compile(r"[a-z_]\w*=(?:['\"\[{(\d]|None |True |False |[A-Za-z.]+\()")

SENTINELS = frozenset(
    {"__redacted__", "<redacted>", "[redacted]", "<elided>", "[elided]", "redacted", "***redacted***", "[filtered]"}
    | {"<truncated>", "[truncated]"}
)
"""What conventions and SDKs write in the place of content, in lower case."""


def withheld(value: Any) -> Capture | None:
    """Why the value is a marker instead of content (`__REDACTED__`, `<elided>` …), None for content."""
    if not isinstance(value, str) or len(value) > 24:
        return None
    marker = value.strip().lower()
    if marker not in SENTINELS:
        return None
    return Capture.TRUNCATED if "truncated" in marker else Capture.REDACTED


def decode(value: Any, layers: int = 2) -> Any:
    """What a content attribute holds: JSON and Python reprs are unwrapped, `layers` deep; other text is returned as it is."""
    for _ in range(layers):
        if not isinstance(value, str):
            return value
        inner = _container(value)
        if inner is None:
            return value
        value = inner[0]
    return value


def decode_any(value: Any) -> Any:
    """As `decode`, and bare JSON scalars (`null`, `12`, `true`) too: for tool arguments, whose text is JSON by definition."""
    if isinstance(value, str) and len(value) < 40:
        try:
            scalar = json.loads(value)
        except ValueError:
            return decode(value)
        if not isinstance(scalar, str | list | dict):
            return plain(scalar)
    return decode(value)


def looks_cut(decoded: Any) -> bool:
    """Whether a decoded value is still text that begins as a JSON list or object: cut by a length limit."""
    return isinstance(decoded, str) and decoded.lstrip()[:2] in ("[{", '{"', "[[", '["')


def _container(text: str) -> tuple[Any] | None:
    first = text[:1] if text[:1] in _OPENING else text.lstrip()[:1]
    if first not in _OPENING:
        return _constructor(text) if text[:1].isalpha() else None
    found = from_json(text)
    if found is not None or first == '"':
        return found
    try:
        return (plain(python_literal(text)),)
    except NotALiteral:
        return None


def _constructor(text: str) -> tuple[Any] | None:
    name = text.partition("(")[0]
    if name.replace(".", "").isidentifier() and name[:1].isupper() and text.endswith(")"):
        try:
            return (plain(python_literal(text)),)
        except NotALiteral:
            return None
    if _KEYWORDS.match(text) and "content=" in text:
        try:
            return (plain(keyword_repr(text)),)
        except NotALiteral:
            return None
    return None


def from_json(text: str) -> tuple[Any] | None:
    """The JSON value in a 1-tuple, None when the text is no JSON or nests too deep."""
    start = 0 if text[:1] in _OPENING else len(text) - len(text.lstrip(_JSON_SPACE))
    try:
        value, end = _read_at(text, start)
    except (ValueError, RecursionError):
        return None
    if end != len(text) and text[end:].strip(_JSON_SPACE):
        return None
    if not isinstance(value, str) and text.count("[") + text.count("{") > MAX_DEPTH and depth(value) > MAX_DEPTH:
        return None
    if "\\u" in text and ("\\ud" in text or "\\uD" in text):
        value = plain(value)
    return (value,)


def depth(value: Any) -> int:
    """How deep lists and objects nest, at most MAX_DEPTH + 1; iterative."""
    level, reached = [value], 0
    while level and reached <= MAX_DEPTH:
        deeper: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                deeper.extend(item.values())
            elif isinstance(item, list | tuple):
                deeper.extend(item)
        level = [item for item in deeper if isinstance(item, dict | list | tuple)]
        reached += 1
    return reached + bool(level)


def repaired(text: str) -> str:
    """The text with halves of surrogate pairs replaced by U+FFFD, so that no later step stumbles over them."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def plain(value: Any, limit: int = MAX_DEPTH) -> Any:
    """The value as JSON can hold it: text keys, no bytes, no NaN, no half surrogates, at most `limit` deep."""
    if isinstance(value, str):
        return value if value.isascii() else repaired(value)
    if value is None or isinstance(value, int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, bytes | bytearray):
        return base64.b64encode(value).decode("ascii")
    if limit <= 0:
        return "…"
    if isinstance(value, dict):
        limit -= 1
        return {
            key if isinstance(key, str) and key.isascii() else repaired(str(key)): plain(item, limit)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item, limit - 1) for item in value]
    return repaired(str(value))


def canonical(value: Any) -> str:
    """A text that is equal for equal JSON values, whatever the order of keys."""
    try:
        return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"), default=str)
    except (ValueError, RecursionError, TypeError):
        return str(type(value))


def text_of(value: Any) -> str | None:
    """The value as non-empty text, None for anything else."""
    return value if isinstance(value, str) and value.strip() else None


def number_of(value: Any) -> int | None:
    """The value as a count: whole, not negative; also from text and floats. None for NaN, booleans and the rest."""
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        try:
            value = float(value) if len(value) < 32 else None
        except ValueError:
            return None
    if isinstance(value, float):
        value = int(value) if math.isfinite(value) else None
    return value if isinstance(value, int) and 0 <= value < 2**53 else None
