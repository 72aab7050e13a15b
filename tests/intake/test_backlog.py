"""More waits than is to be open in memory: the rest is parked in the journal and read on, and nothing else changes."""

from __future__ import annotations

import gc
import random
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from collectors.otlp.request import Item
from collectors.sink import Overloaded, Signal
from monitor.intake import reading_on
from monitor.intake.compaction import rewrite_survivors
from monitor.intake.index import Arrival, Index
from monitor.intake.seen import Seen
from monitor.intake.segment import list_segments
from monitor.intake.settling import SettlingRules
from monitor.intake.sink import EarlyDrop
from monitor.model.run import JournalPosition
from monitor.sampling import sampling_number
from tests.intake.desk import Desk
from tests.intake.traffic import agent, log, logs, run, span_id, tool, trace_id, traces

ITEM = Item(trace_id("t"), span_id("s"), b"", 1, 2)
OpenDesk = Callable[..., Desk]
FEW = 5
"""Fewer items than one open trace counts as."""

Step = tuple[str, int]
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("send"), st.integers(0, 200)),
        st.tuples(st.just("send"), st.integers(0, 200)),
        st.tuples(st.just("wait"), st.sampled_from((1, 12, 31, 65, 950))),
        st.tuples(st.just("step"), st.just(0)),
        st.tuples(st.just("restart"), st.integers(0, 40)),
        st.tuples(st.just("rotate"), st.just(0)),
    ),
    min_size=4,
    max_size=24,
)


def sent(number: int) -> tuple[bytes, Signal]:
    """One of many requests: parts of ten runs, two at a time, so that they come in any order, twice, and late; or log records."""
    name, other = f"t{number % 10}", f"t{(number + 3) % 10}"
    parts = (
        [tool(name)],
        [tool(name, 2), agent(name)],
        [agent(name), tool(other)],
        [tool(name), tool(other, 2), tool(name, 3)],
    )
    if number % 7 == 6:
        return logs(log(name, f"{name}.root")), Signal.LOGS
    return traces(*parts[number // 10 % 4]), Signal.TRACES


def end_state(desk: Desk, steps: list[Step]) -> tuple[dict[str, object], dict[str, int]]:
    """What is stored of each run when all has settled, and how many spans and log records each trace was settled with."""
    for what, value in steps:
        if what == "send":
            body, signal = sent(value)
            desk.send(body, signal)
        elif what == "wait":
            desk.wait(float(value))
        elif what == "step":
            desk.step()
        elif what == "rotate":
            desk.journal.rotate().result(10)
        else:
            desk.clock.advance(float(value))
            desk.restart()
    for _ in range(40):
        desk.wait(200.0)
    assert (desk.index.open_items, desk.index.parked, desk.index.live_segments) == (0, None, set())
    stored = {}
    spans: dict[str, int] = {}
    for number in range(10):
        for one in desk.stored(f"t{number}"):
            found = one.invocation
            calls = sorted(str((call.name, call.arguments, call.result)) for call in found.tool_calls)
            stored[found.id] = (found.user_input, found.final_response, calls, len(one.span_ids))
    for settlement in desk.store.saved:
        spans[settlement.trace_id] = spans.get(settlement.trace_id, 0) + settlement.span_count
    return stored, spans


@given(STEPS, st.sampled_from((FEW, 60)))
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_tiny_memory_stores_the_same(tmp_path_factory: pytest.TempPathFactory, steps: list[Step], room: int) -> None:
    """Any order of parts, copies, late data, log records, waiting, rotations and restarts: the same runs as with room for all."""
    folder = tmp_path_factory.mktemp("backlog")
    found = []
    for name, most in (("all", None), ("few", room)):
        desk = Desk(folder / name, max_indexed=most)
        try:
            found.append(end_state(desk, steps)[0])
        finally:
            desk.journal.close()
    assert found[0] == found[1]


@pytest.fixture
def small(open_desk: OpenDesk) -> Desk:
    """A desk with room for one open trace."""
    return open_desk(max_indexed=FEW)


def test_what_waits_is_counted_and_settles_when_due(small: Desk) -> None:
    """Parked spans count as open; each trace settles 30 s after its own last data, none sooner, though it was parked by then."""
    for number in range(6):
        small.send(traces(*run(f"t{number}")))
        small.clock.advance(1.0)
    assert small.index.parked is not None
    assert (small.index.open_items, small.index.open_traces["otlp"], small.index.indexed_items) == (18, 6, 3)
    assert small.index.unsettled("otlp") == 6
    assert small.wait(23.9).traces == 0
    for number in range(6):
        done = small.wait(0.1 if not number else 1.0)
        assert (done.traces, done.spans) == (1, 3), number
    assert small.index.parked is None
    assert {one.settled_by for one in small.store.saved} == {"root_ended"}


def test_a_trace_does_not_settle_before_what_is_parked_of_it_is_read(small: Desk) -> None:
    """More of a trace came in time and is parked behind another: settling waits for it, however late the step is."""
    small.send(traces(tool("t"), agent("t")))
    small.clock.advance(29.0)
    small.send(traces(tool("t", 2)))
    small.clock.advance(500.0)
    done = small.step()
    assert (done.traces, done.spans, done.late) == (1, 3, 0)
    assert len(small.stored("t")[0].invocation.tool_calls) == 2


def test_a_trace_larger_than_memory_settles(small: Desk) -> None:
    """Nothing is due until all of it is read: it is."""
    for number in range(1, 40):
        small.send(traces(tool("t", number)))
    small.send(traces(agent("t")))
    done = small.wait(30.0)
    assert (done.traces, done.spans) == (1, 40)


def test_memory_does_not_grow_while_nothing_is_due(small: Desk) -> None:
    """As long as nothing of it can be due the backlog stays in the journal."""
    for number in range(50):
        small.send(traces(*run(f"t{number}")))
        small.wait(0.5)
    assert small.index.indexed_items == 3
    assert small.index.open_items == 150


def test_senders_are_told_when_too_much_waits(small: Desk) -> None:
    """Parked spans count against `max_open_spans`; what has settled makes room."""
    small.index.max_open_items = 100
    taken = 0
    with pytest.raises(Overloaded, match="wait to settle"):
        for taken in range(100):
            small.send(traces(*run(f"t{taken % 3}")))
    assert 20 < taken < 40
    small.wait(31.0)
    small.send(traces(*run("other")))


def test_a_lower_rate_cuts_no_parked_trace(small: Desk) -> None:
    """A trace that has begun is kept whole when a reload lowers the rate, also while it is parked; of new ones none that is not drawn is."""
    old = [f"old{number}" for number in range(40)]
    for name in old:
        small.send(traces(tool(name)))
    small.intake.early_drop = EarlyDrop(0.2)
    new = [f"new{number}" for number in range(40)]
    for name in [*old, *new]:
        small.send(traces(agent(name)))
    small.wait(31.0)
    counts = {one.trace_id: (one.span_count, one.kept_below) for one in small.store.saved}
    assert all(counts[trace_id(name).hex()] == (2, 1.0) for name in old)
    drawn = {trace_id(name).hex() for name in new if sampling_number(trace_id(name).hex()) < 0.2}
    assert counts.keys() - {trace_id(name).hex() for name in old} == drawn
    assert all(counts[trace] == (1, 0.2) for trace in drawn)


def undrawn(begins: str, rate: float) -> str:
    """The name of a trace that is not kept at a rate."""
    return next(f"{begins}{n}" for n in range(99) if sampling_number(trace_id(f"{begins}{n}").hex()) >= rate)


@pytest.mark.parametrize("before", [None, 0.2])
def test_a_lower_rate_after_a_restart_cuts_no_trace(small: Desk, before: float | None) -> None:
    """Traces that an earlier process took at a higher rate, and that are unread, are kept whole; new ones are not."""
    small.drop(before)
    names = [f"n{number}" for number in range(40)]
    for name in names:
        small.send(traces(tool(name)))
    small.rate = 0.2
    small.restart()
    assert small.index.unread is not None
    assert small.index.unsettled("any") == 1
    for name in [*names, undrawn("fresh", 0.2)]:
        small.send(traces(agent(name)))
    small.wait(31.0)
    assert small.index.unread is None
    assert small.index.unsettled("any") == 0
    kept = [name for name in names if sampling_number(trace_id(name).hex()) < (before or 1.0)]
    found = {one.trace_id: (one.span_count, one.kept_below) for one in small.store.saved}
    assert found == {trace_id(name).hex(): (2, before or 1.0) for name in kept}


def test_a_rate_that_is_lowered_while_a_part_is_unread_waits(small: Desk) -> None:
    """Which traces are open in what an earlier process left nobody knows, so the rate holds once that is read."""
    names = [f"n{number}" for number in range(10)]
    for name in names:
        small.send(traces(tool(name)))
    small.restart()
    small.drop(0.2)
    one, other = undrawn("one", 0.2), undrawn("other", 0.2)
    for name in [*names, one]:
        small.send(traces(agent(name)))
    small.wait(31.0)
    small.send(traces(agent(other)))
    small.wait(31.0)
    found = {one.trace_id: (one.span_count, one.kept_below) for one in small.store.saved}
    assert found == {trace_id(name).hex(): (2, 1.0) for name in names} | {trace_id(one).hex(): (1, 1.0)}


@given(
    st.lists(
        st.one_of(
            st.integers(0, 19), st.integers(0, 19), st.sampled_from(("lower", "restart", "restart, lower", "step"))
        ),
        max_size=50,
    )
)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_trace_is_cut_in_any_order(tmp_path_factory: pytest.TempPathFactory, steps: list[int | str]) -> None:
    """Rates that fall and restarts between the parts of twenty traces: each is stored whole or not at all, and whole if it was drawn when it began."""
    desk = Desk(tmp_path_factory.mktemp("rates"), max_indexed=60)
    desk.rules, rate = SettlingRules(settle_after=600.0, idle_timeout=600.0), 1.0
    desk.restart()
    sent: dict[str, int] = {}
    drawn: set[str] = set()
    try:
        for step in steps:
            if isinstance(step, int):
                name = f"n{step}"
                if name not in sent and sampling_number(trace_id(name).hex()) < rate:
                    drawn.add(name)
                sent[name] = sent.get(name, 0) + 1
                desk.send(traces(tool(name, sent[name])))
            elif step == "step":
                desk.wait(1.0)
            else:
                rate = rate * 0.6 if "lower" in step else rate
                if "restart" in step:
                    desk.rate = rate
                    desk.restart()
                else:
                    desk.drop(rate)
        for _ in range(4):
            desk.wait(601.0)
        found = {one.trace_id: one.span_count for one in desk.store.saved}
        assert len(found) == len(desk.store.saved)
        assert all(found.get(trace_id(name).hex(), 0) in (0, count) for name, count in sent.items())
        assert all(trace_id(name).hex() in found for name in drawn)
    finally:
        desk.journal.close()


def test_open_traces_are_preferred_though_they_are_parked(small: Desk) -> None:
    """Where little room is left a request that goes on with parked traces is taken, and one that begins others is not."""
    names = [f"t{number}" for number in range(30)]
    for name in names:
        small.send(traces(tool(name)))
    small.index.max_open_items = 48
    small.send(traces(agent(names[20])))
    with pytest.raises(Overloaded, match="little room"):
        small.send(traces(agent("fresh")))


def test_a_start_reads_no_more_than_has_room(small: Desk) -> None:
    """What an earlier process left is read on as room comes; what it had settled is left out, and its open traces end up whole."""
    for number in range(12):
        small.send(traces(*run(f"done{number}"), tool(f"t{number}")))
    small.wait(31.0)
    assert len(small.store.saved) == 12
    small.restart()
    assert 0 < small.index.indexed_items < 12 <= small.index.open_items + 11
    for number in range(12):
        small.send(traces(agent(f"t{number}")))
    small.journal.rotate().result(10)
    small.wait(31.0)
    assert len(small.store.saved) == 24
    assert {one.span_count for one in small.store.saved[12:]} == {2}
    assert list(small.journal.segments()) == [small.journal.active]


def test_a_start_does_not_wait_for_a_large_journal(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anything is accepted so many bytes are read; the settler reads the rest, though there is room and nothing is due."""
    monkeypatch.setattr(reading_on, "READ_AT_START", 1000)
    monkeypatch.setattr(reading_on, "ITEMS_AT_ONCE", 2)
    for number in range(20):
        desk.send(traces(*run(f"t{number}")))
    desk.restart()
    assert desk.index.indexed_items == 6
    assert 50 < desk.replayed < 70
    desk.step()
    assert (desk.index.indexed_items, desk.index.parked) == (60, None)
    assert desk.wait(30.0).traces == 20


def test_what_was_quiet_before_a_restart_settles_while_the_rest_is_read(small: Desk) -> None:
    """An hour of traffic that an earlier process left settles by its own times, a few traces in memory at a time."""
    for number in range(300):
        small.send(traces(*run(f"t{number}")))
        small.clock.advance(2.0)
    small.restart()
    most, more = 0, True
    while more:
        more = small.settler.step(small.steady.now()).more
        most = max(most, small.index.indexed_items)
    assert most < 60
    assert len(small.store.saved) > 270
    small.wait(31.0)
    assert {one.span_count for one in small.store.saved} == {3}
    assert len(small.store.saved) == 300


def test_silence_in_which_nobody_listened_counts_for_nothing(small: Desk) -> None:
    """A process was down for an hour and the sender delivered after that: no trace is cut by what lies in between, once that is read."""
    small.send(traces(tool("t"), agent("t")))
    small.clock.advance(3600.0)
    small.restart()
    small.send(traces(tool("t", 2)))
    for number in range(50):
        small.send(traces(agent(f"other{number}")))
        small.clock.advance(1.0)
    small.restart()
    small.wait(31.0)
    assert {one.trace_id: one.span_count for one in small.store.saved}[trace_id("t").hex()] == 3


@pytest.mark.parametrize("damaged", [5, 9])
def test_a_parked_frame_that_rots_costs_its_items(small: Desk, damaged: int) -> None:
    """It is counted and passed over, also where it is the last one; what follows is read."""
    for number in range(10):
        small.send(traces(*run(f"t{number}")))
    path = list_segments(small.journal.folder)[-1].path
    raw = bytearray(path.read_bytes())
    places = [at for at in range(len(raw)) if raw[at : at + 5] == b"tool1"]
    raw[places[damaged]] ^= 0x20
    path.write_bytes(raw)
    assert small.wait(31.0).traces == 9
    small.send(traces(*run("after")))
    assert small.wait(31.0).traces == 1
    assert (small.index.open_items, small.index.parked) == (0, None)


def test_a_store_that_cannot_be_asked_loses_nothing(small: Desk) -> None:
    """Reading on is tried again; meanwhile what waits stays in the journal."""
    for number in range(5):
        small.send(traces(*run(f"t{number}")))
    small.restart()
    small.store.fault = OSError("gone")
    small.wait(31.0)
    small.store.fault = None
    small.wait(1.0)
    small.wait(31.0)
    assert sorted(one.span_count for one in small.store.saved) == [3] * 5


def test_nothing_is_moved_past_what_is_parked(small: Desk) -> None:
    """A segment is not rewritten while frames wait; when they are read it can be."""
    small.send(traces(tool("long"), *run("t")))
    old = small.journal.active
    small.journal.rotate().result(10)
    small.send(traces(*run("other")))
    assert not rewrite_survivors(small.journal, small.index, old)
    assert small.index.live_segments == {old, small.journal.active}
    small.wait(31.0)
    assert rewrite_survivors(small.journal, small.index, old)
    small.send(traces(agent("long")))
    small.wait(31.0)
    assert {one.trace_id: one.span_count for one in small.store.saved}[trace_id("long").hex()] == 2


def test_senders_and_reading_on_at_once(open_desk: OpenDesk) -> None:
    """While eight senders deliver, the settler reads on and catches up many times: every span is indexed once."""
    desk = open_desk(max_indexed=100)
    desk.rules = SettlingRules(settle_after=0.5)
    desk.restart()
    done = threading.Event()
    caught_up = 0

    def send(number: int) -> None:
        desk.send(traces(*run(f"t{number % 50}", 3)[number // 50 :: 2]))

    def settle() -> None:
        nonlocal caught_up
        parked = False
        while not done.is_set():
            desk.clock.advance(0.001)
            desk.settler.step(desk.steady.now())
            caught_up += parked and desk.index.parked is None
            parked = desk.index.parked is not None

    settler = threading.Thread(target=settle)
    settler.start()
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(send, range(100)))
    done.set()
    settler.join()
    desk.wait(1000.0)
    desk.wait(1000.0)
    assert sum(one.span_count for one in desk.store.saved) == 200
    assert desk.count("duplicate_spans_total") == 0
    assert desk.index.open_items == 0


def test_a_million_parked_spans_take_no_memory() -> None:
    """Nothing but the fixed filter of trace ids: 8 MB at most, and none of it more for the second half."""
    index = Index(SettlingRules(), max_open_items=10**9, max_indexed=100)
    items = [(n, ITEM._replace(trace_id=bytes([n // 64]) * 16)) for n in range(512)]

    def note(frames: range) -> int:
        for number in frames:
            index.note(Arrival(JournalPosition(1, 100 + number), Signal.TRACES, "otlp", 1000.0, 1.0, items))
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        half, whole = note(range(1000)), note(range(1000, 2000))
    finally:
        tracemalloc.stop()
    assert index.open_items > 1_000_000
    assert half < 9e6
    assert whole - half < 1e5


def test_the_filter_knows_what_is_in_it() -> None:
    """Every id is known as long as it is in it, as often as it was added; of others hardly any seems to be; a full counter only ever says yes."""
    seen, draw = Seen(), random.Random(3)
    ids, others = [draw.randbytes(16) for _ in range(3000)], [draw.randbytes(16) for _ in range(3000)]
    seen.add([*ids, ids[0]])
    assert all(one in seen for one in ids)
    assert sum(one in seen for one in others) < 3
    seen.remove(ids)
    assert sum(one in seen for one in ids) < 3
    assert ids[0] in seen
    seen.add(ids[1:2] * 300)
    seen.remove(ids[1:2] * 300)
    assert ids[1] in seen


def rates(desk: Desk) -> Iterator[float]:
    """The rate of each frame in turn, by ever shorter stretches of the journal."""
    frames = list(desk.journal.frames(JournalPosition(0, 0), JournalPosition(2**40, 0)))
    for frame in frames:
        yield desk.journal.highest_rate(frame.position, frames[-1].position)


def test_the_highest_rate_of_a_stretch_is_read_from_headers(desk: Desk) -> None:
    """Of all frames in it; where a header cannot be read nobody can tell, so it may have been 1."""
    for rate in (0.9, 0.5, 0.7, 0.1):
        desk.intake.early_drop = EarlyDrop(rate)
        desk.clock.advance(10_000.0)
        desk.send(traces(agent(next(f"n{n}" for n in range(99) if sampling_number(trace_id(f"n{n}").hex()) < rate))))
    assert list(rates(desk)) == [0.9, 0.7, 0.7, 0.1]
    path = list_segments(desk.journal.folder)[-1].path
    raw = bytearray(path.read_bytes())
    raw[raw.rindex(b"RJF") + 20] ^= 1
    path.write_bytes(raw)
    assert desk.journal.highest_rate(JournalPosition(0, 0), JournalPosition(2**40, 0)) == 1.0
