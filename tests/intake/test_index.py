"""The index of open traces: its size, when it looks at traces, and what it keeps of the journal."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collectors.otlp.request import Item
from collectors.sink import Signal
from monitor.intake.index import Arrival, Index
from monitor.intake.opentrace import Row
from monitor.intake.settling import SettlingRules
from monitor.model.origin import of_backfill
from monitor.model.run import JournalPosition
from tests.intake.traffic import span_id, trace_id


def arrival(
    *names: str, at: float = 1000.0, position: tuple[int, int] = (1, 0), collector: str = "otlp", **item: object
) -> Arrival:
    """A frame with one root span per trace name."""
    items = [
        (n, Item(trace_id(name), span_id(name), b"", 1, 2, **item))  # type: ignore[arg-type]
        for n, name in enumerate(names)
    ]
    return Arrival(JournalPosition(*position), Signal.TRACES, collector, at, 1.0, items)


@pytest.fixture
def index() -> Index:
    return Index(SettlingRules())


def taken_names(index: Index, now: float, names: list[str], limit: int = 1000) -> set[str]:
    taken = index.take_due(now, 0.0, limit).taken
    index.finish(taken)
    return {name for name in names if trace_id(name) in {one.trace_id for one in taken}}


def many(traces: int) -> Iterator[Arrival]:
    """Frames of 32 spans: eight traces with four spans each, every trace in two frames."""
    for group in range(traces // 8):
        for part in range(2):
            items = [
                (
                    n,
                    Item(
                        (group * 8 + n // 4).to_bytes(16, "big"),
                        (part * 32 + n + 1).to_bytes(8, "big"),
                        b"parent..",
                        1,
                        2,
                    ),
                )
                for n in range(32)
            ]
            yield Arrival(JournalPosition(1_700_000_000, group), Signal.TRACES, "otlp", 1000.0 + group, 1.0, items)


def test_an_open_trace_of_eight_spans_takes_less_than_a_kilobyte(index: Index) -> None:
    """Ids, times and places of 8,000 traces of 8 spans: below 1 kB of memory each."""
    gc.collect()
    tracemalloc.start()
    try:
        for one in many(8000):
            index.note(one)
        del one
        gc.collect()
        used, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert index.open_items == 64_000
    assert used / 8000 < 1000


def test_traces_are_taken_when_due_and_only_once(index: Index) -> None:
    """A trace is taken at settle_after, not before; once taken it is not taken again."""
    index.note(arrival("a", "b"))
    index.note(arrival("b", at=1010.0, position=(1, 500)))
    assert taken_names(index, 1029.9, ["a", "b"]) == set()
    assert taken_names(index, 1030.0, ["a", "b"]) == {"a"}
    assert taken_names(index, 1040.0, ["a", "b"]) == {"b"}
    assert index.take_due(99999.0, 0.0, 10).taken == ()
    assert index.open_items == 0


def test_no_more_are_taken_than_asked_for(index: Index) -> None:
    """The limit holds, and `more` says that others are due."""
    names = [f"t{n}" for n in range(25)]
    index.note(arrival(*names))
    first = index.take_due(2000.0, 0.0, 10)
    assert (len(first.taken), first.more) == (10, True)
    assert (len(index.take_due(2000.0, 0.0, 10).taken), len(index.take_due(2000.0, 0.0, 10).taken)) == (10, 5)


def test_an_incomplete_trace_is_reported_for_one_lookup(index: Index) -> None:
    """A quiet incomplete trace is asked about once; if the store knows it, it is due, else it waits for silence."""
    index.note(arrival("known", "new", at=1000.0, end_marker=False))
    for name in ("known", "new"):
        child = Item(trace_id(name), span_id(name + "x"), b"missing.", 1, 2)
        index.note(Arrival(JournalPosition(1, 9), Signal.TRACES, "otlp", 1000.0, 1.0, [(0, child)]))
    unknown = index.take_due(1030.0, 0.0, 10).unknown
    assert set(unknown) == {trace_id("known"), trace_id("new")}
    index.mark(unknown, {trace_id("known")}, 1030.0)
    again = index.take_due(1030.0, 0.0, 10)
    assert [one.trace_id for one in again.taken] == [trace_id("known")]
    assert again.unknown == ()
    assert index.take_due(1899.0, 0.0, 10).taken == ()
    assert [one.trace_id for one in index.take_due(1900.0, 0.0, 10).taken] == [trace_id("new")]


def test_given_back_traces_are_joined_with_what_came_meanwhile(index: Index) -> None:
    """A trace that could not be stored is open again, with all of its items, and its segments are needed all the while."""
    index.note(arrival("a", position=(1, 0)))
    taken = index.take_due(1030.0, 0.0, 10).taken
    assert index.live_segments == {1}
    index.note(arrival("a", at=1031.0, position=(2, 0)))
    index.give_back(taken, 1040.0)
    assert index.live_segments == {1, 2}
    assert index.take_due(1060.0, 0.0, 10).taken == ()
    [again] = index.take_due(1061.0, 0.0, 10).taken
    assert again.trace.segments == [(1, 1), (2, 1)]
    index.finish([again])
    assert index.live_segments == set()
    assert index.open_items == 0
    assert index.open_traces["otlp"] == 0


def test_what_came_before_a_trace_was_held_is_not_forgotten(index: Index) -> None:
    """More of a trace came while it was decided that it waits: it is due when that has been quiet, not when the waiting ends."""
    index.note(arrival("a"))
    [taken] = index.take_due(1030.0, 0.0, 10).taken
    index.note(arrival("a", at=1031.0, position=(2, 0)))
    index.hold(taken, 1900.0)
    assert index.take_due(1060.0, 0.0, 10).taken == ()
    [again] = index.take_due(1061.0, 0.0, 10).taken
    assert again.trace.item_count == 2


def test_what_is_delivered_while_a_backfill_waits_for_the_store_is_live(index: Index) -> None:
    """A trace that was read again and given back is live as soon as its collector delivers it, whenever that was."""
    origin = of_backfill("otlp", "b")
    index.note(arrival("a", collector=origin))
    taken = index.take_due(1030.0, 0.0, 10).taken
    index.note(arrival("a", at=1031.0, position=(2, 0)))
    index.give_back(taken, 1040.0)
    assert (index.unsettled(origin), index.unsettled("otlp")) == (0, 1)
    [again] = index.take_due(1061.0, 0.0, 10).taken
    assert again.trace.collector == "otlp"
    index.note(arrival("a", at=1062.0, position=(3, 0), collector=origin))
    index.give_back([again], 1063.0)
    assert (index.unsettled(origin), index.unsettled("otlp")) == (0, 1)


def test_other_rules_hold_for_open_traces(index: Index) -> None:
    """After a reload with a shorter settle_after an open trace settles by the new rule."""
    index.note(arrival("a"))
    index.configure(SettlingRules(settle_after=5.0), 1002.0)
    assert taken_names(index, 1005.0, ["a"]) == {"a"}


def test_the_oldest_trace_of_each_collector_tells_the_lag(index: Index) -> None:
    """By collector: when the trace that is open longest last got data."""
    index.note(arrival("a", at=1000.0))
    index.note(arrival("b", at=1005.0, collector="tempo/prod"))
    index.note(arrival("c", at=1007.0))
    index.note(arrival("a", at=1009.0))
    assert index.last_data_of_oldest() == {"otlp": 1009.0, "tempo/prod": 1005.0}
    assert index.open_traces == {"otlp": 2, "tempo/prod": 1}


SPANS = st.tuples(st.integers(0, 2), st.integers(1, 9), st.integers(0, 9), st.sampled_from((0, 5)))
FRAMES = st.lists(st.tuples(st.lists(SPANS, min_size=1, max_size=6), st.booleans()), min_size=1, max_size=5)


@given(FRAMES, st.sets(st.integers(0, 8)))
@settings(max_examples=60, deadline=None)
def test_items_are_kept_as_they_came(
    frames: list[tuple[list[tuple[int, int, int, int]], bool]], some: set[int]
) -> None:
    """Frames in which traces lie across each other, spans and log records: ids, times, flags and places of each item, also of a part of them."""
    index = Index(SettlingRules())
    rows: dict[bytes, list[Row]] = {}
    places: dict[bytes, dict[JournalPosition, list[int]]] = {}
    for number, (spans, is_log) in enumerate(frames):
        items, at = [], JournalPosition(1 + number // 2, 100 * number)
        for ordinal, (trace, span, parent, end) in enumerate(spans):
            name, own = bytes([trace]) * 16, bytes([span]) * 8
            items.append((ordinal, Item(name, own, bytes([parent]) * 8 if parent else b"", 1, end)))
            known = rows.setdefault(name, [])
            known.append(Row(len(known), own, bytes([parent]) * 8, 1001 + number, not is_log and end > 0, is_log))
            places.setdefault(name, {}).setdefault(at, []).append(ordinal)
        index.note(Arrival(at, Signal.LOGS if is_log else Signal.TRACES, "otlp", 1000.5 + number, 1.0, items))
    for name, expected in rows.items():
        trace = index.copy(name)
        assert trace is not None
        assert trace.rows() == (expected, set())
        assert trace.frames() == places[name]
        assert trace.has_logs is any(row.log for row in expected)
        assert sum(count for _, count in trace.segments) == trace.item_count == len(expected)
        first = next(iter(places[name]))
        assert trace.first_place == (first.segment, first.offset, places[name][first][0])
        chosen = [row for row in expected if row.place in some]
        part = trace.only([row.place for row in chosen])
        assert [row[1:] for row in part.rows()[0]] == [row[1:] for row in chosen]
        assert part.item_count == sum(len(ordinals) for ordinals in part.frames().values()) == len(chosen)
        trace.mark_stored([row.place for row in chosen], stored=True)
        assert trace.rows() == ([row for row in expected if row not in chosen], {row.span_id for row in chosen})
