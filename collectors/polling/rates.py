"""How many requests a second a source is asked."""

from __future__ import annotations

from collectors.polling.clock import PollClock


class RequestRate:
    """Spaces requests out evenly after a burst of one second's worth. Used from one event loop."""

    def __init__(self, per_second: float, clock: PollClock) -> None:
        self._gap = 1.0 / per_second
        self._burst = max(1.0, per_second) * self._gap
        self._clock = clock
        self._next = clock.monotonic()

    async def turn(self) -> None:
        """Wait for one's turn."""
        now = self._clock.monotonic()
        self._next = max(self._next, now - self._burst) + self._gap
        wait = self._next - now - self._gap
        if wait > 0:
            await self._clock.sleep(wait)
