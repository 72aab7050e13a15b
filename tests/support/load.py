"""Agent runs as export requests, and raw senders: what drives a real receiver hard, without an SDK in between."""

from __future__ import annotations

import http.client
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import grpc

from tests.collectors.otlp.build import span, traces
from tests.support.agents import messages

PROTOBUF = {"Content-Type": "application/x-protobuf"}
EXPORT = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
RESOURCE = {"service.name": "shop-bot", "deployment.environment.name": "test"}


@dataclass(frozen=True, slots=True)
class Run:
    """One agent run: its trace id (hex) and its requests in the order that an SDK sends them, children first."""

    trace_id: str
    requests: tuple[bytes, ...]


def agent_run(tools: int = 2, *, split: bool = False, one_by_one: bool = False, pad: int = 0) -> Run:
    """A run with tool calls that ended a moment ago: in one request, in two (`split`), or each span by itself; `pad` bytes are in an attribute."""
    trace, root = os.urandom(16), os.urandom(8)
    ended = time.time_ns()
    children = [
        span(
            trace,
            os.urandom(8),
            {
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": "book_table",
                "gen_ai.tool.call.id": f"call{number}",
                "gen_ai.tool.call.arguments": '{"party_size": 4}',
                "gen_ai.tool.call.result": '"ok"',
            },
            parent_span_id=root,
            name="execute_tool book_table",
            start_time_unix_nano=ended - 2_000_000 * (tools - number) - 1_000_000,
            end_time_unix_nano=ended - 2_000_000 * (tools - number),
        )
        for number in range(tools)
    ]
    attributes = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "shop-bot",
        "gen_ai.input.messages": messages(("user", "A table, please.")),
        "gen_ai.output.messages": messages(("assistant", "Done.")),
        "app.payload": "x" * pad,
    }
    whole = span(
        trace,
        root,
        attributes,
        name="invoke_agent shop-bot",
        start_time_unix_nano=ended - 50_000_000,
        end_time_unix_nano=ended,
    )
    if one_by_one:
        return Run(trace.hex(), tuple(traces(one, resource=RESOURCE) for one in (*children, whole)))
    if split:
        return Run(trace.hex(), (traces(*children, resource=RESOURCE), traces(whole, resource=RESOURCE)))
    return Run(trace.hex(), (traces(*children, whole, resource=RESOURCE),))


class Poster(Protocol):
    """Sends one request at a time."""

    def post(self, body: bytes) -> bool:
        """Whether it was acknowledged; False when it was refused or nobody answered."""
        ...

    def close(self) -> None:
        """Let the connection go."""
        ...


class HttpPoster:
    """One kept connection to an OTLP/HTTP port, from an address of its own where one is given."""

    def __init__(self, port: int, source: str | None = None, headers: Mapping[str, str] = PROTOBUF) -> None:
        self._connection = http.client.HTTPConnection(
            "127.0.0.1", port, timeout=30, source_address=(source, 0) if source else None
        )
        self._headers = dict(headers)
        self._used: set[int] = set()
        self.status = 0

    def post(self, body: bytes) -> bool:
        """See Poster; `status` is that of the last answer."""
        try:
            self._connection.request("POST", "/v1/traces", body, self._headers)
            self._used.add(self._connection.sock.getsockname()[1])
            answer = self._connection.getresponse()
            answer.read()
        except (OSError, http.client.HTTPException):
            self._connection.close()  # the next request connects again
            return False
        self.status = answer.status
        return answer.status == 200

    @property
    def connections(self) -> int:
        """How many connections were used, by their ports."""
        return len(self._used)

    def close(self) -> None:
        """See Poster."""
        self._connection.close()


class GrpcPoster:
    """One channel to an OTLP/gRPC port."""

    def __init__(self, port: int) -> None:
        self._channel = grpc.insecure_channel(
            f"127.0.0.1:{port}",
            options=[("grpc.max_send_message_length", -1), ("grpc.use_local_subchannel_pool", 1)],
        )
        self._call = self._channel.unary_unary(EXPORT)
        self.code = grpc.StatusCode.OK

    def post(self, body: bytes) -> bool:
        """See Poster; `code` is that of the last answer."""
        try:
            self._call(body, timeout=30)
        except grpc.RpcError as error:
            self.code = error.code()
            return False
        self.code = grpc.StatusCode.OK
        return True

    def close(self) -> None:
        """See Poster."""
        self._channel.close()
