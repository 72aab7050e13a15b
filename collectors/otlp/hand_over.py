"""From the event loop to the sink and back: a few threads take requests apart, and the loop learns what came of them.

Every hand-over between threads costs both of them, and each wait for the interpreter more than the work on a usual request. So one thread takes all usual
requests one after the other, however many wait, and the loop is woken once for all that are durable by then.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial

from collectors.otlp.body import Compression
from collectors.otlp.fair_pool import FairPool
from collectors.otlp.senders import Sender
from collectors.sink import Accepted, Encoding

QUICK_BYTES = 1 << 20
"""450 usual spans."""

_THREADS = 3  # for the others: inflating leaves the interpreter to the rest, JSON of 64 MiB takes a second
_Take = Callable[[], "Future[Accepted]"]


def is_quick(length: int, encoding: Encoding, compression: Compression) -> bool:
    """Whether a body of that many bytes is taken apart in about a millisecond at most."""
    return length <= QUICK_BYTES and encoding is Encoding.PROTOBUF and compression is Compression.NONE


class HandOver:
    """The threads of one receiver; to be made, and used, on its event loop."""

    def __init__(self, name: str, acknowledge_seconds: float) -> None:
        """Outcomes are waited for that many seconds."""
        self._loop = asyncio.get_running_loop()
        self._quick, self._others = FairPool(1, f"{name}-quick"), FairPool(_THREADS, name)
        self._acknowledge_seconds = acknowledge_seconds
        self._answers = _Answers(self._loop)
        self._awaited: deque[tuple[float, asyncio.Future[Accepted]]] = (
            deque()
        )  # with their deadlines, the earliest first
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, sender: Sender, take: _Take, *, quick: bool) -> asyncio.Future[Accepted]:
        """Let `take` hand a request to the sink on a thread; resolves when its data are durable. `quick` tells that it will not take long.

        Fails with what `take` or its future raise, and with TimeoutError; who gives a request up does not cancel the sink's future.
        """
        waiter: asyncio.Future[Accepted] = self._loop.create_future()
        self._await(waiter)
        pool = self._quick if quick else self._others
        pool.work(sender, partial(_take, take, partial(self._answers.tell, waiter)))
        return waiter

    def _await(self, waiter: asyncio.Future[Accepted]) -> None:
        """Fail what is late: by one timer for all, since nearly none ever is."""
        while self._awaited and self._awaited[0][1].done():
            self._awaited.popleft()
        self._awaited.append((self._loop.time() + self._acknowledge_seconds, waiter))
        if self._timer is None:
            self._timer = self._loop.call_later(self._acknowledge_seconds, self._look)

    def _look(self) -> None:
        now, self._timer = self._loop.time(), None
        while self._awaited and (self._awaited[0][1].done() or self._awaited[0][0] <= now):
            _fail(self._awaited.popleft()[1], TimeoutError())
        if self._awaited:
            self._timer = self._loop.call_at(self._awaited[0][0], self._look)

    async def close(self) -> None:
        """Let what was taken end, and take nothing more."""
        for pool in (self._quick, self._others):
            await asyncio.to_thread(pool.shutdown)
        if self._timer is not None:
            self._timer.cancel()


class _Answers:
    """Brings to the event loop what came of requests; `tell` may be called from any thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._told: deque[tuple[asyncio.Future[Accepted], Future[Accepted]]] = deque()
        self._called = False

    def tell(self, waiter: asyncio.Future[Accepted], done: Future[Accepted]) -> None:
        """Wake the loop, unless it has been woken and has not looked yet."""
        self._told.append((waiter, done))
        if not self._called:
            self._called = True
            with contextlib.suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self._look)

    def _look(self) -> None:
        self._called = False  # before looking: what is told from now on calls again
        while self._told:
            _settle(*self._told.popleft())


def _take(take: _Take, tell: Callable[[Future[Accepted]], None]) -> None:
    """On a thread: let the sink take a request, and tell what comes of it."""
    try:
        durable = take()
    except Exception as error:
        durable = Future()
        durable.set_exception(error)
    durable.add_done_callback(tell)


def _settle(waiter: asyncio.Future[Accepted], done: Future[Accepted]) -> None:
    error = done.exception()
    if error is not None:
        _fail(waiter, error)
    elif not waiter.done():
        waiter.set_result(done.result())


def _fail(waiter: asyncio.Future[Accepted], error: BaseException) -> None:
    if not waiter.done():
        waiter.set_exception(error)
