"""Reads Python reprs that found their way into telemetry: `{'city': 'Paris'}`, `ToolMessage(content='7 °C')`.

A small parser of its own: nothing is evaluated, the time is linear in the text, and depth is bounded.
"""

from __future__ import annotations

import re
from typing import Any

MAX_DEPTH = 64
MAX_LENGTH = 4_000_000

CLASS_KEY = "__class__"
"""Key under which the class name of a constructor repr is kept."""

_SPACE = re.compile(r"\s*")
_NUMBER = re.compile(r"[-+]?(?:\d[\d_]*(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?(?![\w.])")
_NAME = re.compile(r"[^\W\d][\w.]*")
_STRING_START = re.compile(r"([bBrRuU]{0,2})('''|\"\"\"|'|\")")
_ANGLE = re.compile(r"<[^<>]*>")
_WORDS: dict[str, Any] = {"None": None, "True": True, "False": False, "nan": None, "inf": None, "null": None}
_WORDS |= {"true": True, "false": False}
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", "'": "'", '"': '"', "\n": "", "a": "\a", "b": "\b"}
_ESCAPES |= {"f": "\f", "v": "\v", "0": "\0"}


class NotALiteral(ValueError):
    """The text is no Python repr of plain values."""


def python_literal(text: str) -> Any:
    """The value of a Python repr: containers, numbers, texts, None, and constructors as dicts of their keywords.

    `Name(a=1)` becomes `{"__class__": "Name", "a": 1}`; one positional argument stands for the whole (`Decimal('1.5')`).
    Raises NotALiteral for anything else, for text longer than MAX_LENGTH and deeper nesting than MAX_DEPTH.
    """
    if len(text) > MAX_LENGTH:
        raise NotALiteral("too long")
    reader = _Reader(text)
    value = reader.value(0)
    reader.end()
    return value


def keyword_repr(text: str) -> dict[str, Any]:
    """The fields of `content='…' name='…' id='…'`, how pydantic prints a model without its class name.

    Raises NotALiteral for anything else.
    """
    if len(text) > MAX_LENGTH:
        raise NotALiteral("too long")
    reader = _Reader(text)
    fields: dict[str, Any] = {}
    while not reader.at_end():
        key = reader.name()
        reader.expect("=")
        fields[key] = reader.value(0)
    if not fields:
        raise NotALiteral("empty")
    return fields


class _Reader:
    """A position in a text; every method moves it forward or raises NotALiteral."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.skip()

    def skip(self) -> None:
        found = _SPACE.match(self.text, self.at)
        self.at = found.end() if found else self.at

    def at_end(self) -> bool:
        self.skip()
        return self.at >= len(self.text)

    def end(self) -> None:
        if not self.at_end():
            raise NotALiteral("text after the value")

    def peek(self) -> str:
        self.skip()
        return self.text[self.at : self.at + 1]

    def expect(self, character: str) -> None:
        if self.peek() != character:
            raise NotALiteral(f"{character!r} expected")
        self.at += 1

    def take(self, character: str) -> bool:
        if self.peek() == character:
            self.at += 1
            return True
        return False

    def name(self) -> str:
        self.skip()
        found = _NAME.match(self.text, self.at)
        if not found:
            raise NotALiteral("a name expected")
        self.at = found.end()
        return found.group()

    def value(self, depth: int) -> Any:
        if depth > MAX_DEPTH:
            raise NotALiteral("too deep")
        first = self.peek()
        if first == "{":
            return self.mapping(depth)
        if first in "[(" and first:
            return self.sequence(depth)
        if first == "<":
            return self.opaque()
        if _STRING_START.match(self.text, self.at):
            return self.strings()
        found = _NUMBER.match(self.text, self.at)
        if found:
            self.at = found.end()
            return _number(found.group())
        return self.word(depth)

    def sequence(self, depth: int) -> list[Any]:
        closing = {"[": "]", "(": ")"}[self.text[self.at]]
        self.at += 1
        items: list[Any] = []
        while not self.take(closing):
            items.append(self.value(depth + 1))
            if not self.take(",") and self.peek() != closing:
                raise NotALiteral("a comma expected")
        return items

    def mapping(self, depth: int) -> Any:
        self.at += 1
        fields: dict[str, Any] = {}
        members: list[Any] = []
        while not self.take("}"):
            key = self.value(depth + 1)
            if self.take(":"):
                fields[key if isinstance(key, str) else str(key)] = self.value(depth + 1)
            else:
                members.append(key)
            if not self.take(",") and self.peek() != "}":
                raise NotALiteral("a comma expected")
        return members if members and not fields else fields

    def opaque(self) -> str:
        found = _ANGLE.match(self.text, self.at)
        if not found:
            raise NotALiteral("an object expected")
        self.at = found.end()
        inner = found.group()[1:-1].partition(":")
        return inner[2].strip().strip("'\"") if inner[1] else found.group()

    def strings(self) -> str:
        pieces = [self.string()]
        while _STRING_START.match(self.text, self.at) or self.peek() in ("'", '"'):
            pieces.append(self.string())
        return "".join(pieces)

    def string(self) -> str:
        start = _STRING_START.match(self.text, self.at)
        if not start:
            raise NotALiteral("a text expected")
        raw, quote = "r" in start.group(1).lower(), start.group(2)
        self.at = start.end()
        pieces: list[str] = []
        stops = re.compile(re.escape(quote) if raw else rf"\\|{re.escape(quote)}")
        while True:
            stop = stops.search(self.text, self.at)
            if not stop:
                raise NotALiteral("a text without end")
            pieces.append(self.text[self.at : stop.start()])
            self.at = stop.end()
            if stop.group() != "\\":
                return "".join(pieces)
            pieces.append(self.escape())

    def escape(self) -> str:
        character = self.text[self.at : self.at + 1]
        self.at += 1
        width = {"x": 2, "u": 4, "U": 8}.get(character)
        if width is None:
            return _ESCAPES.get(character, "\\" + character)
        digits = self.text[self.at : self.at + width]
        self.at += width
        try:
            code = int(digits, 16)
            return chr(code) if len(digits) == width and not 0xD800 <= code <= 0xDFFF else "�"
        except (ValueError, OverflowError):
            raise NotALiteral("a bad escape") from None

    def word(self, depth: int) -> Any:
        name = self.name()
        if self.text[self.at : self.at + 1] == "(":
            self.at += 1
            return self.call(name, depth)
        if name in _WORDS:
            return _WORDS[name]
        if "." in name:
            return name  # `datetime.timezone.utc`, `Role.USER`
        raise NotALiteral("an unknown word")

    def call(self, name: str, depth: int) -> Any:
        fields: dict[str, Any] = {CLASS_KEY: name}
        positional: list[Any] = []
        while not self.take(")"):
            self.skip()
            found = _NAME.match(self.text, self.at)
            if found and self.text[found.end() : found.end() + 1] == "=":
                self.at = found.end() + 1
                fields[found.group()] = self.value(depth + 1)
            else:
                positional.append(self.value(depth + 1))
            if not self.take(",") and self.peek() != ")":
                raise NotALiteral("a comma expected")
        if len(fields) == 1:
            return positional[0] if len(positional) == 1 else positional
        return fields


def _number(text: str) -> int | float:
    digits = text.replace("_", "")
    try:
        return int(digits)
    except ValueError:
        return float(digits)
