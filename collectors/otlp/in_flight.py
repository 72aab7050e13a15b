"""How many bytes of requests one receiver holds at once, and whose they may be."""

from __future__ import annotations

import threading
from typing import TypeVar

from collectors.otlp.senders import Sender
from collectors.sink import Overloaded

FREE_SHARE = 0.5
"""Up to this part everybody may take; beyond it each has its share, so that who floods leaves room for others."""

_Key = TypeVar("_Key")


class InFlight:
    """A budget of bytes, shared by all requests of a receiver; thread-safe.

    While more than half of the budget is held, an address holds at most `limit / (n + 1)`, where n addresses hold something; while more
    than half of that share is held, a connection at most `share / (m + 1)`, where m connections of the address hold something. So there
    is always room for one more. The only request of an address needs no share.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._held = 0
        self._addresses: dict[str, int] = {}
        self._connections: dict[Sender, int] = {}
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
        return f"{self.limit} bytes of requests are being taken in already, or this sender's share of them"

    def hold(self, sender: Sender) -> Holding:
        """The part of one request, empty at first; give it back by `release`, or use it as a context."""
        return Holding(self, sender)

    def _grow(self, holding: Holding, amount: int) -> bool:
        """Take bytes for a request; False and nothing taken when they are not there."""
        with self._lock:
            if holding._released or (amount > 0 and not self._fits(amount, holding.sender, holding._held)):
                return False
            holding._held += amount
            self._add(holding.sender, amount)
            return True

    def _release(self, holding: Holding) -> None:
        with self._lock:
            self._add(holding.sender, -holding._held)
            holding._held, holding._released = 0, True

    def _add(self, sender: Sender, amount: int) -> None:
        self._held += amount
        _add(self._addresses, sender.address, amount)
        _add(self._connections, sender, amount)

    def _fits(self, amount: int, sender: Sender, own: int) -> bool:
        """Whether that much more fits; what comes first always does, since a request has a limit of its own."""
        held = self._held + amount
        of_address, of_connection = self._addresses.get(sender.address, 0), self._connections.get(sender, 0)
        if not self._held:
            return True
        if held > self.limit:
            return False
        if of_address == own:
            return True
        share = self.limit / (len(self._addresses) + (not of_address) + 1)
        if held > self.limit * FREE_SHARE and of_address + amount > share:
            return False
        if of_address + amount <= share * FREE_SHARE:
            return True
        siblings = sum(one.address == sender.address for one in self._connections) + (not of_connection)
        return of_connection + amount <= share / (siblings + 1)


def _add(held: dict[_Key, int], key: _Key, amount: int) -> None:
    """Count; who holds nothing is not in it."""
    left = held.get(key, 0) + amount
    if left:
        held[key] = left
    else:
        held.pop(key, None)


class Holding:
    """What one request holds of the budget."""

    __slots__ = ("_budget", "_held", "_released", "sender")

    def __init__(self, budget: InFlight, sender: Sender) -> None:
        self._budget = budget
        self.sender = sender
        self._held = 0
        self._released = False

    def grow(self, amount: int) -> None:
        """Hold more bytes; raises Overloaded when the budget or the sender's share is used up, and after `release`.

        A request that was given up may still be unpacked: nobody would give back what it takes then.
        """
        if not self._budget._grow(self, amount):
            raise Overloaded(self._budget.message)

    def release(self) -> None:
        """Give all back; may be called twice."""
        self._budget._release(self)

    def __enter__(self) -> Holding:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()
