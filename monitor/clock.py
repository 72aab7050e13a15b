"""Time as an argument: nothing outside this module reads the clock."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """What the program knows of time. `now` is wall time in seconds since 1970-01-01Z, `monotonic` never goes back."""

    def now(self) -> float:
        """Wall time, seconds since 1970-01-01Z."""
        ...

    def monotonic(self) -> float:
        """Seconds of a clock that never goes back; only differences mean something."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait on the event loop."""
        ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> float:
        """Wall time, seconds since 1970-01-01Z."""
        return time.time()

    def monotonic(self) -> float:
        """Seconds of a clock that never goes back."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Wait on the event loop."""
        await asyncio.sleep(seconds)


class SteadyClock:
    """Another clock without its steps: wall time as it was at the start, plus what has passed since.

    For what lasts (silence of a trace, leases, pauses): it must not end, nor last for hours, because somebody puts the clock right.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ahead = clock.now() - clock.monotonic()

    def now(self) -> float:
        """Seconds since 1970-01-01Z; off by what the wall clock was moved since the start."""
        return self._clock.monotonic() + self._ahead

    def monotonic(self) -> float:
        """Seconds of a clock that never goes back."""
        return self._clock.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Wait on the event loop."""
        await self._clock.sleep(seconds)


class ManualClock:
    """A clock that only its owner moves; sleepers wake when it has been moved past their time."""

    def __init__(self, now: float = 1_700_000_000.0) -> None:
        self._now = now
        self._stepped = 0.0
        self._sleepers: list[tuple[float, asyncio.Future[None]]] = []

    def now(self) -> float:
        """Wall time, seconds since 1970-01-01Z."""
        return self._now + self._stepped

    def monotonic(self) -> float:
        """The same as `now`, but for steps: it never goes back because `advance` takes no negative one."""
        return self._now

    async def sleep(self, seconds: float) -> None:
        """Wait until the clock has been advanced by that many seconds."""
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._sleepers.append((self._now + seconds, waiting))
        await waiting

    def advance(self, seconds: float) -> None:
        """Move the clock forward and wake who slept until then. Raises ValueError for a negative step."""
        if seconds < 0:
            raise ValueError("a clock is not moved back: step() puts the wall clock back")
        self._now += seconds
        due = [sleeper for sleeper in self._sleepers if sleeper[0] <= self._now]
        self._sleepers = [sleeper for sleeper in self._sleepers if sleeper[0] > self._now]
        for _, waiting in sorted(due, key=lambda sleeper: sleeper[0]):
            if not waiting.done():
                waiting.set_result(None)

    def step(self, seconds: float) -> None:
        """Put the wall clock forward or back, as somebody who sets it; no time passes."""
        self._stepped += seconds


def rfc3339(seconds: float) -> str:
    """Seconds since 1970-01-01Z as RFC 3339 in UTC with microseconds, `2026-11-18T09:00:00.250000Z`."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def from_rfc3339(text: str) -> float:
    """The inverse of `rfc3339`; raises ValueError for anything else, also for a time without a zone."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(f"{text!r} has no time zone: write Z or an offset")
    return moment.timestamp()
