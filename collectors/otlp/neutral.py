"""What is answered to bytes that are no HTTP: aiohttp's own answer quotes them, which would send content back and into logs of proxies. And they cost no
request before them its answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

from aiohttp import web
from aiohttp.web_protocol import RequestHandler, RequestPayloadError, _ErrInfo

_MOST_PIECES = 64
"""As many heads are told apart in what came together; twice as many as aiohttp lets wait."""

Answer = Callable[[int], web.Response]
"""Makes the answer of a status, without anything of the request."""


def pieces(data: bytes) -> Iterator[bytes]:
    """Bytes of a connection in parts, the first `_MOST_PIECES` of which end where a request's head may."""
    start = next(
        (len(end) for end in (b"\n\r\n", b"\r\n", b"\n") if data.startswith(end)), 0
    )  # of a head that began earlier
    if start:
        yield data[:start]
    for _ in range(_MOST_PIECES):
        end = data.find(b"\r\n\r\n", start)
        if end < 0:
            break
        yield data[start : end + 4]
        start = end + 4
    if start < len(data) or not data:
        yield data[start:]


def answer_neutrally(server: web.Server | None, answer: Answer) -> None:
    """Let a server of aiohttp, not listening yet, answer by `answer` what it cannot read, and close the connection."""
    assert server is not None
    take = server.connection_made

    class Neutral(RequestHandler):
        """The handler of one connection, with another answer to what it cannot read."""

        __slots__ = ()

        def data_received(self, data: bytes) -> None:
            """Parse head by head: a fault in what follows would take with it a request that was not handed on before.

            That is so behind `Connection: close` and HTTP/1.0, where what follows is to be ignored (RFC 9112, section 9.6).
            """
            for piece in pieces(data):
                super().data_received(piece)
            if self._messages and isinstance(self._messages[-1][0], _ErrInfo):
                self._end_body()

        def _end_body(self) -> None:
            """End a body in which the fault lies, so that who reads it need not wait for the rest: its request has the answer, and is the last."""
            if len(self._messages) > 1:
                body = self._messages[-2][1]
            elif self._current_request is not None:
                body = self._current_request.content
            else:
                return
            if not body.is_eof():
                self._messages.pop()
                body.set_exception(RequestPayloadError("the body cannot be read"))
                body.feed_eof()
                self.close()

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
