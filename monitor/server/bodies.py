"""The bodies of requests: read within a time, so that nobody holds a connection by not sending what was announced."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable
from http import HTTPStatus
from typing import TypeVar

from aiohttp import web

from monitor.server.problems import Refused

LOG = logging.getLogger(__name__)
T = TypeVar("T")

BODY_SECONDS = 30.0
"""How long a body may take, as on the receivers."""


async def in_time(reading: Awaitable[T]) -> T:
    """What reading a body gives: `request.read()` or `request.post()`. Raises Refused for one that does not come, breaks off or cannot be read."""
    try:
        async with asyncio.timeout(BODY_SECONDS):
            return await reading
    except web.HTTPException:  # it is too large
        raise
    except TimeoutError:
        raise Refused(HTTPStatus.REQUEST_TIMEOUT, f"the body did not come within {BODY_SECONDS:g} seconds") from None
    except Exception as error:  # the peer went away, or its chunks or its packing are broken
        LOG.debug("a body could not be read: %s", type(error).__name__)
        detail = "the body ends before its length or its last chunk, or is not in its encoding"
        raise Refused(HTTPStatus.BAD_REQUEST, detail) from None
