"""How many bytes of requests one receiver holds at once."""

from __future__ import annotations

import threading

from collectors.sink import Overloaded


class InFlight:
    """A budget of bytes, shared by all requests of a receiver; thread-safe."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._held = 0
        self._lock = threading.Lock()

    @property
    def held(self) -> int:
        """The bytes held now."""
        return self._held

    @property
    def full(self) -> bool:
        """Whether nothing more may come in now."""
        return self._held >= self.limit

    @property
    def message(self) -> str:
        """What a client is told then."""
        return f"{self.limit} bytes of requests are being taken in already"

    def hold(self) -> Holding:
        """The part of one request, empty at first; give it back by `release`, or use it as a context."""
        return Holding(self)

    def _move(self, amount: int) -> bool:
        """Take (or, below 0, give back) bytes; False and nothing taken when they are not there."""
        with self._lock:
            if amount > 0 and self._held and self._held + amount > self.limit:
                return False  # what comes first always fits: a request has a limit of its own
            self._held += amount
            return True


class Holding:
    """What one request holds of the budget."""

    __slots__ = ("_budget", "_held")

    def __init__(self, budget: InFlight) -> None:
        self._budget = budget
        self._held = 0

    def grow(self, amount: int) -> None:
        """Hold more bytes; raises Overloaded when the budget is used up."""
        if not self._budget._move(amount):
            raise Overloaded(self._budget.message)
        self._held += amount

    def release(self) -> None:
        """Give all back; may be called twice."""
        self._budget._move(-self._held)
        self._held = 0

    def __enter__(self) -> Holding:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()
