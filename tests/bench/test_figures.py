"""The benchmarks' own parts that could lie: what is sent, and what is made of what was measured."""

from __future__ import annotations

from bench.compare_rows import evaluated
from bench.measured import table
from bench.traffic import SPANS, templates
from collectors.otlp.request import decode, from_json, split
from collectors.sink import Signal


def test_a_template_is_a_request_of_whole_invocations_with_trace_ids_of_its_own() -> None:
    """In both encodings every invocation has eight valid spans of one trace, with a root and content; no two sendings share a trace."""
    for as_json in (False, True):
        (template,) = templates(1, invocations=3, as_json=as_json)
        bodies = [template.body(number.to_bytes(8, "big")) for number in (1, 2)]
        if as_json:
            bodies = [from_json(body, Signal.TRACES).body for body in bodies]
        items = [item for body in bodies for item in split(body, Signal.TRACES).items]
        assert all(item.valid for item in items)
        assert len(items) == template.spans * 2 == 2 * 3 * SPANS
        assert len({item.trace_id for item in items}) == 6
        assert len({(item.trace_id, item.span_id) for item in items}) == len(items)
        assert sum(item.parent_span_id == b"" for item in items) == 6
        spans = decode(bodies[0], Signal.TRACES).spans
        assert sum("gen_ai.output.messages" in span.attributes for span in spans) == 3 * 4


def test_rows_are_paired_by_round_and_say_which_bar_they_reached() -> None:
    """A ratio is taken within each round, its median is held against the bars, and rows that were not measured are left out."""
    measured = {
        "target-http stored/s": [3000.0, 100.0, 4000.0],
        "phoenix-http stored/s": [10.0, 10.0, 20.0],
        "scrape stall ms": [60.0],
    }
    rows = {row["figure"]: row for row in evaluated(measured)}
    assert len(rows) == 2
    stored = rows["stored spans/s against Phoenix, HTTP"]
    assert (stored["median"], stored["reached"], stored["rounds"]) == ("200 (10 to 300)", "must", 3)
    (stall,) = [row for row in rows.values() if row["row"] == "9"]
    assert stall["reached"] == "MISSED"


def test_tables_line_up() -> None:
    """Numbers are short, what is not known is a dash, and every line is as long as the first."""
    lines = table([{"a": 1234567, "b": None}, {"a": 0.12345, "b": "x"}]).splitlines()
    assert [len(line) for line in lines] == [len(lines[0])] * 4
    assert lines[2].split() == ["|", "1,234,567", "|", "-", "|"]
    assert lines[3].split() == ["|", "0.123", "|", "x", "|"]
