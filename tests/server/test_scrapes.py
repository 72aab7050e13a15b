"""Waiting for the last scrape at a drain."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from monitor.clock import ManualClock
from monitor.server.scrapes import HEADER, Scrapes

PROMETHEUS = {HEADER: "10"}


def scraped(clock: ManualClock, scrapes: Scrapes, peer: str, times: int, every: float) -> None:
    """So many scrapes of one peer, the last of them now."""
    for number in range(times):
        if number:
            clock.advance(every)
        scrapes.seen(peer, PROMETHEUS, clock.monotonic())


async def started(coroutine: object) -> asyncio.Task[bool]:
    """The coroutine as a task that has run as far as it can."""
    task: asyncio.Task[bool] = asyncio.ensure_future(coroutine)  # type: ignore[arg-type]
    for _ in range(5):
        await asyncio.sleep(0)
    return task


async def test_nobody_waits_for_a_person() -> None:
    """Requests without Prometheus's header, and a single scrape, are waited for by nobody."""
    clock = ManualClock()
    scrapes = Scrapes(clock)
    for _ in range(3):
        scrapes.seen("10.0.0.9", {}, clock.monotonic())
        clock.advance(1)
    assert await scrapes.one_more(30)
    scraped(clock, scrapes, "10.0.0.1", 1, 15)
    assert await scrapes.one_more(30)


async def test_the_wait_ends_with_the_scrape() -> None:
    """A page asked for before the wait does not end it; the next one does."""
    clock = ManualClock()
    scrapes = Scrapes(clock)
    scraped(clock, scrapes, "10.0.0.1", 3, 15)
    early = clock.monotonic()
    clock.advance(1)
    waiting = await started(scrapes.one_more(30))
    scrapes.seen("10.0.0.1", PROMETHEUS, early)
    await asyncio.sleep(0)
    assert not waiting.done()
    clock.advance(14)
    scrapes.seen("10.0.0.1", PROMETHEUS, clock.monotonic())
    assert await waiting


async def test_a_pair_is_waited_for() -> None:
    """Of two Prometheus servers both read the last figures, and at most so long as is configured."""
    clock = ManualClock()
    scrapes = Scrapes(clock)
    scraped(clock, scrapes, "10.0.0.1", 3, 15)
    scraped(clock, scrapes, "10.0.0.2", 2, 14)
    waiting = await started(scrapes.one_more(10))
    clock.advance(5)
    scrapes.seen("10.0.0.1", PROMETHEUS, clock.monotonic())
    await asyncio.sleep(0)
    assert not waiting.done()
    clock.advance(5)
    assert not await waiting


async def test_who_has_gone_is_not_waited_for() -> None:
    """A scraper that has missed three of its scrapes is gone."""
    clock = ManualClock()
    scrapes = Scrapes(clock)
    scraped(clock, scrapes, "10.0.0.1", 3, 15)
    clock.advance(60)
    assert scrapes.patience(30) == 0
    assert await scrapes.one_more(30)


async def test_a_second_signal_ends_the_wait() -> None:
    """Asked twice to stop, nobody is waited for, also not later."""
    clock = ManualClock()
    scrapes = Scrapes(clock)
    scraped(clock, scrapes, "10.0.0.1", 3, 15)
    waiting = await started(scrapes.one_more(30))
    scrapes.hurry()
    with suppress(asyncio.CancelledError):
        assert not await waiting
    assert not await scrapes.one_more(30)
