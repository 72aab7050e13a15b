"""From the event loop to the sink and back."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from concurrent.futures import Future

import pytest

from collectors.otlp.body import Compression
from collectors.otlp.hand_over import QUICK_BYTES, HandOver, is_quick
from collectors.otlp.senders import Sender
from collectors.sink import Accepted, Encoding, Overloaded

SENDER = Sender("10.0.0.1", "1")


@pytest.fixture
async def hand_over() -> AsyncIterator[HandOver]:
    """One that waits for long."""
    made = HandOver("test", 10)
    yield made
    await made.close()


def done(outcome: Accepted | Exception) -> Future[Accepted]:
    made: Future[Accepted] = Future()
    if isinstance(outcome, Accepted):
        made.set_result(outcome)
    else:
        made.set_exception(outcome)
    return made


async def test_outcomes_come_back_to_who_waits(hand_over: HandOver) -> None:
    """What the sink answers, what it raises at once and what its future fails with, each to its own request."""

    def refuse() -> Future[Accepted]:
        raise Overloaded("full")

    takes = (lambda: done(Accepted(3)), refuse, lambda: done(Overloaded("disk")))
    outcomes = [hand_over.begin(SENDER, take, quick=True) for take in takes]
    found = await asyncio.gather(*outcomes, return_exceptions=True)
    assert [str(one) for one in found] == [str(Accepted(3)), "full", "disk"]


async def test_each_request_is_given_up_at_its_own_time() -> None:
    """Requests that are never durable fail each when its time is over, those answered meanwhile do not, and the sink's futures live on."""
    hand_over = HandOver("test", 0.25)
    futures: list[Future[Accepted]] = [Future() for _ in range(3)]
    waiting = [hand_over.begin(SENDER, lambda one=one: one, quick=True) for one in futures]  # type: ignore[misc]
    futures[1].set_result(Accepted(1))
    assert await waiting[1] == Accepted(1)
    waiting.append(hand_over.begin(SENDER, Future, quick=True))
    for one in (waiting[0], waiting[2], waiting[3]):
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(one, 5)
    assert not futures[0].cancelled()
    await hand_over.close()


async def test_what_takes_long_keeps_nobody_waiting(hand_over: HandOver) -> None:
    """Usual requests are answered while a long one is being taken apart."""
    go = threading.Event()
    slow = hand_over.begin(SENDER, lambda: done(Accepted(int(go.wait(5)))), quick=False)
    assert await hand_over.begin(SENDER, lambda: done(Accepted(2)), quick=True) == Accepted(2)
    go.set()
    assert await slow == Accepted(1)


def test_only_small_plain_protobuf_is_quick() -> None:
    """JSON, packed and large bodies go to the other threads."""
    assert is_quick(QUICK_BYTES, Encoding.PROTOBUF, Compression.NONE)
    assert not is_quick(QUICK_BYTES + 1, Encoding.PROTOBUF, Compression.NONE)
    assert not is_quick(1, Encoding.JSON, Compression.NONE)
    assert not is_quick(1, Encoding.PROTOBUF, Compression.GZIP)
