"""Polling a source that can be read in the order in which things came into it: a file, an API with a cursor of insertion."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from collectors.polling.cursors import CursorStore
from collectors.polling.delivery import Delivery, Parcel


@dataclass(frozen=True, slots=True)
class FeedPage:
    """What was read next: requests to hand over, the cursor behind them, and whether there is more at once.

    `lag_seconds` is how far the source is ahead of us after this page, as far as it can tell. `taken` is called once all of it is durable and
    the cursor saved: only then may the source take it for read. `refused` is told before of the requests that were no OTLP.
    """

    parcels: Sequence[Parcel]
    cursor: Any
    more: bool
    lag_seconds: float = 0.0
    taken: Callable[[], None] = lambda: None
    refused: Callable[[Sequence[Parcel]], None] = lambda parcels: None


class Feed(Protocol):
    """A source that is read from a cursor on. The cursor is any JSON value; None begins."""

    @property
    def endpoints(self) -> tuple[str, ...]:
        """What is read."""
        ...

    @property
    def problem(self) -> str | None:
        """What is wrong besides, while reading goes on; None when all is well."""
        ...

    async def open(self) -> None:
        """Make ready; called once. Raises CollectorFailed for what is wrong on our side."""
        ...

    async def close(self) -> None:
        """Release what is open; may be called twice."""
        ...

    async def read(self, cursor: Any) -> FeedPage:
        """The next page. Reading from the same cursor again gives at least the same again. Raises SourceFault."""
        ...


class FeedEngine:
    """Polls one Feed: read, hand over, and only when that is durable save the cursor."""

    def __init__(self, name: str, feed: Feed, delivery: Delivery, cursors: CursorStore) -> None:
        self._name, self._feed, self._delivery, self._cursors = name, feed, delivery, cursors
        self._cursor: Any = None
        self._lag = 0.0

    async def open(self) -> None:
        """Make the source ready and read the cursor."""
        await self._feed.open()
        self._cursor = await asyncio.to_thread(self._cursors.load, self._name)

    async def close(self) -> None:
        """Release the source."""
        await self._feed.close()

    @property
    def endpoints(self) -> tuple[str, ...]:
        """What is read."""
        return self._feed.endpoints

    @property
    def problem(self) -> str | None:
        """What is wrong while reading goes on."""
        return self._feed.problem

    @property
    def lag_seconds(self) -> float:
        """How far we are behind the source."""
        return self._lag

    async def poll(self) -> bool:
        """Take one page; whether there is more at once. Raises SourceFault."""
        page = await self._feed.read(self._cursor)
        page.refused(await self._delivery.send(page.parcels))
        if page.cursor != self._cursor:
            await asyncio.to_thread(self._cursors.save, self._name, page.cursor)
            self._cursor = page.cursor
        page.taken()
        self._lag = page.lag_seconds
        return page.more
