"""How attribute values are decoded, and what is told from content."""

from __future__ import annotations

import json
from typing import Any

import pytest

from monitor.assembly.literal import NotALiteral, python_literal
from monitor.assembly.values import MAX_DEPTH, decode, decode_any, depth, looks_cut, number_of, withheld
from monitor.model.invocation import Capture


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("plain words", "plain words"),
        ('{"a": [1, null]}', {"a": [1, None]}),
        (json.dumps(json.dumps({"a": 1})), {"a": 1}),
        (json.dumps(json.dumps(json.dumps({"a": 1}))), json.dumps({"a": 1})),
        ("{'a': (1, None, True), 'b': \"it's\"}", {"a": [1, None, True], "b": "it's"}),
        ("[1, 2", "[1, 2"),
        ("[see the note] we are closed", "[see the note] we are closed"),
        ('{"a": "line\nbreak"}', {"a": "line\nbreak"}),
        ('{"a": NaN, "b": Infinity}', {"a": None, "b": None}),
        ("12", "12"),
        ("", ""),
        (None, None),
    ],
)
def test_decode(given: Any, expected: Any) -> None:
    """JSON is unwrapped up to twice, Python reprs are read, and all other text stays text."""
    assert decode(given) == expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [("null", None), ("12", 12), ("true", True), ('"word"', "word"), ("[1]", [1]), ("word", "word")],
)
def test_scalars_of_tool_arguments(given: str, expected: Any) -> None:
    """Where a text is JSON by definition, bare scalars are values too; other text stays text."""
    assert decode_any(given) == expected


@pytest.mark.parametrize(
    "text", ["__import__('os').system('true')", "[x for x in (1,)]", "(lambda: 1)()", "1 + 1", "{**{}}", "[" * 5000]
)
def test_nothing_is_evaluated(text: str) -> None:
    """The reader of Python values knows literals and constructor reprs only: code is refused, or read as names."""
    try:
        found = python_literal(text)
    except NotALiteral:
        return
    assert isinstance(found, dict | list | str)


def test_constructor_reprs_are_read_as_fields() -> None:
    """The repr of an object becomes its fields, nested ones included."""
    found = python_literal("TextPart(content='it is \\'so\\'', part_kind=Kind.TEXT, extra=Box(items=[1, None]))")
    assert found["content"] == "it is 'so'"
    assert found["extra"]["items"] == [1, None]


def test_depth_is_bounded() -> None:
    """JSON that nests deeper than any real value stays text, so that no later step recurses too deep."""
    deep = "[" * (MAX_DEPTH + 5) + "]" * (MAX_DEPTH + 5)
    shallow = "[" * MAX_DEPTH + "]" * MAX_DEPTH
    assert decode(deep) == deep
    assert depth(decode(shallow)) == MAX_DEPTH


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("__REDACTED__", Capture.REDACTED),
        (" [redacted] ", Capture.REDACTED),
        ("<elided>", Capture.REDACTED),
        ("<truncated>", Capture.TRUNCATED),
        ("the line was [redacted] by legal", None),
        ("", None),
        (None, None),
        ({"a": 1}, None),
    ],
)
def test_markers_are_no_content(given: Any, expected: Capture | None) -> None:
    """A redaction marker is told from content, and content that mentions one is content."""
    assert withheld(given) is expected


def test_a_cut_value_is_told_from_text() -> None:
    """Text that begins as a JSON list of objects and does not parse was cut; a sentence in brackets was not."""
    assert looks_cut(decode('[{"role": "user", "parts": [{"type": "te'))
    assert not looks_cut(decode("[see note] closed"))
    assert not looks_cut(decode('[{"role": "user"}]'))


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (3, 3),
        ("3", 3),
        (3.0, 3),
        ("3.0", 3),
        (-1, None),
        (True, None),
        (float("nan"), None),
        ("x", None),
        (2**60, None),
    ],
)
def test_counts(given: Any, expected: int | None) -> None:
    """A count of tokens is a whole number that is not negative, also where it was sent as text."""
    assert number_of(given) == expected
