"""Who sends: an address and the connections from it, and how the addresses share what there is.

A sender is the address that a connection comes from, because nothing else is known before a body is read. Agents behind one gateway are one
sender; what the gateway does with them is its own.
"""

from __future__ import annotations

import math
import threading
from typing import Any, NamedTuple
from urllib.parse import unquote

HALF_LIFE_SECONDS = 5.0
"""After so long what a sender sent counts half."""

_MOST_ADDRESSES = 1024
_FORGOTTEN_BYTES = 1.0


class Sender(NamedTuple):
    """Where a request comes from: the address, and a name of the connection that is unique within it."""

    address: str
    connection: str


def of_socket(peer: Any) -> Sender:
    """The sender behind a socket's peer name, `(host, port, …)`; anything else is one sender of its own."""
    if isinstance(peer, tuple) and len(peer) > 1:
        return Sender(_plain(str(peer[0])), str(peer[1]))
    return Sender("unknown", "")


def of_grpc(peer: str) -> Sender:
    """The sender behind a peer as grpc writes it: `ipv4:127.0.0.1:4711`, `ipv6:%5B::1%5D:4711`."""
    address, _, port = unquote(peer.partition(":")[2]).rpartition(":")
    return Sender(_plain(address.strip("[]")) or "unknown", port)


def _plain(address: str) -> str:
    """An IPv4 address as such, also where the socket is one of IPv6."""
    return address.removeprefix("::ffff:")


class Recent:
    """How many bytes of each address were taken lately. Thread-safe; times are seconds of one clock that never goes back."""

    def __init__(self) -> None:
        self._taken: dict[str, tuple[float, float]] = {}  # bytes, and the time that they are decayed to
        self._lock = threading.Lock()

    def note(self, address: str, amount: int, now: float) -> None:
        """Bytes of that address were taken."""
        with self._lock:
            self._taken[address] = (self._decayed(address, now) + amount, now)
            if len(self._taken) > _MOST_ADDRESSES:
                self._forget(now)

    def over_share(self, address: str, now: float) -> bool:
        """Whether more was taken of that address than the average of all that sent lately; never where it is the only one."""
        with self._lock:
            self._forget(now)
            if len(self._taken) < 2:
                return False
            total = sum(self._decayed(one, now) for one in self._taken)
            return self._decayed(address, now) > total / len(self._taken)

    def _decayed(self, address: str, now: float) -> float:
        amount, at = self._taken.get(address, (0.0, now))
        return amount * math.exp2((at - now) / HALF_LIFE_SECONDS)

    def _forget(self, now: float) -> None:
        """Drop who sent nothing for long; of too many those of which least was taken."""
        left = {one: self._decayed(one, now) for one in self._taken}
        kept = sorted(left, key=left.__getitem__, reverse=True)[:_MOST_ADDRESSES]
        self._taken = {one: self._taken[one] for one in kept if left[one] >= _FORGOTTEN_BYTES}
