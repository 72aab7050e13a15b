"""The rules of settling as a table: contract section 3, `settled_by`."""

from __future__ import annotations

import pytest

from monitor.intake.settling import Due, SettlingRules, SpanHead, TraceState, due, is_complete
from monitor.model.invocation import SettledBy

RULES = SettlingRules(settle_after=30.0, idle_timeout=900.0, max_age=21600.0, max_spans=100)
OPEN = TraceState(first_received=1000.0, last_received=1100.0, span_count=3, complete=False)
COMPLETE = OPEN._replace(complete=True)

CASES = [
    ("root ended, then quiet", COMPLETE, 0.0, Due(1130.0, SettledBy.ROOT_ENDED)),
    ("an open or missing root waits for silence", OPEN, 0.0, Due(2000.0, SettledBy.IDLE)),
    ("an end marker needs no silence", OPEN._replace(end_marker=True), 0.0, Due(1100.0, SettledBy.END_MARKER)),
    ("an end marker is stronger than an ended root", COMPLETE._replace(end_marker=True), 0.0, Due(1100.0, SettledBy.END_MARKER)),
    ("chatty for too long", OPEN._replace(last_received=22500.0), 0.0, Due(22600.0, SettledBy.MAX_AGE)),
    ("chatty for too long, root ended", COMPLETE._replace(last_received=22590.0), 0.0, Due(22600.0, SettledBy.MAX_AGE)),
    ("quiet just before it is too old", COMPLETE._replace(last_received=22560.0), 0.0, Due(22590.0, SettledBy.ROOT_ENDED)),
    ("both at once", COMPLETE._replace(last_received=22570.0), 0.0, Due(22600.0, SettledBy.ROOT_ENDED)),
    ("too many spans", OPEN._replace(span_count=101), 0.0, Due(1100.0, SettledBy.MAX_AGE)),
    ("as many spans as allowed", COMPLETE._replace(span_count=100), 0.0, Due(1130.0, SettledBy.ROOT_ENDED)),
    ("late data of a settled trace needs no root", OPEN._replace(settled_before=True), 0.0, Due(1130.0, SettledBy.IDLE)),
    ("silence counts from listening", COMPLETE, 5000.0, Due(5030.0, SettledBy.ROOT_ENDED)),
    ("idle silence counts from listening", OPEN, 5000.0, Due(5900.0, SettledBy.IDLE)),
    ("an end marker waits until we listen", OPEN._replace(end_marker=True), 5000.0, Due(5000.0, SettledBy.END_MARKER)),
    ("too old while we were away: the rest may still come", OPEN, 50000.0, Due(50030.0, SettledBy.MAX_AGE)),
    ("too old while we were away, but complete", COMPLETE, 50000.0, Due(50030.0, SettledBy.ROOT_ENDED)),
]  # fmt: skip


@pytest.mark.parametrize(("state", "listening_since", "expected"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_when_and_by_what_a_trace_settles(state: TraceState, listening_since: float, expected: Due) -> None:
    """Each rule gives its moment; of two the earlier one holds, and root_ended where both fall together."""
    assert due(state, RULES, listening_since) == expected


ROOT, A, B, GONE, NONE = b"root....", b"a.......", b"b.......", b"gone....", bytes(8)


@pytest.mark.parametrize(
    ("heads", "complete"),
    [
        ([SpanHead(ROOT, NONE, True)], True),
        ([SpanHead(ROOT, NONE, False)], False),
        ([SpanHead(ROOT, NONE, False), SpanHead(ROOT, NONE, True)], True),
        ([SpanHead(ROOT, NONE, True), SpanHead(ROOT, NONE, False)], True),
        ([SpanHead(A, ROOT, True), SpanHead(ROOT, NONE, True)], True),
        ([SpanHead(A, ROOT, False), SpanHead(ROOT, NONE, True)], False),
        ([SpanHead(A, ROOT, True)], False),
        ([SpanHead(A, GONE, True), SpanHead(ROOT, NONE, True)], False),
        ([SpanHead(ROOT, NONE, True), SpanHead(B, A, True), SpanHead(A, ROOT, True)], True),
        ([SpanHead(A, B, True), SpanHead(B, A, True)], False),
        ([], False),
    ],
)
def test_a_trace_is_complete_when_root_and_known_spans_have_ended(heads: list[SpanHead], complete: bool) -> None:
    """A missing parent, an open span or no root at all: not complete. The ended copy of a span is enough."""
    assert is_complete(heads) is complete
