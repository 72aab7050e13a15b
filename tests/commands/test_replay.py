"""Recorded requests made fresh, and sent as an exporter sends them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from collectors.otlp.file import read_file
from collectors.otlp.request import decode
from collectors.otlp.rewrite import Rewrite, latest_time, rewritten
from collectors.otlp.sender import NotDelivered, sender
from collectors.sink import Signal
from monitor.assembly import AssemblyContext, assemble
from monitor.cli import main
from monitor.model.invocation import SettledBy
from monitor.resources import config_folder

FILE = config_folder() / "demo" / "order-support.otlp.jsonl"


def test_a_rewritten_run_is_the_same_run_under_another_id() -> None:
    """New trace ids and shifted times change nothing else: the invocation is the same but for id and times."""
    body, signal = next(iter(read_file(FILE)))
    fresh = rewritten(body, signal, Rewrite(5_000_000_000, "salt"))
    before, after = decode(body, signal).spans, decode(fresh, signal).spans
    assert latest_time(fresh, signal) == latest_time(body, signal) + 5_000_000_000
    assert {span.trace_id for span in before}.isdisjoint(span.trace_id for span in after)
    assert [span.span_id for span in before] == [span.span_id for span in after]
    context = AssemblyContext(SettledBy.IDLE, "file")
    (old,), (new,) = assemble(before, [], context), assemble(after, [], context)
    assert new.invocation.started_at - old.invocation.started_at == 5_000_000_000
    assert (new.invocation.user_input, new.invocation.final_response) == (
        old.invocation.user_input,
        old.invocation.final_response,
    )
    assert new.invocation.conversation_id != old.invocation.conversation_id or old.invocation.conversation_id is None
    assert [call.arguments for call in new.invocation.tool_calls] == [
        call.arguments for call in old.invocation.tool_calls
    ]


def test_one_salt_gives_one_id() -> None:
    """Spans and log records of a trace stay together: the new id depends on the old one and the salt alone."""
    trace_id = bytes(range(16))
    assert (
        Rewrite(salt="a").trace_id(trace_id)
        == Rewrite(salt="a").trace_id(trace_id)
        != Rewrite(salt="b").trace_id(trace_id)
    )
    assert Rewrite(5).trace_id(trace_id) == trace_id


class Endpoint:
    """An OTLP/HTTP endpoint that answers by script and keeps what came."""

    def __init__(self, statuses: list[int]) -> None:
        self.bodies: list[bytes] = []
        self.paths: list[str] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                outer.bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
                outer.paths.append(self.path)
                self.send_response(statuses.pop(0) if statuses else 200)
                self.send_header("Retry-After", "0")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def endpoints() -> Iterator[list[Endpoint]]:
    """Endpoints to be closed at the end of the test."""
    opened: list[Endpoint] = []
    yield opened
    for endpoint in opened:
        endpoint.server.shutdown()
        endpoint.server.server_close()


def test_what_is_retryable_is_sent_again(endpoints: list[Endpoint]) -> None:
    """503 is retried with the same bytes; 400 is not, and says what was answered."""
    endpoint = Endpoint([503, 503])
    endpoints.append(endpoint)
    sender(endpoint.url).send(b"x", Signal.LOGS)
    assert endpoint.bodies == [b"x"] * 3
    assert set(endpoint.paths) == {"/v1/logs"}
    refusing = Endpoint([400])
    endpoints.append(refusing)
    with pytest.raises(NotDelivered, match="answered 400"):
        sender(refusing.url).send(b"x", Signal.TRACES)
    assert len(refusing.bodies) == 1


def test_replay_sends_every_request_in_order(endpoints: list[Endpoint], capsys: pytest.CaptureFixture[str]) -> None:
    """A file arrives byte for byte without options; with --shift-to-now under other ids; an unknown scheme is status 2."""
    endpoint = Endpoint([])
    endpoints.append(endpoint)
    assert main(["replay", str(FILE), "--endpoint", endpoint.url]) == 0
    assert endpoint.bodies == [body for body, _ in read_file(FILE)]
    endpoint.bodies.clear()
    assert main(["replay", str(FILE), "--endpoint", endpoint.url, "--shift-to-now"]) == 0
    ids = [{span.trace_id for span in decode(body, Signal.TRACES).spans} for body in endpoint.bodies]
    recorded = [{span.trace_id for span in decode(body, signal).spans} for body, signal in read_file(FILE)]
    assert all(new.isdisjoint(old) for new, old in zip(ids, recorded, strict=True))
    assert main(["replay", str(FILE), "--endpoint", "ftp://x"]) == 2
    assert "is no OTLP endpoint" in capsys.readouterr().err


@pytest.mark.parametrize("rate", ["0", "-1", "nan", "inf"])
def test_a_rate_is_a_number_above_nothing(rate: str, capsys: pytest.CaptureFixture[str]) -> None:
    """What is no rate ends with 2 before anything is sent."""
    assert main(["replay", str(FILE), "--endpoint", "http://localhost:1", f"--rate={rate}"]) == 2
    assert "spans per second are a number above 0" in capsys.readouterr().err
