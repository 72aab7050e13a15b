"""What is answered to bytes that are no HTTP: aiohttp's own answer quotes them, which would send content back and into logs of proxies."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

Answer = Callable[[int], web.Response]
"""Makes the answer of a status, without anything of the request."""


def answer_neutrally(server: web.Server | None, answer: Answer) -> None:
    """Let a server of aiohttp, not listening yet, answer by `answer` what it cannot read, and close the connection."""
    assert server is not None
    take = server.connection_made

    class Neutral(RequestHandler):
        """The handler of one connection, with another answer to what it cannot read."""

        __slots__ = ()

        def handle_error(
            self,
            request: web.BaseRequest,
            status: int = 500,
            exc: BaseException | None = None,
            message: str | None = None,
        ) -> web.StreamResponse:
            """Log as aiohttp does (which raises where an answer has begun), and answer without its words."""
            super().handle_error(request, status, exc, None)
            response = answer(status)
            response.force_close()
            return response

    def connection_made(handler: RequestHandler, transport: asyncio.Transport) -> None:
        handler.__class__ = Neutral
        take(handler, transport)

    server.connection_made = connection_made  # type: ignore[method-assign]
