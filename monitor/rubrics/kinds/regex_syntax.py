r"""The syntax tree of a regular expression, without the constructs that cannot be matched in linear time.

A subset of Python's `re`: literals, classes, groups, alternation, repeats (greedy and lazy are the same for a yes/no search),
`^ $ \A \Z \b \B`, and the flags `(?ims)` at the start. Back-references, look-around, atomic groups and conditions are refused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

MAX_REPEAT = 1000
"""Largest bound of a counted repeat; it is unrolled."""


class PatternError(ValueError):
    """A pattern that cannot be used; the message says what and at which character."""


class Anchor(Enum):
    """A place between two characters."""

    START = "start"
    END = "end"
    LINE_START = "line start"
    LINE_END = "line end"
    FINAL_LINE_END = "end or before a final line break"
    WORD_EDGE = "word edge"
    NO_WORD_EDGE = "no word edge"


@dataclass(frozen=True, slots=True)
class CharSet:
    """One character: in any of the ranges or matching any of the predicates; `negated` turns it round."""

    ranges: tuple[tuple[str, str], ...] = ()
    predicates: tuple[Callable[[str], bool], ...] = ()
    negated: bool = False
    ignore_case: bool = False

    def matches(self, char: str) -> bool:
        """Whether the character is in the set."""
        variants = {char, char.lower(), char.upper()} if self.ignore_case else (char,)
        found = any(low <= variant <= high for variant in variants for low, high in self.ranges) or any(
            predicate(variant) for variant in variants for predicate in self.predicates
        )
        return found != self.negated


@dataclass(frozen=True, slots=True)
class Sequence:
    """Parts one after the other; empty matches the empty text."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """Any one of the branches."""

    branches: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """The body `least` to `most` times; `most` None is without end."""

    body: Node
    least: int
    most: int | None


Node = CharSet | Anchor | Sequence | Choice | Repeat


def is_word(char: str) -> bool:
    r"""Whether the character is one of `\w`."""
    return char.isalnum() or char == "_"


_CLASSES: dict[str, tuple[Callable[[str], bool], bool]] = {
    "d": (str.isdecimal, False),
    "D": (str.isdecimal, True),
    "w": (is_word, False),
    "W": (is_word, True),
    "s": (str.isspace, False),
    "S": (str.isspace, True),
}
_CONTROLS = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v", "a": "\a", "0": "\0"}
_HEX_DIGITS = {"x": 2, "u": 4, "U": 8}
_REFUSED_GROUPS = {"=": "look-ahead", "!": "look-ahead", "<": "look-behind", "(": "a condition", ">": "an atomic group"}


def parse(pattern: str) -> Node:
    """The syntax tree of a pattern. Raises PatternError."""
    return _Parser(pattern).parse()


class _Parser:
    def __init__(self, pattern: str) -> None:
        self.pattern, self.at, self.flags = pattern, 0, frozenset[str]()

    def parse(self) -> Node:
        if self.pattern.startswith("(?") and (end := self.pattern.find(")")) > 2:
            letters = self.pattern[2:end]
            if letters.isalpha() and set(letters) <= set("imsu"):
                self.flags, self.at = frozenset(letters), end + 1
        node = self._choice(0)
        if self.at < len(self.pattern):
            raise self._error("a `)` without its `(`")
        return node

    def _error(self, what: str) -> PatternError:
        return PatternError(f"{what} at character {self.at + 1} of the pattern")

    def _peek(self) -> str:
        return self.pattern[self.at : self.at + 1]

    def _take(self) -> str:
        char = self._peek()
        if not char:
            raise self._error("the pattern ends too early")
        self.at += 1
        return char

    def _choice(self, depth: int) -> Node:
        if depth > 100:
            raise self._error("groups nested too deeply")
        branches = [self._sequence(depth)]
        while self._peek() == "|":
            self.at += 1
            branches.append(self._sequence(depth))
        return branches[0] if len(branches) == 1 else Choice(tuple(branches))

    def _sequence(self, depth: int) -> Node:
        parts: list[Node] = []
        while self._peek() not in ("", "|", ")"):
            parts.append(self._repeated(self._atom(depth)))
        return parts[0] if len(parts) == 1 else Sequence(tuple(parts))

    def _repeated(self, atom: Node) -> Node:
        bounds = self._bounds()
        if bounds is None:
            return atom
        if self._peek() == "?":
            self.at += 1
        elif self._peek() in ("*", "+"):
            raise self._error("a repeat of a repeat")
        return Repeat(atom, *bounds)

    def _bounds(self) -> tuple[int, int | None] | None:
        char = self._peek()
        if char in ("*", "+", "?") and char:
            self.at += 1
            return {"*": (0, None), "+": (1, None), "?": (0, 1)}[char]
        end = self.pattern.find("}", self.at)
        if char != "{" or end < 0:
            return None
        least, comma, most = self.pattern[self.at + 1 : end].partition(",")
        if not (least + most).isdecimal() or not (least + most).isascii():
            return None
        low = int(least or 0)
        high = (int(most) if most else None) if comma else low
        if low > MAX_REPEAT or (high or 0) > MAX_REPEAT or (high is not None and high < low):
            raise self._error(f"a repeat out of order or over {MAX_REPEAT}")
        self.at = end + 1
        return low, high

    def _atom(self, depth: int) -> Node:
        char = self._take()
        if char == "(":
            return self._group(depth)
        if char == "[":
            return self._class()
        if char == ".":
            return CharSet((), (), True) if "s" in self.flags else CharSet((("\n", "\n"),), (), True)
        if char == "^":
            return Anchor.LINE_START if "m" in self.flags else Anchor.START
        if char == "$":
            return Anchor.LINE_END if "m" in self.flags else Anchor.FINAL_LINE_END
        if char == "\\":
            return self._escape()
        if char in "*+?":
            self.at -= 1
            raise self._error("a repeat of nothing")
        return self._literal(char)

    def _literal(self, char: str) -> CharSet:
        return CharSet(((char, char),), ignore_case="i" in self.flags)

    def _group(self, depth: int) -> Node:
        if self._peek() == "?":
            self.at += 1
            self._group_kind()
        node = self._choice(depth + 1)
        if self._take() != ")":
            raise self._error("a `(` without its `)`")
        return node

    def _group_kind(self) -> None:
        kind = self._take()
        if kind == "P" and self._peek() == "<":
            end = self.pattern.find(">", self.at)
            if end < 0:
                raise self._error("a group name without its `>`")
            self.at = end + 1
        elif kind != ":":
            what = _REFUSED_GROUPS.get(kind, "a back-reference" if kind == "P" else "a group of this kind")
            raise self._error(f"{what}, which cannot be matched in linear time or is not known,")

    def _escape(self) -> Node:
        char = self._take()
        anchors = {"A": Anchor.START, "Z": Anchor.END, "b": Anchor.WORD_EDGE, "B": Anchor.NO_WORD_EDGE}
        if char in anchors:
            return anchors[char]
        if char in _CLASSES:
            predicate, negated = _CLASSES[char]
            return CharSet((), (predicate,), negated)
        return self._literal(self._escaped_char(char))

    def _escaped_char(self, char: str) -> str:
        if char in _CONTROLS:
            return _CONTROLS[char]
        if char in _HEX_DIGITS:
            digits = self.pattern[self.at : self.at + _HEX_DIGITS[char]]
            try:
                found = chr(int(digits, 16))
            except (ValueError, OverflowError):
                raise self._error(f"no character `\\{char}{digits}`") from None
            self.at += _HEX_DIGITS[char]
            return found
        if char.isdecimal():
            raise self._error("a back-reference, which cannot be matched in linear time,")
        if char.isalpha():
            raise self._error(f"an unknown escape `\\{char}`")
        return char

    def _class(self) -> CharSet:
        negated = self._peek() == "^"
        self.at += negated
        ranges: list[tuple[str, str]] = []
        predicates: list[Callable[[str], bool]] = []
        first = True
        while first or self._peek() != "]":
            first = False
            low = self._class_item(predicates)
            if low is None:
                continue
            high = low
            if self._peek() == "-" and self.pattern[self.at + 1 : self.at + 2] not in ("]", ""):
                self.at += 1
                high = self._class_item(predicates) or ""
            if high < low:
                raise self._error("a range out of order")
            ranges.append((low, high))
        self.at += 1
        return CharSet(tuple(ranges), tuple(predicates), negated, "i" in self.flags)

    def _class_item(self, predicates: list[Callable[[str], bool]]) -> str | None:
        char = self._take()
        if char != "\\":
            return char
        escaped = self._take()
        if escaped in _CLASSES:
            predicate, negated = _CLASSES[escaped]
            predicates.append((lambda c: not predicate(c)) if negated else predicate)
            return None
        return "\b" if escaped == "b" else self._escaped_char(escaped)
