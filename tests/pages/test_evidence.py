"""Quotations are found where they stand, also when a judge has changed blanks and case."""

from __future__ import annotations

import pytest

from monitor.server.pages.evidence import Quotation, find_quotations

TEXTS = {
    "user_input": "A table for NINE,\n  please.",
    "tool_calls[0].result": '{\n  "free": true,\n  "seats": 9\n}',
    "answer": "Stra\u00dfe booked: 19:00.",
}


@pytest.mark.parametrize(
    ("quote", "where"),
    [
        ("A table for nine, please.", [("user_input", TEXTS["user_input"])]),
        ('"table for NINE"', [("user_input", "table for NINE")]),
        ('{"free":true,"seats":9}', [("tool_calls[0].result", TEXTS["tool_calls[0].result"])]),
        ('"seats": 9', [("tool_calls[0].result", '"seats": 9')]),
        ("STRASSE booked", [("answer", "Stra\u00dfe booked")]),
        ("A table \u2026 booked: 19:00", [("user_input", "A table"), ("answer", "booked: 19:00")]),
        ("never said", []),
        ("9", []),
        ("", []),
    ],
)
def test_quotations(quote: str, where: list[tuple[str, str]]) -> None:
    """Each is marked in the first text that holds it; pieces around a gap one by one; what is not there, or too short, nowhere."""
    found = find_quotations(TEXTS, [Quotation(quote, "e0", "short")])
    assert [(path, TEXTS[path][mark.start : mark.end]) for path, marks in found.items() for mark in marks] == where


def test_large_texts() -> None:
    """Of a very long text only the beginning is searched."""
    text = "x " * 1_000_000 + "the end of it"
    assert find_quotations({"a": text}, [Quotation("the end of it", "e0", "")]) == {}
