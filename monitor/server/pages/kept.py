"""Figures that take long to add up: shown as they were last, renewed beside. A page never waits long for them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from monitor.clock import Clock

T = TypeVar("T")

FRESH_SECONDS = 5.0
DUTY = 10.0
"""What took t seconds is good for at least DUTY * t."""
PATIENCE_SECONDS = 0.04
"""How long a page waits for figures; then it shows older ones, or that they are being added up."""
MOST_KEPT = 200


@dataclass(frozen=True, slots=True)
class Known(Generic[T]):
    """A value and when it was made (seconds since 1970-01-01Z)."""

    value: T
    at: float


@dataclass(slots=True)
class _Entry:
    known: Known[Any] | None = None
    good_until: float = 0.0
    making: Future[None] | None = None


class KeptFigures:
    """Values by key, each made by one thread at a time. May be used from any thread; `close` ends the thread."""

    def __init__(self, clock: Clock, patience_seconds: float = PATIENCE_SECONDS) -> None:
        self._clock = clock
        self._patience = patience_seconds
        self._lock = threading.Lock()
        self._entries: dict[Hashable, _Entry] = {}
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="figures")

    def get(self, key: Hashable, make: Callable[[], T]) -> Known[T] | None:
        """The value of a key, made now where it is quick; else an older one, or None while the first is being made.

        Raises what `make` raised where there is no older value.
        """
        with self._lock:
            entry = self._entry(key)
            if entry.known is not None and self._clock.monotonic() < entry.good_until:
                return entry.known
            if entry.making is None or entry.making.done():
                entry.making = self._pool.submit(self._make, entry, make)
            making = entry.making
        done, _ = wait_for([making], self._patience)
        if done and entry.known is None:
            making.result()
        return entry.known

    def forget(self, key: Hashable) -> None:
        """Make the value anew when it is next asked for: something has been changed."""
        with self._lock:
            self._entries.pop(key, None)

    def close(self) -> None:
        """Begin nothing more."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _entry(self, key: Hashable) -> _Entry:
        entry = self._entries.get(key)
        if entry is None:
            while len(self._entries) >= MOST_KEPT:
                self._entries.pop(next(iter(self._entries)))
            entry = self._entries[key] = _Entry()
        return entry

    def _make(self, entry: _Entry, make: Callable[[], Any]) -> None:
        started = self._clock.monotonic()
        value = make()
        ended = self._clock.monotonic()
        entry.good_until = ended + max(FRESH_SECONDS, DUTY * (ended - started))
        entry.known = Known(value, self._clock.now())
