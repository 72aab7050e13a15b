"""The export lease: figures out of the shared store are shown by one process at a time, else they would be counted twice."""

from __future__ import annotations

import threading

from monitor.clock import Clock
from monitor.store.protocol import Store, StoreUnwritable

NAME = "export"
TTL_SECONDS = 30.0


class ExportLease:
    """Holds, renews and gives up the lease. Methods block on the store and may be called from any thread.

    Whoever shows figures asks `held` each time; between scrapes the owner of the process calls `renew` every `renew_seconds`, so that
    the lease stays where it is however rarely it is scraped.
    """

    def __init__(self, store: Store, clock: Clock, owner: str, ttl_seconds: float = TTL_SECONDS) -> None:
        self._store = store
        self._clock = clock
        self._owner = owner
        self._ttl_seconds = ttl_seconds
        self._lock = threading.Lock()
        self._held_until = float("-inf")
        self._ask_again = float("-inf")
        self._kept = False  # what the store answered last
        self._ended = False

    @property
    def renew_seconds(self) -> float:
        """How often `renew` is to be called."""
        return self._ttl_seconds / 3.0

    def held(self) -> bool:
        """Whether this process may show the store's figures now; asks the store when the lease is not fresh.

        A store that cannot be written leaves things as they are: nobody else can take the lease there either, and a full disk must not
        take the figures off the page. Raises what else the store raises.
        """
        with self._lock:
            if self._clock.monotonic() >= self._ask_again and not self._ended:
                try:
                    self._renew()
                except StoreUnwritable:
                    return self._kept
            return self._clock.monotonic() < self._held_until

    def renew(self) -> bool:
        """Take or renew the lease; False while another process holds it."""
        with self._lock:
            return not self._ended and self._renew()

    def release(self) -> None:
        """Give the lease up for good, at the end; another process has it at once."""
        with self._lock:
            self._held_until, self._ended = float("-inf"), True
            self._store.release_lease(NAME, self._owner)

    def _renew(self) -> bool:
        asked = self._clock.monotonic()  # before the store is asked: our end is never later than the store's
        held = self._store.acquire_lease(NAME, self._owner, self._clock.now(), self._ttl_seconds)
        self._kept = held
        self._held_until = asked + self._ttl_seconds if held else float("-inf")
        self._ask_again = asked + (self.renew_seconds if held else 0.0)
        return held
