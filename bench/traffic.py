"""Traffic of our own: OTLP requests of agents' invocations, and a generator that sends them in processes of their own.

An invocation is eight spans as a tool-using agent leaves them: three model calls with 1.5 to 6 kB of messages, two tools with what they asked of others, and
the agent. About 18 kB on the wire. Requests are made once; each one sent has trace ids of its own.
"""

from __future__ import annotations

import itertools
import json
import multiprocessing
import os
import random
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

SPANS = 8
MARK = b"\xfe\xca\xad\xde\xfa\xce\xb0\x0c"
"""The first half of every trace id in a template; replaced before it is sent."""
MARK_HEX = MARK.hex().encode()
WORDS = [
    "your",
    "booking",
    "order",
    "table",
    "invoice",
    "parcel",
    "refund",
    "is",
    "was",
    "could",
    "not",
    "be",
    "found",
    "confirmed",
    "moved",
    "delayed",
    "for",
    "the",
    "two",
    "four",
    "guests",
    "evening",
    "morning",
    "Friday",
    "address",
    "street",
    "please",
    "thank",
    "you",
    "kindly",
    "checked",
    "again",
    "status",
    "open",
    "closed",
    "paid",
    "amount",
    "euros",
    "ticket",
    "seat",
    "window",
    "train",
    "platform",
    "arrives",
    "leaves",
    "at",
]


def text(dice: random.Random, length: int) -> str:
    """Words of about so many characters."""
    found: list[str] = []
    size = 0
    while size < length:
        found.append(dice.choice(WORDS) if dice.random() > 0.05 else str(dice.randrange(10**6)))
        size += len(found[-1]) + 1
    return " ".join(found)


class Template:
    """A request whose trace ids are put in when it is sent."""

    def __init__(self, body: bytes, spans: int, mark: bytes = MARK) -> None:
        self._parts = body.split(mark)
        self._mark = mark
        self.spans = spans
        self.size = len(body)

    def body(self, unique: bytes) -> bytes:
        """The request with these eight bytes in its trace ids."""
        return (unique if self._mark is MARK else unique.hex().encode()).join(self._parts)


def templates(
    count: int, invocations: int = 8, seed: int = 1, as_json: bool = False, small: bool = False
) -> list[Template]:
    """Requests of so many invocations each, in protobuf or in OTLP/JSON; `small` leaves out what was said."""
    dice = random.Random(seed)
    made = [_request(dice, range(number * invocations, (number + 1) * invocations)) for number in range(count)]
    for span in [span for one in made for span in one.resource_spans[0].scope_spans[0].spans if small]:
        del span.attributes[1:]
    if as_json:
        return [Template(_as_json(one), invocations * SPANS, MARK_HEX) for one in made]
    return [Template(one.SerializeToString(), invocations * SPANS) for one in made]


def _request(dice: random.Random, numbers: Sequence[int]) -> Any:
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    request = ExportTraceServiceRequest()
    resource = request.resource_spans.add()
    for key, value in {
        "service.name": "bookings",
        "service.version": "2.1",
        "deployment.environment.name": "production",
    }.items():
        _put(resource.resource, key, value)
    scope = resource.scope_spans.add()
    scope.scope.name = "bench.traffic"
    for number in numbers:
        _invocation(dice, scope.spans, number)
    return request


def _invocation(dice: random.Random, spans: Any, number: int) -> None:
    begins, session = time.time_ns() - 4_000_000_000, f"conversation-{dice.randrange(500)}"
    trace = MARK + number.to_bytes(8, "big")
    parts: list[tuple[str, str, dict[str, Any]]] = []
    for turn in range(3):
        parts.append((f"chat {turn}", "agent", _chat(dice, session, last=turn == 2)))
        if turn < 2:
            tool = dice.choice(("find_table", "book_table", "cancel_booking"))
            parts.append((f"execute_tool {tool}", "agent", _tool(dice, tool)))
            parts.append(
                (
                    f"GET /{tool}",
                    f"execute_tool {tool}",
                    {"http.request.method": "GET", "http.response.status_code": 200, "note": text(dice, 400)},
                )
            )
    ids: dict[str, bytes] = {"agent": b"\x01" * 8}
    for place, (name, parent, attributes) in enumerate(parts):
        ids[name] = bytes([2 + place]) * 8
        _span(spans, trace, ids[name], ids[parent], name, begins + place * 10**8, attributes)
    root = {
        "gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "booking-agent", "gen_ai.conversation.id": session,
        "gen_ai.input.messages": _message("user", text(dice, 200)), "gen_ai.output.messages": _message("assistant", text(dice, 400)),
    }  # fmt: skip
    _span(spans, trace, ids["agent"], b"", "invoke_agent booking-agent", begins, root)


def _chat(dice: random.Random, session: str, last: bool) -> dict[str, Any]:
    return {
        "gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai", "gen_ai.request.model": "gpt-4o-mini",
        "gen_ai.response.finish_reasons": "stop" if last else "tool_calls", "gen_ai.usage.input_tokens": dice.randrange(200, 4000),
        "gen_ai.usage.output_tokens": dice.randrange(20, 500), "gen_ai.conversation.id": session,
        "gen_ai.input.messages": _message("user", text(dice, dice.randrange(1200, 5000))),
        "gen_ai.output.messages": _message("assistant", text(dice, dice.randrange(300, 1000))),
    }  # fmt: skip


def _tool(dice: random.Random, tool: str) -> dict[str, Any]:
    return {
        "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": tool, "gen_ai.tool.call.id": f"call_{dice.randrange(10**9)}",
        "gen_ai.tool.call.arguments": json.dumps({"guests": dice.randrange(1, 9), "note": text(dice, 60)}),
        "gen_ai.tool.call.result": text(dice, 300),
    }  # fmt: skip


def _message(role: str, content: str) -> str:
    return json.dumps([{"role": role, "parts": [{"type": "text", "content": content}]}])


def _span(
    spans: Any, trace: bytes, span: bytes, parent: bytes, name: str, begins: int, attributes: dict[str, Any]
) -> None:
    made = spans.add(
        trace_id=trace, span_id=span, parent_span_id=parent, name=name, kind=1, start_time_unix_nano=begins, end_time_unix_nano=begins + 9 * 10**7
    )  # fmt: skip
    for key, value in attributes.items():
        _put(made, key, value)


def _put(holder: Any, key: str, value: Any) -> None:
    one = holder.attributes.add(key=key)
    if isinstance(value, int):
        one.value.int_value = value
    else:
        one.value.string_value = value


def _as_json(request: Any) -> bytes:
    """OTLP/JSON: protobuf's JSON with ids in hex."""
    from google.protobuf.json_format import MessageToDict

    found = MessageToDict(request)
    for span in found["resourceSpans"][0]["scopeSpans"][0]["spans"]:
        for name in ("traceId", "spanId", "parentSpanId"):
            if name in span:
                span[name] = _hex(span[name])
    return json.dumps(found).encode()


def _hex(base64_text: str) -> str:
    import base64

    return base64.b64decode(base64_text).hex()


# -- sending ------------------------------------------------------------------------------------------------------------------
class Refused(Exception):
    """The server asked to come again."""


class HttpSender:
    """One connection, one request after the other."""

    def __init__(self, port: int, content_type: str = "application/x-protobuf") -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._head = f"POST /v1/traces HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: {content_type}\r\nContent-Length: "
        self._answers = self._socket.makefile("rb")

    def send(self, body: bytes) -> None:
        """Send and wait for the acknowledgement; raises Refused or ConnectionError."""
        self._socket.sendall(f"{self._head}{len(body)}\r\n\r\n".encode() + body)
        status = self._answers.readline().split()
        if not status:
            raise ConnectionError("closed")
        length = 0
        while (line := self._answers.readline()) not in (b"\r\n", b""):
            if line.lower().startswith(b"content-length:"):
                length = int(line[15:])
        self._answers.read(length)
        if status[1] != b"200":
            raise Refused(status[1].decode())

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()


class GrpcSender:
    """One channel."""

    def __init__(self, port: int) -> None:
        import grpc

        self._grpc = grpc
        self._channel = grpc.insecure_channel(f"127.0.0.1:{port}", [("grpc.use_local_subchannel_pool", 1)])
        self._export = self._channel.unary_unary("/opentelemetry.proto.collector.trace.v1.TraceService/Export")

    def send(self, body: bytes) -> None:
        """Send and wait for the acknowledgement; raises Refused."""
        try:
            self._export(body, timeout=60)
        except self._grpc.RpcError as error:
            raise Refused(error.code().name) from None

    def close(self) -> None:
        """Close the channel."""
        self._channel.close()


@dataclass
class Sent:
    """What a generator did: spans acknowledged, requests refused, milliseconds of each acknowledgement, seconds from first to last."""

    spans: int = 0
    refused: int = 0
    seconds: float = 0.0
    acknowledged_ms: list[float] = field(default_factory=list)

    def quantile(self, share: float) -> float:
        """An acknowledgement time, in milliseconds."""
        ordered = sorted(self.acknowledged_ms)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else float("nan")


@dataclass(frozen=True)
class Load:
    """How to send: by `way` (http, json, grpc) to a port, `senders` at a time, for `seconds` or until `spans`; spans a second at most `rate`.

    `small`: without what was said, about 100 bytes a span, for backlogs of millions.
    """

    way: str
    port: int
    seconds: float
    senders: int = 8
    rate: float | None = None
    spans: int | None = None
    invocations: int = 8
    templates: int = 8
    seed: int = 1
    small: bool = False


def send(load: Load) -> Sent:
    """Send from a process of its own, so that the caller's own work is not in its way, and report."""
    context = multiprocessing.get_context("spawn")
    receiving, sending = context.Pipe(duplex=False)
    process = context.Process(target=_generate, args=(load, sending), daemon=True)
    process.start()
    sending.close()
    try:
        found: Sent = receiving.recv()
    finally:
        process.join(30)
    return found


def _generate(load: Load, report: Any) -> None:
    made = templates(load.templates, load.invocations, load.seed, as_json=load.way == "json", small=load.small)
    serials = itertools.count(int.from_bytes(os.urandom(4), "big") << 24)
    total, lock = Sent(), threading.Lock()
    begins = time.monotonic() + 0.05
    threads = [
        threading.Thread(target=_one_sender, args=(load, made, serials, begins, total, lock, n))
        for n in range(load.senders)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    total.seconds = time.monotonic() - begins
    report.send(total)


def _one_sender(
    load: Load,
    made: list[Template],
    serials: Iterator[int],
    begins: float,
    total: Sent,
    lock: threading.Lock,
    first: int,
) -> None:
    sender = _sender(load.way, load.port)
    own, most = Sent(), load.spans / load.senders if load.spans else float("inf")
    pace = load.senders / load.rate if load.rate else 0.0
    time.sleep(max(0.0, begins - time.monotonic()))
    for template in itertools.islice(itertools.cycle(made), first, None):
        due = begins + own.spans * pace if pace else time.monotonic()
        if own.spans >= most or max(due, time.monotonic()) > begins + load.seconds:
            break
        time.sleep(max(0.0, due - time.monotonic()))
        due = due if pace else time.monotonic()
        try:
            sender.send(template.body(next(serials).to_bytes(8, "big")))
        except Refused:
            own.refused += 1
            time.sleep(0.1)
            continue
        own.acknowledged_ms.append((time.monotonic() - due) * 1e3)
        own.spans += template.spans
    sender.close()
    with lock:
        total.spans += own.spans
        total.refused += own.refused
        total.acknowledged_ms += own.acknowledged_ms


def _sender(way: str, port: int) -> HttpSender | GrpcSender:
    if way == "grpc":
        return GrpcSender(port)
    return HttpSender(port, "application/json" if way == "json" else "application/x-protobuf")
