"""A few threads that take the waiting work of senders in turn, so that who sends much waits for itself and not the others for it."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from queue import SimpleQueue
from typing import Any

from collectors.otlp.senders import Sender, of_grpc

Action = Callable[[], object]
"""What is done on a thread. It does not raise: nobody would learn of it."""


class FairPool:
    """Works addresses off in turn, and of one address its connections; what one connection sent stays in order."""

    def __init__(self, threads: int, name: str) -> None:
        """A thread is started when there is more to do than threads."""
        self._waiting: dict[str, dict[str, deque[Action]]] = {}
        self._calls: SimpleQueue[bool] = SimpleQueue()  # one for each piece of work; False ends a thread
        self._lock = threading.Lock()
        self._closed = False
        self._unfinished = 0
        self._name = name
        self._most = threads
        self._threads: list[threading.Thread] = []

    def work(self, sender: Sender, action: Action) -> None:
        """Do something for a sender on one of the threads. Raises RuntimeError after `shutdown`."""
        with self._lock:
            if self._closed:
                raise RuntimeError("nothing is taken after the shutdown")
            self._unfinished += 1
            if len(self._threads) < min(self._unfinished, self._most):
                self._start()
            connections = self._waiting.setdefault(sender.address, {})
            connections.setdefault(sender.connection, deque()).append(action)
            self._calls.put(True)

    def _start(self) -> None:
        thread = threading.Thread(target=self._run, name=f"{self._name}_{len(self._threads)}", daemon=True)
        thread.start()
        self._threads.append(thread)

    def shutdown(self, wait: bool = True) -> None:
        """Take nothing more, and wait for what was taken."""
        with self._lock:
            if not self._closed:
                self._closed = True
                for _ in self._threads:
                    self._calls.put(False)  # behind all work
        for thread in self._threads if wait else ():
            thread.join()

    def _run(self) -> None:
        while self._calls.get():
            self._pop()()
            with self._lock:
                self._unfinished -= 1

    def _pop(self) -> Action:
        """The next piece; its connection and its address go to the end of their rows."""
        with self._lock:
            address = next(iter(self._waiting))
            connections = self._waiting.pop(address)
            connection = next(iter(connections))
            waiting = connections.pop(connection)
            action = waiting.popleft()
            if waiting:
                connections[connection] = waiting
            if connections:
                self._waiting[address] = connections
            return action


class GrpcPool:
    """A fair pool as grpc uses one: whose call it is stands in what is submitted."""

    def __init__(self, pool: FairPool) -> None:
        self._pool = pool

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Work off a call. Calls of unknown origin are one sender's."""
        call = next((found for one in args if (found := getattr(one, "call", None)) is not None), None)
        peer = call.peer() if call is not None else ""
        sender = of_grpc(peer.decode() if isinstance(peer, bytes) else peer)
        future: Future[Any] = Future()
        self._pool.work(sender, partial(_resolve, future, partial(fn, *args, **kwargs)))
        return future


def _resolve(future: Future[Any], action: Action) -> None:
    """What an action returns or raises is for who waits."""
    if not future.set_running_or_notify_cancel():
        return
    try:
        future.set_result(action())
    except BaseException as error:
        future.set_exception(error)
