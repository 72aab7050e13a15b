"""The threads of a receiver: who sends much waits for itself."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial
from types import SimpleNamespace

import pytest

from collectors.otlp.fair_pool import FairPool, GrpcPool
from collectors.otlp.senders import Sender


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """Opened at the end at the latest."""
    made = threading.Event()
    yield made
    made.set()


@pytest.fixture
def pool(gate: threading.Event) -> Iterator[FairPool]:
    """One thread."""
    made = FairPool(1, "test")
    yield made
    gate.set()
    made.shutdown()


def test_senders_are_worked_off_in_turn(pool: FairPool, gate: threading.Event) -> None:
    """Behind a hundred pieces of one address another address comes second; of one address its connections come in turn, each in its order."""
    done: list[object] = []
    pool.work(Sender("flood", "first"), gate.wait)
    for number in range(100):
        pool.work(Sender("flood", str(number % 2)), partial(done.append, number))
    pool.work(Sender("polite", "0"), partial(done.append, "polite"))
    gate.set()
    pool.shutdown()
    assert done.index("polite") <= 1
    assert [number for number in done if number != "polite"] == list(range(100))
    assert pool._waiting == {}


def test_as_many_threads_work_as_there_is_work() -> None:
    """Pieces that wait for each other are all under way at once, up to the number of threads; one after the other they need one thread."""
    pool, together = FairPool(3, "test"), threading.Barrier(4)
    for number in range(3):
        pool.work(Sender("a", str(number)), partial(together.wait, 5))
    together.wait(5)
    pool.shutdown()
    single, done = FairPool(3, "test"), threading.Event()
    single.work(Sender("a", "1"), done.set)
    assert done.wait(5)
    single.shutdown()
    assert (len(pool._threads), len(single._threads)) == (3, 1)


def test_a_result_and_a_fault_reach_grpc(pool: FairPool) -> None:
    """What a call returns or raises is in its future, and the threads live on; nothing is taken after the end."""

    def fails() -> None:
        raise KeyError("wrong")

    calls = GrpcPool(pool)
    with pytest.raises(KeyError):
        calls.submit(fails).result(5)
    assert calls.submit(lambda: 7).result(5) == 7
    pool.shutdown()
    with pytest.raises(RuntimeError):
        calls.submit(lambda: 7)


@pytest.mark.parametrize("peer", ["ipv4:10.0.0.1:5", b"ipv4:10.0.0.1:5"])
def test_the_sender_of_a_grpc_call_is_found_in_what_grpc_submits(
    pool: FairPool, gate: threading.Event, peer: str | bytes
) -> None:
    """Calls are queued under the address of their peer, and one without a peer is worked off as well."""
    pool.work(Sender("other", ""), gate.wait)
    event = SimpleNamespace(call=SimpleNamespace(peer=lambda: peer))
    call = GrpcPool(pool).submit(lambda function, _event: function(), lambda: 7, event)
    strange = GrpcPool(pool).submit(lambda: 8)
    assert {"10.0.0.1", "unknown"} <= set(pool._waiting)
    gate.set()
    assert (call.result(5), strange.result(5)) == (7, 8)


def test_what_comes_after_the_end_takes_nobodys_place(pool: FairPool, gate: threading.Event) -> None:
    """Work that is refused because the pool shuts down keeps nothing that was taken from being done."""
    done: list[int] = []
    pool.work(Sender("flood", "0"), gate.wait)
    for number in range(3):
        pool.work(Sender("early", "0"), partial(done.append, number))
    pool.shutdown(wait=False)
    for number in range(3):
        with pytest.raises(RuntimeError):
            pool.work(Sender(f"late{number}", "0"), str)
    gate.set()
    pool.shutdown()
    assert done == [0, 1, 2]
    assert pool._waiting == {}
