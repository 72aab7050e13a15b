"""Who scrapes /metrics and how often, so that a drain can keep the page up until each has read the last figures.

Prometheus and its relatives say in a header how long they wait; a person with curl does not, and nobody waits for one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass

from monitor.clock import Clock

LOG = logging.getLogger(__name__)

HEADER = "X-Prometheus-Scrape-Timeout-Seconds"
_SLACK_SECONDS = 2.0
_MOST_PEERS = 16
_MISSED = 3.0
"""A scraper that has been silent for so many of its intervals is gone."""


@dataclass(slots=True)
class _Scraper:
    last: float
    interval: float | None = None


class Scrapes:
    """Scrapes seen, by peer. All on the event loop."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._scrapers: dict[str, _Scraper] = {}
        self._awaited: set[str] = set()
        self._done = asyncio.Event()
        self._since = float("inf")
        self._hurry = False

    def seen(self, peer: str | None, headers: Mapping[str, str], asked_at: float) -> None:
        """A page was made for a request that came at `asked_at` (monotonic seconds)."""
        if HEADER not in headers or peer is None:
            return
        known = self._scrapers.get(peer)
        if known is not None:
            known.interval, known.last = asked_at - known.last, asked_at
        elif len(self._scrapers) < _MOST_PEERS:
            self._scrapers[peer] = _Scraper(asked_at)
        if asked_at >= self._since:  # else its page may lack the last figures
            self._awaited.discard(peer)
            if not self._awaited:
                self._done.set()

    def patience(self, most: float) -> float:
        """How long a scrape of every scraper that is there may take to come, in seconds; 0 when none is expected."""
        intervals = [one.interval for one in self._expected().values() if one.interval is not None]
        return min(most, max(intervals) + _SLACK_SECONDS) if intervals else 0.0

    def _expected(self) -> dict[str, _Scraper]:
        now = self._clock.monotonic()
        return {
            peer: one
            for peer, one in self._scrapers.items()
            if one.interval is not None and now - one.last <= _MISSED * one.interval + _SLACK_SECONDS
        }

    async def one_more(self, most: float) -> bool:
        """Wait until everybody who scrapes regularly has done so once more, `most` seconds at most. Whether they all did."""
        patience = self.patience(most)
        self._awaited, self._since = set(self._expected()), self._clock.monotonic()
        if not patience or self._hurry:
            return not self._awaited
        waits = {asyncio.ensure_future(self._done.wait()), asyncio.ensure_future(self._clock.sleep(patience))}
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
            await asyncio.gather(*waits, return_exceptions=True)
        if self._awaited and not self._hurry:
            LOG.info("no scrape came in time", extra={"scrapers": len(self._awaited), "seconds": round(patience, 1)})
        return not self._awaited

    def hurry(self) -> None:
        """Wait no longer, now and later."""
        self._hurry = True
        self._done.set()
