"""Asking sources over real sockets: who we are, what we refuse, what we wait for."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from aiohttp import web

from collectors.collector import CollectorFailed
from collectors.polling.config import ClientTls, Credentials, HttpConfig
from collectors.polling.faults import FaultKind, SourceFault
from collectors.polling.http import HttpSource
from monitor.clock import ManualClock
from tests.contracts.poller_contract import moving

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Served:
    """A server of one handler, and a source that asks it."""

    def __init__(self, source: HttpSource, clock: ManualClock) -> None:
        self.source, self.clock = source, clock
        self.seen: list[web.Request] = []

    async def get(self, path: str = "/x") -> object:
        return await moving(self.clock, self.source.get(path, [("q", "{ a }")]))


@asynccontextmanager
async def serving(handler: Handler, **changes: object) -> AsyncIterator[Served]:
    seen: list[web.Request] = []

    async def remember(request: web.Request) -> web.StreamResponse:
        seen.append(request)
        return await handler(request)

    app = web.Application()
    app.router.add_get("/{path:.*}", remember)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    clock = ManualClock()
    config = HttpConfig(f"http://127.0.0.1:{runner.addresses[0][1]}/prefix", requests_per_second=1000)
    source = HttpSource(replace(config, **changes), clock, lambda: 0.5)  # type: ignore[arg-type]
    await source.open()
    served = Served(source, clock)
    served.seen = seen
    try:
        yield served
    finally:
        await source.close()
        await source.close()
        await runner.cleanup()


async def fine(request: web.Request) -> web.StreamResponse:
    return web.json_response({"ok": True})


def answering(*replies: tuple[int, dict[str, str]]) -> Handler:
    left = list(replies)

    async def handler(request: web.Request) -> web.StreamResponse:
        status, headers = left.pop(0) if len(left) > 1 else left[0]
        return web.Response(status=status, headers=headers, text="secret content")

    return handler


async def fault_of(served: Served) -> SourceFault:
    with pytest.raises(SourceFault) as raised:
        await served.get("/api/traces/0123456789abcdef0123456789abcdef")
    return raised.value


async def test_path_query_and_tenant_reach_the_server() -> None:
    """A path in front of the API is kept, headers are sent with each request."""
    async with serving(fine, headers={"X-Scope-OrgID": "agents"}) as served:
        await served.get()
        request = served.seen[0]
        assert (request.path, request.query["q"]) == ("/prefix/x", "{ a }")
        assert request.headers["X-Scope-OrgID"] == "agents"
        assert "Authorization" not in request.headers


async def test_a_token_file_is_read_at_each_request(tmp_path: Path) -> None:
    """A rotated token is taken up; a file that is gone or empty is a fault that names it."""
    file = tmp_path / "token"
    file.write_text("first\n")
    async with serving(fine, credentials=Credentials(bearer_token_file=str(file))) as served:
        await served.get()
        file.write_text("second")
        await served.get()
        assert [one.headers["Authorization"] for one in served.seen] == ["Bearer first", "Bearer second"]
        file.unlink()
        fault = await fault_of(served)
        assert (fault.kind, str(file) in str(fault)) == (FaultKind.UNAUTHORIZED, True)


async def test_basic_authentication(tmp_path: Path) -> None:
    """User name and password, the latter from a file or the configuration."""
    (tmp_path / "p").write_text("pass:word\n")
    for given in (
        Credentials(username="u", password_file=str(tmp_path / "p")),
        Credentials(username="u", password="pass:word"),
    ):
        async with serving(fine, credentials=given) as served:
            await served.get()
            kind, _, value = served.seen[0].headers["Authorization"].partition(" ")
            assert (kind, base64.b64decode(value)) == ("Basic", b"u:pass:word")


@pytest.mark.parametrize(
    ("status", "kind", "asked"),
    [
        (401, FaultKind.UNAUTHORIZED, 1), (403, FaultKind.UNAUTHORIZED, 1), (302, FaultKind.REFUSED, 1), (410, FaultKind.REFUSED, 1),
        (429, FaultKind.RATE_LIMITED, 3), (500, FaultKind.SERVER_ERROR, 3), (503, FaultKind.SERVER_ERROR, 3),
    ],
)  # fmt: skip
async def test_what_is_worth_another_attempt_gets_two_more(status: int, kind: FaultKind, asked: int) -> None:
    """The fault names URL and status, without the trace's id and without what the body says."""
    async with serving(answering((status, {"Location": "http://elsewhere/"}))) as served:
        fault = await fault_of(served)
        assert fault.kind is kind
        assert f"/prefix/api/traces/{{id}}: answered {status}" in str(fault)
        assert "secret content" not in str(fault)
        assert len(served.seen) == asked


async def test_a_passing_fault_is_not_told() -> None:
    """The second attempt's answer counts."""
    async with serving(answering((503, {}), (200, {}))) as served:
        before = served.clock.now()
        assert (await served.get()).status == 200  # type: ignore[attr-defined]
        assert served.clock.now() > before


async def test_a_long_retry_after_ends_the_poll_and_a_short_one_is_waited_for() -> None:
    """What is asked for is handed on, as seconds or as a date."""
    async with serving(answering((429, {"Retry-After": "120"}))) as served:
        assert (await fault_of(served)).retry_after_seconds == 120
        assert len(served.seen) == 1
    async with serving(answering((429, {"Retry-After": "Tue, 14 Nov 2023 23:13:20 GMT"}))) as served:
        assert (await fault_of(served)).retry_after_seconds == pytest.approx(3600, abs=2)
    async with serving(answering((429, {"Retry-After": "5"}), (200, {}))) as served:
        await served.get()
        assert served.clock.now() - ManualClock().now() >= 5


async def test_an_answer_that_is_too_large_is_not_held() -> None:
    """It is left at the limit."""

    async def large(request: web.Request) -> web.StreamResponse:
        return web.Response(body=b"x" * 3_000_000)

    async with serving(large, max_response_bytes=1_000_000) as served:
        assert (await fault_of(served)).kind is FaultKind.TOO_LARGE


async def test_a_server_that_does_not_answer_is_a_time_out() -> None:
    """After the configured time."""
    gate = asyncio.Event()

    async def silent(request: web.Request) -> web.StreamResponse:
        await gate.wait()
        return web.Response()

    async with serving(silent, timeout=0.05) as served:
        fault = await fault_of(served)
        gate.set()
        assert (fault.kind, "no answer within 0.05 s" in str(fault)) == (FaultKind.TIMEOUT, True)


async def test_a_server_that_is_not_there_is_said() -> None:
    """Refused connections and unknown names."""
    clock = ManualClock()
    source = HttpSource(HttpConfig("http://127.0.0.1:1"), clock, lambda: 0.5)
    await source.open()
    with pytest.raises(SourceFault, match=r"http://127.0.0.1:1/x: cannot be reached"):
        await moving(clock, source.get("/x"))
    await source.close()


async def test_requests_are_spaced_out() -> None:
    """Past a burst of a second's worth no more than so many a second."""
    async with serving(fine, requests_per_second=5) as served:
        before = served.clock.now()
        for _ in range(26):
            await served.get()
        assert served.clock.now() - before >= 4


async def test_a_certificate_file_that_is_not_there_stops_the_start() -> None:
    """It is our side that is wrong: the message names the file."""
    source = HttpSource(HttpConfig("https://x", tls=ClientTls(ca_file="/nowhere/ca.pem")), ManualClock())
    with pytest.raises(CollectorFailed, match=r"/nowhere/ca.pem: No such file"):
        await source.open()
    await source.close()
