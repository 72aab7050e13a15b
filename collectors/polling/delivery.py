"""Handing what was fetched over to the sink, and waiting until it is durable."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass

from collectors.polling.clock import PollClock
from collectors.sink import Accepted, Encoding, MalformedRequest, Overloaded, Signal, SpanSink

BATCH_BYTES = 4 * 1024**2
"""Requests are joined up to this: a few large frames are cheaper than many small ones."""


@dataclass(frozen=True, slots=True)
class Parcel:
    """One OTLP export request. `file` and `end` (the offset behind it) say where it was read, for those that come from files."""

    body: bytes
    signal: Signal = Signal.TRACES
    encoding: Encoding = Encoding.PROTOBUF
    file: str = ""
    end: int = 0


class Delivery:
    """Gives requests to the sink; `send` returns when all are durable or refused for good. An overloaded sink is waited for."""

    def __init__(self, name: str, sink: SpanSink, clock: PollClock) -> None:
        self._name = name
        self._sink = sink
        self._clock = clock

    async def send(self, parcels: Sequence[Parcel]) -> list[Parcel]:
        """Deliver all, in order. What is malformed is counted by the sink, left out and given back; the others of its batch are sent one by one."""
        malformed: list[Parcel] = []
        left = [(joined, members) for joined, members in _batches(parcels)]
        while left:
            answers = await asyncio.to_thread(self._accept, [joined for joined, _ in left])
            again: list[tuple[Parcel, list[Parcel]]] = []
            wait = 0.0
            for (joined, members), answer in zip(left, answers, strict=True):
                fault = await _outcome(answer)
                if isinstance(fault, Overloaded):
                    again.append((joined, members))
                    wait = max(wait, fault.retry_after_seconds)
                elif isinstance(fault, MalformedRequest) and len(members) > 1:
                    again += [(one, [one]) for one in members]
                elif isinstance(fault, MalformedRequest):
                    malformed += members
            left = again
            if wait:
                await self._clock.sleep(wait)
        return malformed

    def _accept(self, parcels: Sequence[Parcel]) -> list[Future[Accepted] | Exception]:
        answers: list[Future[Accepted] | Exception] = []
        for parcel in parcels:
            try:
                answers.append(self._sink.accept(parcel.body, parcel.signal, parcel.encoding, self._name))
            except (MalformedRequest, Overloaded) as error:
                answers.append(error)
        return answers


async def _outcome(answer: Future[Accepted] | Exception) -> Exception | None:
    """None when the request is durable, else why it is not."""
    if isinstance(answer, Exception):
        return answer
    try:
        await asyncio.wrap_future(answer)
    except (Overloaded, MalformedRequest) as error:
        return error
    return None


def _batches(parcels: Sequence[Parcel]) -> list[tuple[Parcel, list[Parcel]]]:
    """Neighbours in protobuf joined: export requests one after the other are one export request."""
    found: list[tuple[Parcel, list[Parcel]]] = []
    members: list[Parcel] = []
    size = 0
    for parcel in parcels:
        fits = size + len(parcel.body) <= BATCH_BYTES and parcel.encoding is Encoding.PROTOBUF
        if members and (not fits or members[0].signal is not parcel.signal or members[0].encoding is Encoding.JSON):
            found.append((_joined(members), members))
            members, size = [], 0
        members.append(parcel)
        size += len(parcel.body)
    if members:
        found.append((_joined(members), members))
    return found


def _joined(members: list[Parcel]) -> Parcel:
    first = members[0]
    return first if len(members) == 1 else Parcel(b"".join(one.body for one in members), first.signal, first.encoding)
