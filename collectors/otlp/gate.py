"""What both transports do with a request: whether it may come in, how much is in flight, unpacking, and the hand-over to the sink."""

from __future__ import annotations

import logging
import traceback
from concurrent.futures import Future

from collectors.collector import CollectorFailed
from collectors.otlp import answer
from collectors.otlp.answer import StatusCode
from collectors.otlp.body import Compression, TooLarge, unpack
from collectors.otlp.config import ReceiverConfig
from collectors.otlp.in_flight import Holding, InFlight
from collectors.otlp.senders import Recent, Sender
from collectors.otlp.tokens import BearerTokens
from collectors.sink import (
    Accepted,
    Encoding,
    IntakeMeter,
    MalformedRequest,
    Overloaded,
    RejectReason,
    Signal,
    SpanSink,
)

logger = logging.getLogger(__name__)

ACKNOWLEDGE_SECONDS = 10.0
"""How long a request waits for its data to be durable before the client is asked to send it again; clients wait 10 s."""

SHARED_FROM = 0.75
"""From this part of the room for unsettled data on, only senders that sent no more than the average lately are taken; see Recent."""

_MOST_COMPLAINTS = 256


class Refusal(Exception):
    """Why a request is not taken, as both transports say it; `retry_seconds` is set where the same may be sent again."""

    def __init__(self, http_status: int, code: StatusCode, message: str, retry_seconds: int | None = None) -> None:
        super().__init__(message)
        self.http_status = http_status
        self.code = code
        self.message = message
        self.retry_seconds = retry_seconds


class Gate:
    """The common part of a receiver. `take` may be called from any thread, the rest from one thread or several."""

    def __init__(
        self,
        name: str,
        place: str,
        config: ReceiverConfig,
        sink: SpanSink,
        meter: IntakeMeter,
        recent: Recent | None = None,
    ) -> None:
        self.name = name
        self.place = place
        self.limit = config.max_request_bytes
        self.draining = False
        self.in_flight = InFlight(config.max_in_flight_bytes)
        self._token_file = config.bearer_token_file
        self._tokens: BearerTokens | None = None
        self._sink = sink
        self._meter = meter
        self._recent = recent or Recent()
        self._complained: set[tuple[str, str]] = set()

    def open(self) -> None:
        """Read what is needed from disk; raises CollectorFailed naming the file."""
        if self._token_file is None:
            return
        try:
            self._tokens = BearerTokens(self._token_file)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise CollectorFailed(f"{self.place}: auth.bearer_token_file: {self._token_file}: {reason}") from None

    @property
    def problem(self) -> str | None:
        """What is wrong with a file that was right at the start, or None."""
        return None if self._tokens is None else self._tokens.problem

    def admit(self, authorization: str | None, sender: Sender, now: float) -> None:
        """Raise the Refusal of a request that is not to be read at all; `now` is seconds of a clock that never goes back."""
        if self.draining:
            raise self.refuse(Overloaded("this receiver is stopping"))
        if not self._knows(authorization):
            self._meter.rejected(self.name, RejectReason.UNAUTHORIZED)
            raise Refusal(
                401, StatusCode.UNAUTHENTICATED, "send Authorization: Bearer with a token that is configured here"
            )
        try:
            self._make_sure_of_room(sender, now)
        except Overloaded as error:
            raise self.refuse(error) from None

    def admits(self, authorization: str | None, sender: Sender, now: float) -> bool:
        """Whether `admit` would let a request in; counts nothing."""
        if self.draining or not self._knows(authorization):
            return False
        try:
            self._make_sure_of_room(sender, now)
        except Overloaded:
            return False
        return True

    def _knows(self, authorization: str | None) -> bool:
        return self._tokens is None or self._tokens.accept(authorization)

    def _make_sure_of_room(self, sender: Sender, now: float) -> None:
        if self.in_flight.full:
            raise Overloaded(self.in_flight.message)
        if self._sink.pressure() >= SHARED_FROM and self._recent.over_share(sender.address, now):
            raise Overloaded("room for unsettled data is short, and this sender has sent more than others", 2.0)

    def refuse(self, error: TooLarge | Overloaded | MalformedRequest) -> Refusal:
        """Count a request that never reaches the sink, and say why."""
        reasons = {TooLarge: RejectReason.TOO_LARGE, Overloaded: RejectReason.OVERLOADED}
        self._meter.rejected(self.name, reasons.get(type(error), RejectReason.MALFORMED))
        return refusal_of(error)

    def unsupported(self, message: str) -> Refusal:
        """Count a request in an encoding or compression that is not understood."""
        self._meter.rejected(self.name, RejectReason.UNSUPPORTED)
        return Refusal(415, StatusCode.INVALID_ARGUMENT, message)

    def take(
        self,
        body: bytes,
        compression: Compression,
        signal: Signal,
        encoding: Encoding,
        holding: Holding,
        now: float,
    ) -> Future[Accepted]:
        """Unpack a body and hand it to the sink; blocks, so never on an event loop. Raises Refusal.

        What the sink refuses is the sink's to count.
        """
        try:
            unpacked = unpack(body, compression, self.limit, holding.grow)
        except (TooLarge, Overloaded, MalformedRequest) as error:
            raise self.refuse(error) from None
        try:
            durable = self._sink.accept(unpacked, signal, encoding, self.name)
        except (MalformedRequest, Overloaded) as error:
            raise refusal_of(error) from None
        self._recent.note(holding.sender.address, len(unpacked), now)
        return durable

    def complain(self, peer: str, refusal: Refusal) -> None:
        """Log a refusal that a person has to look into: once per peer and status, and never what the request says."""
        key = (peer, str(refusal.http_status))
        if refusal.retry_seconds is None and key not in self._complained and len(self._complained) < _MOST_COMPLAINTS:
            self._complained.add(key)
            logger.warning("%s: refused a request of %s: %s", self.place, peer, refusal.message)


def refusal_of(error: BaseException) -> Refusal:
    """Any error on the way of a request as what the client is told."""
    if isinstance(error, Refusal):
        return error
    if isinstance(error, TooLarge):  # gRPC: Python's exporter would send RESOURCE_EXHAUSTED again and again
        return Refusal(413, StatusCode.INVALID_ARGUMENT, str(error))
    if isinstance(error, MalformedRequest):
        return Refusal(400, StatusCode.INVALID_ARGUMENT, str(error))
    if isinstance(error, Overloaded):
        return Refusal(503, StatusCode.UNAVAILABLE, str(error), answer.retry_seconds(error.retry_after_seconds))
    if isinstance(error, TimeoutError):
        return Refusal(503, StatusCode.UNAVAILABLE, "the data could not be made durable in time", 1)
    where = traceback.extract_tb(error.__traceback__)[-1:]
    logger.error("a request failed by a fault of ours: %s at %s", type(error).__name__, where)
    return Refusal(500, StatusCode.INTERNAL, "a fault of the receiver; its log says where")
