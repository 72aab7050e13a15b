"""A bound on what is read of a judge's answer: whoever answers may be broken, or hostile, and memory is ours."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx2
import openai

MAX_REPLY_BYTES = 4 * 1024 * 1024
"""A verdict takes some kilobytes; this leaves room for chatty ones."""
MAX_COMPRESSED_BYTES = 64 * 1024
"""We ask for no compression; what comes compressed all the same can grow a thousandfold."""


class ReplyTooLong(Exception):
    """The answer is longer than any verdict; the rest was not read."""


class BoundedClient(openai.DefaultAioHttpClient):
    """The openai client's aiohttp transport, reading at most so much of an answer's body."""

    def _init_transport(self, *args: Any, **kwargs: Any) -> httpx2.AsyncBaseTransport:
        return _BoundedTransport(super()._init_transport(*args, **kwargs))


class _BoundedTransport(httpx2.AsyncBaseTransport):
    def __init__(self, inner: httpx2.AsyncBaseTransport) -> None:
        self._inner = inner

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """The inner transport's answer with its body bounded."""
        request.headers["accept-encoding"] = "identity"
        response = await self._inner.handle_async_request(request)
        encoded = response.headers.get("content-encoding", "identity").lower() != "identity"
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        response.stream = _BoundedStream(response.stream, MAX_COMPRESSED_BYTES if encoded else MAX_REPLY_BYTES)
        return response

    async def aclose(self) -> None:
        """Give up connections."""
        await self._inner.aclose()


class _BoundedStream(httpx2.AsyncByteStream):
    def __init__(self, inner: httpx2.AsyncByteStream, limit: int) -> None:
        self._inner, self._left = inner, limit

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """The body, up to the limit. Raises ReplyTooLong."""
        async for chunk in self._inner:
            self._left -= len(chunk)
            if self._left < 0:
                raise ReplyTooLong
            yield chunk

    async def aclose(self) -> None:
        """Close the body."""
        await self._inner.aclose()
