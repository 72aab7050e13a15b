"""The connections of an HTTP listener: what is logged of them, and how many there are at once. Each costs a file descriptor, and a process
without any can neither judge nor store.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Mapping, MutableMapping
from typing import TYPE_CHECKING, Any

from collectors.otlp.senders import of_socket

if TYPE_CHECKING:
    from aiohttp import web
    from aiohttp.web_protocol import RequestHandler

MOST_CONNECTIONS: Mapping[str, int] = {"otlp": 4096, "server": 256}
"""By kind of listener. An agent holds one to the receiver, and closes it after 75 s of silence; a scraper or a person few to the server."""

_SHARE = 0.4
"""Of the file descriptors that the process may have, at most so much for one listener."""


class WithoutContent(logging.LoggerAdapter[logging.Logger]):
    """The log that aiohttp writes to: a client's broken HTTP is no error of ours, and its traceback quotes the bytes."""

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        """A record without the exception."""
        return msg, {key: value for key, value in kwargs.items() if key != "exc_info"}

    def exception(self, msg: object, *args: object, **_: Any) -> None:
        """Warn instead."""
        self.warning(msg, *args)


def allowed(kind: str) -> int:
    """How many connections a listener of that kind may hold in this process."""
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = MOST_CONNECTIONS[kind]
    return most if soft == resource.RLIM_INFINITY else max(16, min(most, int(soft * _SHARE)))


class Connections:
    """The connections of one listener: no more than `allowed`, and of a receiver no more than half of them from one address, so that nobody can keep the
    others out.
    """

    def __init__(self, kind: str) -> None:
        self._most = allowed(kind)
        self._most_of_one = self._most // 2 if kind == "otlp" else self._most
        self._addresses: dict[object, str] = {}
        self._counts: Counter[str] = Counter()

    def take(self, connection: object, transport: asyncio.Transport) -> bool:
        """Count a new connection; False, and it is not counted, where there are too many."""
        address = of_socket(transport.get_extra_info("peername")).address
        if len(self._addresses) >= self._most or self._counts[address] >= self._most_of_one:
            return False
        self._addresses[connection] = address
        self._counts[address] += 1
        return True

    def release(self, connection: object) -> None:
        """A connection has ended; one that is not counted does no harm."""
        address = self._addresses.pop(connection, None)
        if address is not None:
            self._counts[address] -= 1
            if not self._counts[address]:
                del self._counts[address]


def bound(server: web.Server | None, kind: str) -> None:
    """Let a server of aiohttp, not listening yet, hold no more connections than `Connections` takes: one more is closed at once."""
    assert server is not None
    connections = Connections(kind)
    take, lose = server.connection_made, server.connection_lost

    def connection_made(handler: RequestHandler, transport: asyncio.Transport) -> None:
        if connections.take(handler, transport):
            take(handler, transport)
        else:  # once the handler's task has begun: it fails, and says so in the log, where its connection is gone before
            asyncio.get_running_loop().call_soon(transport.close)

    def connection_lost(handler: RequestHandler, exc: BaseException | None = None) -> None:
        connections.release(handler)
        lose(handler, exc)

    server.connection_made = connection_made  # type: ignore[method-assign]
    server.connection_lost = connection_lost  # type: ignore[method-assign]
