"""Health, readiness, metrics and reload."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import io
import json
import logging
import threading
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from aiohttp import ClientConnectionError
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from collectors.otlp import connections
from monitor.server import bodies, listener
from monitor.server.context import Phase, Readiness
from monitor.server.listener import MAX_BODY_BYTES
from monitor.settings.document import ConfigurationError, Fault
from monitor.store.protocol import StoreUnwritable
from tests.contracts.store_material import SECRET, draw_and_claim, invocation, verdict_of
from tests.server.serving import Served, serving

OPENMETRICS = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5"


@pytest.mark.parametrize("phase", list(Phase))
async def test_readiness(served: Served, phase: Phase) -> None:
    """/readyz is 503 while starting, draining or unable to write, and says which; /healthz does not care."""
    served.program.readiness = Readiness(phase, "disk full" if phase is Phase.UNWRITABLE else "")
    status, found = await served.get("/readyz")
    assert (status, found["status"]) == (200 if phase is Phase.READY else 503, phase.value)
    assert found["detail"] == ("disk full" if phase is Phase.UNWRITABLE else None)
    assert (await served.get("/healthz"))[0] == 200


async def test_a_failing_judge_or_source_is_shown_and_not_unready(served: Served) -> None:
    """A damaged journal and a collector or judge that fails show in the body of /readyz and leave it 200."""
    served.program.readiness = Readiness(Phase.READY, damage="segment 7: corrupt")
    served.program.collectors = [{"name": "otlp", "problem": None}, {"name": "tempo/prod", "problem": "503 for 5 m"}]
    served.program.judges = [{"name": "default", "problem": "unauthorized"}]
    status, found = await served.get("/readyz")
    assert (status, found["problems"]) == (
        200,
        [
            {"kind": "journal", "name": "journal", "problem": "segment 7: corrupt"},
            {"kind": "collector", "name": "tempo/prod", "problem": "503 for 5 m"},
            {"kind": "judge", "name": "default", "problem": "unauthorized"},
        ],
    )


async def test_metrics(served: Served) -> None:
    """/metrics is OpenMetrics when asked for and text otherwise, the store's figures on it."""
    (evaluation,) = draw_and_claim(served.store, invocation("a"))
    served.store.finish_evaluations([(evaluation, verdict_of(evaluation))])
    async with served.session.get(f"{served.url}/metrics") as answer:
        assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
        assert 'verdict="pass"} 1.0' in await answer.text()
    async with served.session.get(f"{served.url}/metrics", headers={"Accept": OPENMETRICS}) as answer:
        assert answer.headers["Content-Type"].startswith("application/openmetrics-text; version=1.0.0")
        families = {family.name for family in text_string_to_metric_families(await answer.text())}
    assert {"rubricd_verdicts", "rubricd_pass_rate_ratio", "rubricd_invocations", "rubricd_build"} <= families


async def test_large_pages_are_compressed(served: Served) -> None:
    """A large page of metrics is compressed for who takes gzip, and only then."""
    claimed = draw_and_claim(served.store, *(invocation(str(n), agent_name=f"agent-{n}") for n in range(40)))
    served.store.finish_evaluations([(evaluation, verdict_of(evaluation)) for evaluation in claimed])
    async with served.session.get(f"{served.url}/metrics", headers={"Accept-Encoding": "identity"}) as answer:
        plain, encoding = await answer.text(), answer.headers.get("Content-Encoding")
    assert (encoding, len(plain) > 16_384) == (None, True)
    async with served.session.get(f"{served.url}/metrics", headers={"Accept-Encoding": "gzip"}) as answer:
        assert answer.headers["Content-Encoding"] == "gzip"
        assert await answer.text() == plain


async def test_reload(served: Served) -> None:
    """A reload answers when it is done; one that is refused names every fault and the rest of the program goes on."""
    calls = []
    served.program.reload = lambda: calls.append(1)
    assert await served.send("POST", "/-/reload") == (200, {"status": "reloaded"})
    assert calls == [1]

    def refuse() -> None:
        raise ConfigurationError([Fault("r.yaml", 3, "monitors.a", "is no key"), Fault("r.yaml", 9, "x", "is missing")])

    served.program.reload = refuse
    status, found = await served.send("POST", "/-/reload")
    assert (status, found["faults"]) == (400, ["r.yaml:3: monitors.a: is no key", "r.yaml:9: x: is missing"])
    assert (await served.get("/healthz"))[0] == 200


async def test_a_store_that_cannot_be_written(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """Erasing while the store cannot be written is answered 503 with the reason."""

    def full(**_: str) -> int:
        raise StoreUnwritable("rubricd-data/rubricd.db: the disk is full")

    monkeypatch.setattr(type(served.store), "forget", lambda self, **arguments: full(**arguments))
    status, found = await served.send("DELETE", "/api/v1/invocations", {"conversation_id": "c"})
    assert (status, found["detail"]) == (503, "rubricd-data/rubricd.db: the disk is full")


async def test_an_unforeseen_fault(
    served: Served, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A fault nobody thought of is a 500 without its message, in answer and log: it could quote content."""

    def broken(self: object, _invocation_id: str) -> None:
        raise RuntimeError(f"cannot decode {SECRET}")

    monkeypatch.setattr(type(served.store), "invocation", broken)
    status, found = await served.get("/api/v1/invocations/a")
    assert status == 500
    assert SECRET not in str(found) + caplog.text
    assert "GET /api/v1/invocations/{id}: RuntimeError at " in caplog.text


async def test_every_answer_carries_the_headers(served: Served) -> None:
    """No answer may be cached, sniffed or framed, or tells what it is made with; errors included."""
    for path in ("/metrics", "/healthz", "/api/v1/verdicts", "/nothing", "/api/v1/verdicts?limit=x"):
        async with served.session.get(served.url + path) as answer:
            assert answer.headers["Cache-Control"] == "no-store"
            assert answer.headers["X-Content-Type-Options"] == "nosniff"
            assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
            assert answer.headers["Server"] == "rubricd"


async def test_slow_listings_hold_up_no_probe(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """While every thread of the API waits for the store, health, readiness and metrics are answered."""
    going_on, waiting = threading.Event(), threading.Semaphore(0)
    listed = type(served.store).list_verdicts

    def slow(self: object, query: object) -> object:
        waiting.release()
        going_on.wait(10)
        return listed(self, query)  # type: ignore[arg-type]

    monkeypatch.setattr(type(served.store), "list_verdicts", slow)
    listings = [asyncio.create_task(served.get("/api/v1/verdicts")) for _ in range(8)]
    for _ in range(4):
        assert await asyncio.to_thread(waiting.acquire, timeout=10)
    try:
        async with asyncio.timeout(5):
            for path in ("/healthz", "/readyz", "/metrics"):
                async with served.session.get(served.url + path) as answer:
                    assert answer.status == 200
    finally:
        going_on.set()
    assert [status for status, _ in await asyncio.gather(*listings)] == [200] * 8


@pytest.mark.parametrize("path", ["/-/reload", "/api/v1/labels", "/nothing"])
async def test_large_requests_are_refused(served: Served, path: str) -> None:
    """A body past the limit is refused by its length, unread, and the server goes on serving."""
    async with served.session.post(served.url + path, data=io.BytesIO(b"x" * (MAX_BODY_BYTES + 1))) as answer:
        assert answer.status == 413
        assert answer.headers["Content-Type"] == "application/problem+json"
    assert (await served.get("/healthz"))[0] == 200


async def test_what_is_no_http_is_a_problem_without_content(served: Served) -> None:
    """Bytes that are no HTTP are answered with a problem that does not quote them."""
    address = urlsplit(served.url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    writer.write(b"secret \x00 nonsense\r\n\r\n")
    async with asyncio.timeout(5):
        head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    writer.close()
    assert b" 400 " in head.splitlines()[0]
    assert b"application/problem+json" in head
    assert json.loads(body)["detail"] == "this is no HTTP request"
    assert b"secret" not in head + body


@pytest.mark.parametrize("path", ["/-/reload", "/sign-in", "/nothing"])
async def test_a_body_that_does_not_come_is_given_up(
    tmp_path: Path, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half a body is answered when its time is over, where the body is read by 408, and the connection ends."""
    monkeypatch.setattr(bodies, "BODY_SECONDS", 0.1)
    monkeypatch.setattr(listener, "LINGER_SECONDS", 0.1)
    async with serving(tmp_path) as served:
        reader, writer = await half_a_body(served, path)
        async with asyncio.timeout(5):
            answer = await reader.read()
        writer.close()
    assert answer.startswith(b"HTTP/1.1 404" if path == "/nothing" else b"HTTP/1.1 408")


@pytest.mark.parametrize("path", ["/-/reload", "/sign-in"])
async def test_a_body_that_breaks_off_is_no_fault_of_ours(
    served: Served, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A client that goes away in its body is a line for who debugs, and no more."""
    caplog.set_level(logging.DEBUG)
    _, writer = await half_a_body(served, path)
    assert (await served.get("/healthz"))[0] == 200
    writer.close()
    async with asyncio.timeout(5):
        while "a body could not be read" not in caplog.text:
            await asyncio.sleep(0)
    assert (await served.get("/healthz"))[0] == 200
    assert not [entry for entry in caplog.records if entry.levelno > logging.INFO]


async def test_what_follows_the_last_request_of_a_connection_is_ignored(served: Served) -> None:
    """Behind `Connection: close` nothing more is read: the request is answered as ever."""
    address = urlsplit(served.url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    head = f"GET /healthz HTTP/1.1\r\nHost: {address.netloc}\r\n"
    writer.write(f"{head}\r\n{head}Connection: close\r\n\r\n{head}\r\n".encode())
    async with asyncio.timeout(5):
        answer = await reader.read()
    writer.close()
    assert answer.count(b"HTTP/1.1 200 OK") == answer.count(b"HTTP/1.1") == 2


async def test_a_connection_too_many_is_closed_and_no_fault_of_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It ends without an answer and without a line in the log; when another ends there is room again."""
    monkeypatch.setattr(connections, "allowed", lambda kind: 1)
    async with serving(tmp_path) as served:
        _, held = await half_a_body(served, "/-/reload")
        reader, more = await half_a_body(served, "/-/reload")
        async with asyncio.timeout(5):
            with contextlib.suppress(ConnectionError):
                assert await reader.read() == b""
            more.close()
            held.close()
            while True:
                with contextlib.suppress(ClientConnectionError):
                    assert (await served.get("/healthz"))[0] == 200
                    break
    gc.collect()  # a task's error is told when the task goes
    assert not [entry for entry in caplog.records if entry.levelno > logging.INFO]


async def half_a_body(served: Served, path: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection with a request whose body stops in the middle."""
    address = urlsplit(served.url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    head = f"POST {path} HTTP/1.1\r\nHost: {address.netloc}\r\nContent-Type: application/x-www-form-urlencoded\r\n"
    writer.write(head.encode() + b"Content-Length: 100\r\n\r\nabc")
    return reader, writer
