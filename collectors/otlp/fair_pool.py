"""A few threads that take the waiting work of senders in turn, so that who sends much waits for itself and not the others for it."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any

from collectors.otlp.senders import Sender, of_grpc

_Piece = tuple["Future[Any]", Callable[[], Any]]
_Queues = dict[str, dict[str, deque[_Piece]]]


class FairPool:
    """Works addresses off in turn, and of one address its connections; what one connection sent stays in order."""

    def __init__(self, threads: int, name: str) -> None:
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._queues: _Queues = {}
        self._lock = threading.Lock()

    def work(self, sender: Sender, action: Callable[[], Any]) -> Future[Any]:
        """Do something for a sender on one of the threads. Raises RuntimeError after `shutdown`."""
        piece: _Piece = (Future(), action)
        with self._lock:
            connections = self._queues.setdefault(sender.address, {})
            connections.setdefault(sender.connection, deque()).append(piece)
        try:
            self._threads.submit(self._next)
        except RuntimeError:
            self._withdraw(sender, piece)
            raise
        return piece[0]

    def _withdraw(self, sender: Sender, piece: _Piece) -> None:
        """Take back what was refused. Where somebody has taken it up already, there is a call too few for what is left."""
        with self._lock:
            waiting = self._queues.get(sender.address, {}).get(sender.connection, deque())
            is_there = piece in waiting
            if is_there:
                self._drop(sender, piece)
        if not is_there:
            threading.Thread(target=self._next, daemon=True).start()

    def _drop(self, sender: Sender, piece: _Piece) -> None:
        connections = self._queues[sender.address]
        connections[sender.connection].remove(piece)
        if not connections[sender.connection]:
            del connections[sender.connection]
        if not connections:
            del self._queues[sender.address]

    def shutdown(self, wait: bool = True) -> None:
        """Take nothing more, and wait for what was taken."""
        self._threads.shutdown(wait)

    def _next(self) -> None:
        """One piece of work: there are as many calls of this as pieces."""
        future, action = self._pop()
        if not future.set_running_or_notify_cancel():
            return
        try:
            future.set_result(action())
        except BaseException as error:  # it is for who waits
            future.set_exception(error)

    def _pop(self) -> _Piece:
        """The next piece; its connection and its address go to the end of their rows."""
        with self._lock:
            address = next(iter(self._queues))
            connections = self._queues.pop(address)
            connection = next(iter(connections))
            waiting = connections.pop(connection)
            piece = waiting.popleft()
            if waiting:
                connections[connection] = waiting
            if connections:
                self._queues[address] = connections
            return piece


class GrpcPool:
    """A fair pool as grpc uses one: whose call it is stands in what is submitted."""

    def __init__(self, pool: FairPool) -> None:
        self._pool = pool

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Work off a call. Calls of unknown origin are one sender's."""
        call = next((found for one in args if (found := getattr(one, "call", None)) is not None), None)
        peer = call.peer() if call is not None else ""
        sender = of_grpc(peer.decode() if isinstance(peer, bytes) else peer)
        return self._pool.work(sender, partial(fn, *args, **kwargs))
