"""The rules of polling, each a function of its arguments: windows, watching, pauses, lag, clocks."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from email.utils import formatdate

import pytest

from collectors.polling.backoff import delay_seconds
from collectors.polling.content import trace_content
from collectors.polling.faults import FaultKind, SourceFault
from collectors.polling.lag import AdaptiveLag
from collectors.polling.searching import search_all
from collectors.polling.skew import ClockSkew
from collectors.polling.source import Fetched, Found, Hit
from collectors.polling.timeline import Timeline, Window
from collectors.polling.watch import PARTIAL_SECONDS, Watch
from collectors.sink import MalformedRequest
from tests.intake.traffic import START, agent, run, tool, traces

T = START / 1e9


def polled(timeline: Timeline, until: float, step: float, catch_up: float = 1e9) -> list[tuple[float, Window]]:
    """Search whatever is due at each step; (when, what) of all searches."""
    now, done = timeline.head, []
    while now < until:
        now += step
        timeline.extend(now, catch_up)
        for due in list(timeline.due(now)):
            done.append((now, due.window))
            timeline.searched(due.window, now)
    return done


def test_each_moment_is_searched_again_until_it_is_older_than_the_overlap() -> None:
    """A dozen times, never with a gap of more than half its age (and an interval), the last time past the overlap."""
    searches = polled(Timeline(0.0, 1800.0, 30.0, 300.0), 5000.0, 30.0)
    moment = 1000.0
    ages = [now - moment for now, window in searches if window.start <= moment < window.end]
    assert ages[0] <= 30
    assert 8 <= len(ages) <= 16
    assert ages[-1] >= 1800
    assert all(later - earlier <= max(30, earlier * 0.5) + 90 for earlier, later in itertools.pairwise(ages))


def test_windows_cover_all_time_without_a_gap_and_are_never_too_wide() -> None:
    """First searches lie edge to edge."""
    timeline = Timeline(0.0, 600.0, 30.0, 300.0)
    edge = 0.0
    now = 0.0
    for step in (7, 30, 1000, 31, 2, 5000):
        now += step
        timeline.extend(now, 1e9)
        for due in list(timeline.due(now)):
            assert due.window.width <= 300
            if due.fresh:
                assert due.window.start == edge
                edge = due.window.end
            timeline.searched(due.window, now)
        assert edge == now == timeline.complete_until


def test_what_a_crash_left_unsearched_is_due_after_it() -> None:
    """The cursor holds what is open; a restart goes on from it."""
    timeline = Timeline(0.0, 600.0, 30.0, 300.0)
    timeline.extend(1000.0, 1e9)
    first, *others = list(timeline.due(1000.0))
    timeline.searched(first.window, 1000.0)
    again = Timeline(0.0, 600.0, 30.0, 300.0)
    again.restore(timeline.as_json())
    assert list(again.due(1000.0)) == others
    assert again.complete_until == others[0].window.start
    with pytest.raises((ValueError, KeyError, TypeError)):
        again.restore({"head": None})


def test_history_beyond_the_bound_of_catching_up_is_left_out_and_told() -> None:
    """Its length comes back, so that it can be said."""
    timeline = Timeline(0.0, 600.0, 30.0, 300.0)
    assert timeline.extend(100_000.0, 86_400.0) == 13_600.0
    assert timeline.oldest == 13_600.0
    assert timeline.extend(99_000.0, 86_400.0) == 0.0


def test_stretches_older_than_the_overlap_are_searched_once() -> None:
    """Catching up costs one search of each."""
    timeline = Timeline(0.0, 600.0, 30.0, 300.0)
    timeline.extend(10_000.0, 1e9)
    counts: Counter[Window] = Counter()
    for now in (10_000.0, 10_400.0, 11_000.0):
        for due in list(timeline.due(now)):
            counts[due.window] += 1
            timeline.searched(due.window, now)
    assert all(count == 1 for window, count in counts.items() if window.end <= 9_400)


class Store:
    """A source that gives at most `most` of so many traces, spread evenly over time or all at one moment."""

    endpoint, skew_seconds = "http://store", 0.0

    def __init__(self, times: list[float], most: int = 10**9, resolution: float = 1.0) -> None:
        self.times, self.most, self.resolution = times, most, resolution
        self.searches = 0

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    async def search(self, window: Window, limit: int) -> Found:
        self.searches += 1
        if limit > self.most:
            raise SourceFault(FaultKind.REFUSED, "limit exceeds max")
        found = [n for n, at in enumerate(self.times) if window.start <= at < window.end]
        random.Random(len(found)).shuffle(found)
        return Found(tuple(Hit(f"{n:032x}") for n in found[:limit]), len(found) >= limit)

    async def fetch(self, trace_id: str, window: Window) -> Fetched | None:
        return None


async def test_a_search_that_hits_its_limit_is_halved_until_it_is_complete() -> None:
    """All traces are found, whatever the limit."""
    times = [random.Random(5).uniform(0, 300) for _ in range(500)]
    found = await search_all(Store(times), Window(0, 300), 20)
    assert len(found.hits) == 500
    assert not found.cut


async def test_a_moment_with_more_than_the_limit_is_asked_for_more() -> None:
    """Where time cannot be halved the limit is raised."""
    found = await search_all(Store([7.2] * 300), Window(0, 300), 20)
    assert len(found.hits) == 300
    assert not found.cut


async def test_what_the_source_never_gives_at_once_is_told() -> None:
    """No silent cap: the window comes back as cut."""
    store = Store([7.2] * 300, most=100)
    found = await search_all(store, Window(0, 300), 20)
    assert 0 < len(found.hits) <= 100
    assert [window.start <= 7.2 < window.end for window in found.cut] == [True]


async def test_an_answer_that_is_too_large_is_halved_too() -> None:
    """Where a search brings whole traces, their size is the limit."""

    class Heavy(Store):
        async def search(self, window: Window, limit: int) -> Found:
            if window.width > 40:
                raise SourceFault(FaultKind.TOO_LARGE, "too large")
            return await super().search(window, limit)

    assert len((await search_all(Heavy([n / 2 for n in range(600)]), Window(0, 300), 1000)).hits) == 600


def test_the_same_spans_in_another_order_are_the_same_content() -> None:
    """Stores keep neither the order of spans nor of attributes."""
    spans = run("a", 3)
    assert trace_content(traces(*spans)).digest == trace_content(traces(*reversed(spans))).digest
    turned = [agent("a", attributes=dict(reversed(agent("a").attributes.items()))), *spans[:-1]]
    assert trace_content(traces(*spans)).digest == trace_content(traces(*turned)).digest
    assert trace_content(traces(*spans)).digest != trace_content(traces(*spans[1:])).digest
    assert trace_content(traces(*spans)).digest != trace_content(traces(*run("a", 2), tool("a", 3, end=9.0))).digest


def test_a_trace_is_whole_with_root_parents_and_ends() -> None:
    """What lacks any of them is looked at more often."""
    assert trace_content(traces(*run("a"))).whole
    assert not trace_content(traces(*run("a")[:-1])).whole
    assert not trace_content(traces(agent("a", end=None))).whole
    assert trace_content(traces(*run("a"))).newest_end == T + 4
    with pytest.raises(MalformedRequest):
        trace_content(b"\xff\xff")


def test_a_trace_is_fetched_again_with_growing_pauses_until_it_has_been_quiet() -> None:
    """A whole one a few times, and never after the settling time; a change begins anew."""
    watch, whole = Watch(1800.0, 30.0), trace_content(traces(*run("a")))
    now, fetches = T + 5, []
    assert watch.hit("a", "1", Window(T, T + 5), now)
    while now < T + 4000:
        if watch.due(now, 10):
            watch.is_news("a", whole, False, now)
            watch.fetched("a", whole, now)
            fetches.append(now)
        now += 5
    assert 3 <= len(fetches) <= 7
    assert 1800 <= fetches[-1] - T <= 1900
    assert not watch.hit("a", "1", Window(T, T + 5), now)
    assert watch.hit("a", "2", Window(T, T + 5), now)


def test_only_what_differs_from_what_was_sent_is_news() -> None:
    """The same again is not sent; nothing at all is not sent."""
    watch, whole = Watch(1800.0, 30.0), trace_content(traces(*run("a")))
    watch.hit("a", "", Window(T, T + 5), T + 5)
    assert watch.is_news("a", whole, False, T + 5)
    watch.fetched("a", whole, T + 5)
    assert not watch.is_news("a", whole, False, T + 50)
    assert watch.is_news("a", trace_content(traces(*run("a", 3))), False, T + 50)
    assert not watch.is_news("a", trace_content(b""), False, T + 50)


def test_a_partial_trace_is_held_back_for_a_while() -> None:
    """It is sent when it is whole, or when the wait is over."""
    watch, part = Watch(1800.0, 30.0), trace_content(traces(*run("a")))
    watch.hit("a", "", Window(T, T + 5), T)
    assert not watch.is_news("a", part, True, T + 1)
    watch.fetched("a", part, T + 1)
    assert watch.due(T + 40, 10) == ["a"]
    assert watch.is_news("a", part, True, T + PARTIAL_SECONDS)


def test_traces_of_history_are_settled_at_once() -> None:
    """Catching up fetches each once."""
    watch, whole = Watch(1800.0, 30.0), trace_content(traces(*run("a")))
    watch.hit("a", "", Window(T, T + 5), T + 10_000)
    watch.is_news("a", whole, False, T + 10_000)
    watch.fetched("a", whole, T + 10_000)
    assert not watch.due(T + 99_999, 10)


def test_the_cursor_keeps_open_traces_that_no_search_will_find_again() -> None:
    """Those in stretches that are searched again come back by themselves; the settled are forgotten."""
    watch = Watch(1800.0, 30.0)
    watch.hit("old", "", Window(0, 10), 10)
    watch.hit("new", "", Window(5000, 5010), 5010)
    saved = watch.as_json(before=4000)
    assert list(saved) == ["old"]
    again = Watch(1800.0, 30.0)
    again.restore(saved, 6000)
    assert again.due(6000, 10) == ["old"]
    again.missing("old", 9000)
    again.forget(99_999)
    assert not again.knows("old")


def test_back_off_doubles_with_jitter_and_keeps_what_was_asked() -> None:
    """30 s, 1, 2, 4, 5 minutes, of which a random half goes; Retry-After is the least, an hour the most."""
    assert [delay_seconds(30, n, lambda: 1.0) for n in range(1, 7)] == [30, 60, 120, 240, 300, 300]
    assert delay_seconds(30, 2, lambda: 0.0) == 30
    assert delay_seconds(30, 1, lambda: 0.5, 200.0) == 200
    assert delay_seconds(30, 1, lambda: 0.5, 1e9) == 3600
    assert delay_seconds(30, 100_000, lambda: 1.0) == 300


def test_the_lag_follows_what_is_found_late() -> None:
    """It grows while many traces are found only by a second search, shrinks while few are, within its bounds."""
    lag = AdaptiveLag(5.0, 120.0, 5.0)
    for _ in range(20):
        lag.observe(10, 20)
    assert lag.seconds == 120
    for _ in range(60):
        lag.observe(30, 1)
    assert lag.seconds == 5


def test_the_sources_clock_is_taken_from_its_answers() -> None:
    """Whole seconds and short answers are no skew; minutes are. A header that is missing or odd says nothing."""
    skew = ClockSkew()
    skew.observe(formatdate(T + 1, usegmt=True), T, T + 0.2)
    assert skew.seconds == 0
    for _ in range(40):
        skew.observe(formatdate(T - 300, usegmt=True), T, T + 0.2)
    assert skew.seconds == pytest.approx(-300, abs=1.5)
    for odd in (None, "", "yesterday"):
        skew.observe(odd, T, T)
    assert skew.seconds == pytest.approx(-300, abs=1.5)
