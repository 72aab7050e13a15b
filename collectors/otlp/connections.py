"""How many connections an HTTP listener holds at once: each costs a file descriptor, and a process without any can neither judge nor store."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aiohttp import web
    from aiohttp.web_protocol import RequestHandler

MOST_CONNECTIONS: Mapping[str, int] = {"otlp": 4096, "server": 256}
"""By kind of listener. An agent holds one to the receiver, and closes it after 75 s of silence; a scraper or a person few to the server."""

_SHARE = 0.4
"""Of the file descriptors that the process may have, at most so much for one listener."""


def allowed(kind: str) -> int:
    """How many connections a listener of that kind may hold in this process."""
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = MOST_CONNECTIONS[kind]
    return most if soft == resource.RLIM_INFINITY else max(16, min(most, int(soft * _SHARE)))


def bound(server: web.Server | None, kind: str) -> None:
    """Let a server of aiohttp, not listening yet, hold no more connections than `allowed`: one more is closed at once."""
    assert server is not None
    most = allowed(kind)
    take = server.connection_made

    def connection_made(handler: RequestHandler, transport: asyncio.Transport) -> None:
        if len(server.connections) >= most:
            transport.close()
        else:
            take(handler, transport)

    server.connection_made = connection_made  # type: ignore[method-assign]
