"""What a judge may consume: requests and tokens a minute as token buckets, tokens and USD a day (UTC) as a budget.

Buckets are corrected by what the server says of its own limits. The day's use is handed in and out, so that a restart does not
give a judge a second budget.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any

from monitor.clock import Clock
from monitor.judging.client import RateHeaders
from monitor.settings.tree import Limits

_MINUTE = 60.0


@dataclass(slots=True)
class TokenBucket:
    """Fills evenly to its capacity within a minute. Levels may fall below 0: what was used is used. Times are seconds of one clock."""

    capacity: float
    level: float
    filled_at: float

    @classmethod
    def full(cls, capacity: float, now: float) -> TokenBucket:
        """A full bucket."""
        return cls(capacity, capacity, now)

    def fill(self, now: float) -> None:
        """Let in what has come since the last time."""
        self.level = min(self.capacity, self.level + self.capacity / _MINUTE * max(0.0, now - self.filled_at))
        self.filled_at = now

    def wait_seconds(self, amount: float, now: float) -> float:
        """How long until the amount is there; an amount over the capacity waits for a full bucket."""
        self.fill(now)
        lacking = min(amount, self.capacity) - self.level
        return max(0.0, lacking * _MINUTE / self.capacity)

    def take(self, amount: float) -> None:
        """Use an amount; a negative one gives back."""
        self.level = min(self.capacity, self.level - amount)

    def correct(self, limit: float | None, remaining: float | None, configured: float) -> None:
        """The server's limit where it is lower than the configured one, and what it says remains where that is less."""
        if limit is not None and limit > 0:
            self.capacity = min(configured, limit)
        if remaining is not None:
            self.level = min(self.level, max(0.0, remaining))


class RateLimiter:
    """The limits a minute of one judge. Used from one event loop."""

    def __init__(self, limits: Limits, clock: Clock) -> None:
        now = clock.monotonic()
        self._limits, self._clock = limits, clock
        self._requests = TokenBucket.full(limits.requests_per_minute, now) if limits.requests_per_minute else None
        self._tokens = TokenBucket.full(limits.tokens_per_minute, now) if limits.tokens_per_minute else None
        self._held_until = now

    def wait_seconds(self, tokens: float = 0.0) -> float:
        """How long a call with that many tokens would have to wait now."""
        now = self._clock.monotonic()
        waits = [self._held_until - now]
        waits += [self._requests.wait_seconds(1, now)] if self._requests else []
        waits += [self._tokens.wait_seconds(tokens, now)] if self._tokens else []
        return max(0.0, *waits)

    async def acquire(self, tokens: float) -> None:
        """Wait for room, then take one request and the estimated tokens."""
        while (wait := self.wait_seconds(tokens)) > 0:
            await self._clock.sleep(wait)
        if self._requests:
            self._requests.take(1)
        if self._tokens:
            self._tokens.take(tokens)

    def settle(self, estimated: float, used: float) -> None:
        """Replace the estimate of a call by what it used."""
        if self._tokens:
            self._tokens.take(used - estimated)

    def hold(self, seconds: float) -> None:
        """Start no call for so long: the server said so."""
        self._held_until = max(self._held_until, self._clock.monotonic() + seconds)

    def correct(self, rate: RateHeaders) -> None:
        """Take over what the server says of its limits; where nothing remains, hold until it says that something does."""
        if self._requests and self._limits.requests_per_minute:
            self._requests.correct(rate.limit_requests, rate.remaining_requests, self._limits.requests_per_minute)
        if self._tokens and self._limits.tokens_per_minute:
            self._tokens.correct(rate.limit_tokens, rate.remaining_tokens, self._limits.tokens_per_minute)
        for remaining, reset in (
            (rate.remaining_requests, rate.reset_requests_seconds),
            (rate.remaining_tokens, rate.reset_tokens_seconds),
        ):
            if remaining is not None and remaining <= 0 and reset is not None:
                self.hold(min(reset, _MINUTE))


@dataclass(frozen=True, slots=True)
class DailyUse:
    """What a judge has consumed on one day (`2026-11-18`, UTC)."""

    day: str
    tokens: int = 0
    usd: float = 0.0

    def as_json(self) -> dict[str, Any]:
        """To be stored."""
        return asdict(self)

    @classmethod
    def from_json(cls, stored: Any) -> DailyUse | None:
        """From what was stored; None for anything else."""
        try:
            return cls(str(stored["day"]), int(stored["tokens"]), float(stored["usd"]))
        except (KeyError, TypeError, ValueError):
            return None


def utc_day(now: float) -> str:
    """The day of a time in seconds since 1970-01-01Z."""
    return datetime.fromtimestamp(now, UTC).date().isoformat()


def next_day(now: float) -> float:
    """When the next day (UTC) begins, in seconds since 1970-01-01Z."""
    return (now // 86400 + 1) * 86400


@dataclass(frozen=True, slots=True)
class Reservation:
    """What an evaluation is thought to use, held back until it has ended. Never stored: with the process the reservation ends."""

    tokens: float
    usd: float = 0.0


class DailyBudget:
    """The limits a day of one judge, or of one monitor. Without limits nothing ever runs out, and use is counted all the same.

    What runs at the same time is reserved beforehand, so that together it stays within the limits as far as the estimates are right. `reserve` and
    `give_back` are called on one event loop.
    """

    def __init__(self, limits: Limits, use: DailyUse | None = None) -> None:
        self._limits = limits
        self._use = use or DailyUse("")
        self._held: list[Reservation] = []
        self._turn, self._given_back = asyncio.Lock(), asyncio.Event()

    def use(self, now: float) -> DailyUse:
        """What was consumed on the day of `now`."""
        if self._use.day != utc_day(now):
            self._use = DailyUse(utc_day(now))
        return self._use

    def spend(self, now: float, tokens: int, usd: float | None) -> None:
        """Count a call."""
        use = self.use(now)
        self._use = replace(use, tokens=use.tokens + tokens, usd=use.usd + (usd or 0.0))

    async def reserve(self, clock: Clock, wanted: Callable[[], Reservation]) -> Reservation | str:
        """Hold back what an evaluation is thought to use by now, and wait for those under way where there is no room beside them: first come, first
        served, for who let short records pass would judge a biased sample. Whoever is alone goes on while anything is left, so a day's limit
        is passed by less than one evaluation. Returns the limit that is used up instead.
        """
        if self._limits.tokens_per_day is None and self._limits.usd_per_day is None:
            return self._hold(wanted())
        async with self._turn:
            while True:
                now, needed = clock.now(), wanted()
                limit = self.exhausted(now)
                if limit is not None:
                    return limit
                if not self._held or self._fits(now, needed):
                    return self._hold(needed)
                self._given_back.clear()
                await self._given_back.wait()

    def _hold(self, reserved: Reservation) -> Reservation:
        self._held.append(reserved)
        return reserved

    def give_back(self, reserved: Reservation) -> None:
        """The evaluation has ended, and what it used is counted."""
        self._held.remove(reserved)
        self._given_back.set()

    def _fits(self, now: float, wanted: Reservation) -> bool:
        """Whether there is room for this besides what is used and reserved."""
        use, most_tokens, most_usd = self.use(now), self._limits.tokens_per_day, self._limits.usd_per_day
        tokens = use.tokens + sum(one.tokens for one in self._held) + wanted.tokens
        usd = use.usd + sum(one.usd for one in self._held) + wanted.usd
        return (most_tokens is None or tokens <= most_tokens) and (most_usd is None or usd <= most_usd)

    def exhausted(self, now: float) -> str | None:
        """The limit that is used up for the day of `now`, or None."""
        use = self.use(now)
        if self._limits.tokens_per_day is not None and use.tokens >= self._limits.tokens_per_day:
            return "tokens_per_day"
        if self._limits.usd_per_day is not None and use.usd >= self._limits.usd_per_day:
            return "usd_per_day"
        return None

    def remaining_ratio(self, now: float) -> float | None:
        """The share that is left of the scarcer limit, 0 to 1; None without a limit."""
        use = self.use(now)
        shares = []
        if self._limits.tokens_per_day is not None:
            shares.append(1 - use.tokens / self._limits.tokens_per_day)
        if self._limits.usd_per_day is not None:
            shares.append(1 - use.usd / self._limits.usd_per_day)
        return max(0.0, min(shares)) if shares else None
