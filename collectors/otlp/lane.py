"""The short way of usual requests over HTTP: read, hand over, answer, without a task and without objects for what nobody asks of a request.

A connection begins here. With its first request that is not plain (see `plain_head`), or that is not to be let in, it becomes one of aiohttp's, which sees
that request from its first byte on and keeps the connection: whatever is unusual, wrong or refused before its body is read has one implementation.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING

from collectors.otlp import answer
from collectors.otlp.answer import StatusCode
from collectors.otlp.connections import Connections
from collectors.otlp.gate import Gate, Refusal, refusal_of
from collectors.otlp.hand_over import HandOver, is_quick
from collectors.otlp.in_flight import Holding
from collectors.otlp.plain_head import LONGEST_HEAD, PlainHead, may_become_plain, plain_head
from collectors.otlp.senders import Sender, of_socket
from collectors.sink import Accepted, MalformedRequest, Overloaded

if TYPE_CHECKING:
    from aiohttp import web
    from aiohttp.web_protocol import RequestHandler

_LOOKS = 4
"""How many times within the shorter limit a connection's time is looked at: one timer for a connection, and none for a request."""


@dataclass(frozen=True, slots=True)
class Rules:
    """What all connections of a listener have in common. Times are seconds; `date` says now as HTTP writes it."""

    gate: Gate
    hand_over: HandOver
    connections: Connections
    server: web.Server
    body_seconds: float
    idle_seconds: float
    date: Callable[[], str]


class Lanes:
    """Makes the protocol of each new connection of a listener, and ends them."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._open: set[Lane] = set()

    def __call__(self) -> asyncio.Protocol:
        """The protocol of one connection, as `loop.create_server` asks for it."""
        return Lane(self._rules, self._open)

    async def close(self, seconds: float) -> None:
        """Close what is idle, let what is under way be answered for so long, and cut off the rest."""
        ending = [lane.end() for lane in list(self._open)]
        if ending:
            await asyncio.wait(ending, timeout=seconds)
        for lane in list(self._open):
            lane.cut()


class Lane(asyncio.Protocol):
    """One connection: it waits for a head, then for the body, then for the sink, and so on."""

    def __init__(self, rules: Rules, open_lanes: set[Lane]) -> None:
        self._rules = rules
        self._open = open_lanes
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._handler: RequestHandler | None = None  # aiohttp's, once it is its connection
        self._sender = Sender("unknown", "")
        self._begun = b""  # of the next request
        self._head: PlainHead | None = None  # of the request that is being read or taken
        self._holding: Holding | None = None
        self._pieces: list[bytes | memoryview] = []
        self._missing = 0
        self._taking = False
        self._blocked = False  # answers wait to be read by the other side
        self._deadline: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._ended: asyncio.Future[None] | None = None

    # -- the connection -------------------------------------------------------------------------------------------------
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the connection, or close it at once where there are too many."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        if not self._rules.connections.take(self, transport):
            transport.close()
            return
        self._open.add(self)
        self._sender = of_socket(transport.get_extra_info("peername"))
        plug = transport.get_extra_info("socket")
        if plug is not None:
            plug.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self._deadline = self._loop.time() + self._rules.idle_seconds
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Give back what a body that will not come holds; what the sink has is the sink's."""
        self._rules.connections.release(self)
        self._open.discard(self)
        if self._timer is not None:
            self._timer.cancel()
        if self._handler is not None:
            self._handler.connection_lost(exc)
        elif self._head is not None and not self._taking:
            self._give_up()
            refusal = self._rules.gate.refuse(MalformedRequest("the body ends before its length or its last chunk"))
            self._rules.gate.complain(self._sender.address, refusal)
        if self._ended is not None and not self._ended.done():
            self._ended.set_result(None)

    def end(self) -> asyncio.Future[None]:
        """Close when nothing is under way; resolves then. aiohttp ends its own connections."""
        self._ended = self._loop.create_future()
        if self._handler is not None:
            self._ended.set_result(None)
        elif self._head is None and self._transport is not None:
            self._transport.close()
        return self._ended

    def cut(self) -> None:
        """Close at once."""
        if self._handler is None and self._transport is not None:
            self._transport.abort()

    def pause_writing(self) -> None:
        """Who does not read the answers is asked for nothing more: they would pile up here."""
        if self._handler is not None:
            self._handler.pause_writing()
        elif self._transport is not None:
            self._blocked = True
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        """See `pause_writing`."""
        if self._handler is not None:
            self._handler.resume_writing()
        elif self._blocked:
            self._blocked = False
            self._go_on()

    def eof_received(self) -> None:
        """The other side writes no more: the transport is closed, as aiohttp has it."""
        if self._handler is not None:
            self._handler.eof_received()

    def _watch(self) -> None:
        """Look whether the time for what is awaited is over, and look again later."""
        if self._deadline is not None and self._loop.time() >= self._deadline:
            self._be_late()
            return
        rules = self._rules
        self._timer = self._loop.call_later(min(rules.idle_seconds, rules.body_seconds) / _LOOKS, self._watch)

    def _be_late(self) -> None:
        assert self._transport is not None
        if self._head is not None:
            message = f"the body did not come within {self._rules.body_seconds:g} seconds"
            self._refuse(self._head, Refusal(408, StatusCode.INVALID_ARGUMENT, message))
            self._give_up()
        if self._blocked:
            self._transport.abort()  # closing would wait for the answers to be read
        self._transport.close()

    # -- a request -------------------------------------------------------------------------------------------------------
    def data_received(self, data: bytes) -> None:
        """More bytes of whatever is awaited."""
        if self._handler is not None:
            self._handler.data_received(data)
        elif self._taking or self._blocked:  # the next request before this one is answered
            self._begun += data
            assert self._transport is not None
            self._transport.pause_reading()
        elif self._head is not None:
            self._read(data)
        else:
            self._begin(self._begun + data if self._begun else data)

    def _begin(self, data: bytes) -> None:
        end = data.find(b"\r\n\r\n", 0, LONGEST_HEAD)
        if end < 0 and len(data) < LONGEST_HEAD and may_become_plain(data):
            self._begun = data
            return
        self._begun = b""
        head = plain_head(data[:end]) if end >= 0 else None
        if head is None or not self._let_in(head):
            self._pass_on(data)
            return
        self._head, self._missing = head, head.length
        self._deadline = self._loop.time() + self._rules.body_seconds
        self._read(memoryview(data)[end + 4 :])

    def _let_in(self, head: PlainHead) -> bool:
        """Hold room for the body, where the request may come in."""
        gate = self._rules.gate
        if head.length > gate.limit or not gate.admits(head.authorization, self._sender, self._loop.time()):
            return False
        holding = gate.in_flight.hold(self._sender)
        try:
            holding.grow(head.length)
        except Overloaded:
            return False
        self._holding = holding
        return True

    def _pass_on(self, data: bytes) -> None:
        """Let aiohttp have the connection, from this request on."""
        assert self._transport is not None
        if self._timer is not None:
            self._timer.cancel()
        self._transport.resume_reading()
        self._handler = self._rules.server()
        self._handler.connection_made(self._transport)
        self._handler.data_received(data)

    def _read(self, piece: bytes | memoryview) -> None:
        self._missing -= len(piece)
        if self._missing < 0:
            self._begun = bytes(piece[self._missing :])
            piece = piece[: self._missing]
        self._pieces.append(piece)
        if self._missing <= 0:
            body = b"".join(self._pieces)
            self._pieces = []
            self._take(body)

    def _take(self, body: bytes) -> None:
        head, holding, rules = self._head, self._holding, self._rules
        assert head is not None
        assert holding is not None
        self._taking, self._deadline = True, None
        now = self._loop.time()
        take = partial(rules.gate.take, body, head.compression, head.signal, head.encoding, holding, now)
        quick = is_quick(len(body), head.encoding, head.compression)
        rules.hand_over.begin(self._sender, take, quick=quick).add_done_callback(self._answer)

    def _give_up(self) -> None:
        """Nothing of the request is needed any more."""
        if self._holding is not None:
            self._holding.release()
        self._head, self._holding, self._pieces, self._taking = None, None, [], False

    def _answer(self, outcome: asyncio.Future[Accepted]) -> None:
        head, transport = self._head, self._transport
        assert head is not None
        assert transport is not None
        self._give_up()
        error = outcome.exception()
        if error is None:
            self._write(head, 200, answer.success(outcome.result(), head.signal, head.encoding))
        else:
            refusal = refusal_of(error)
            self._rules.gate.complain(self._sender.address, refusal)
            self._refuse(head, refusal)
        self._deadline = self._loop.time() + self._rules.idle_seconds
        if self._ended is not None:
            transport.close()
        elif self._begun and not self._blocked:
            self._go_on()

    def _go_on(self) -> None:
        """Begin the next request; more is read only where what is here does not make one: else each answer would let more in than it let out."""
        assert self._transport is not None
        if self._taking or self._transport.is_closing():
            return
        if self._begun:
            self._begin(self._begun)
        if not self._taking and self._handler is None:
            self._transport.resume_reading()

    def _refuse(self, head: PlainHead, refusal: Refusal) -> None:
        fields = "" if refusal.retry_seconds is None else f"Retry-After: {refusal.retry_seconds}\r\n"
        if refusal.http_status == 408:
            fields += "Connection: close\r\n"
        body = answer.failure(refusal.code, refusal.message, head.encoding)
        self._write(head, refusal.http_status, body, fields)

    def _write(self, head: PlainHead, status: int, body: bytes, fields: str = "") -> None:
        assert self._transport is not None
        if self._transport.is_closing():
            return
        start = f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\nContent-Type: {head.media_type}\r\nContent-Length: {len(body)}\r\n"
        self._transport.write(f"{start}Date: {self._rules.date()}\r\nServer: rubricd\r\n{fields}\r\n".encode() + body)
