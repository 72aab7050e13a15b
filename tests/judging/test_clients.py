"""The judge clients: the contract on both, and what only the real one does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from pydantic import SecretStr

from monitor.clock import ManualClock, SystemClock
from monitor.judging.client import CallFault, FaultKind, JudgeClient, JudgeReply, JudgeRequest, RateHeaders, ReplyFormat
from monitor.judging.clients.openai_client import OpenAIClient, rate_headers, read_completion, retry_after_seconds
from monitor.judging.clients.scripted import ScriptedClient
from monitor.settings.tree import JudgeSettings
from tests.contracts.judge_client_contract import SCHEMA, JudgeClientContract, request
from tests.support.judge_server import JudgeServer, completion, instance


def settings(server: JudgeServer, **other: Any) -> JudgeSettings:
    return JudgeSettings.model_validate({"model": "judge-model", "base_url": server.url, **other})


class TestOpenAIClient(JudgeClientContract):
    """The real client against a server on loopback."""

    def client_in(self, mode: str) -> AbstractAsyncContextManager[JudgeClient]:
        @asynccontextmanager
        async def made() -> AsyncIterator[JudgeClient]:
            async with JudgeServer(mode) as server:
                client = OpenAIClient(settings(server), SystemClock())
                try:
                    yield client
                finally:
                    await client.close()

        return made()


STATUSES = {
    "unauthorized": 401,
    "unknown_model": 404,
    "rate_limited": 429,
    "server_error": 500,
    "overloaded": 503,
    "no_credit": 429,
}


def scripted_line(mode: str, asked: JudgeRequest) -> Any:
    """What the server would say in that mode, as a line of a script."""
    body = {"model": asked.model, "messages": [{"role": m.role, "content": m.content} for m in asked.messages]}
    if mode in STATUSES:
        wait = 1.0 if mode == "rate_limited" else None
        code = "insufficient_quota" if mode == "no_credit" else ""
        return CallFault(FaultKind.STATUS, STATUSES[mode], code, retry_after_seconds=wait)
    if mode == "drop":
        return CallFault(FaultKind.CONNECTION)
    texts = {"empty": "", "used_up": "", "truncated": '{"reasoning": "x', "refusal": None}
    import json

    text = texts.get(mode, json.dumps(instance(SCHEMA, True)))
    finish = {"truncated": "length", "used_up": "length", "content_filter": "content_filter"}.get(mode, "stop")
    answer = completion(body, text, finish, refusal="I can't." if mode == "refusal" else None)
    if mode == "no_usage":
        del answer["usage"]
    return read_completion({} if mode in ("html", "no_completion") else answer, RateHeaders())


class TestScriptedClient(JudgeClientContract):
    """The scripted client keeps the same contract."""

    def client_in(self, mode: str) -> AbstractAsyncContextManager[JudgeClient]:
        @asynccontextmanager
        async def made() -> AsyncIterator[JudgeClient]:
            latency = 60.0 if mode == "hung" else 0.0
            client = ScriptedClient(lambda asked: scripted_line(mode, asked), latency)
            try:
                yield client
            finally:
                await client.close()

        return made()


async def test_no_retries_of_its_own() -> None:
    """One call is one request, also on 500 and 429: retries are ours, else they would bypass the limits."""
    for mode in ("server_error", "rate_limited", "drop"):
        async with JudgeServer(mode) as server:
            client = OpenAIClient(settings(server), SystemClock())
            await client.complete(request())
            await client.close()
            assert server.count == 1, mode


async def test_the_request_that_goes_out() -> None:
    """The body has the model, the messages as they are, the strict schema, and only parameters that are set."""
    async with JudgeServer() as server:
        client = OpenAIClient(settings(server, api_key="sk-test"), SystemClock())
        await client.complete(request())
        await client.complete(request(form=ReplyFormat.JSON_OBJECT))
        await client.complete(request(form=ReplyFormat.TEXT))
        await client.close()
    first, second, third = server.requests
    assert set(first) == {"model", "messages", "response_format"}
    assert first["messages"][1] == {"role": "user", "content": "Grüße aus 東京"}
    assert first["response_format"]["json_schema"] == {"name": "verdict", "strict": True, "schema": SCHEMA}
    assert second["response_format"] == {"type": "json_object"}
    assert "response_format" not in third
    assert server.authorizations == ["Bearer sk-test"] * 3


async def test_a_key_of_the_environment_goes_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a configured key none of the environment is sent."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-from-the-environment")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    async with JudgeServer() as server:
        client = OpenAIClient(settings(server), SystemClock())
        assert isinstance(await client.complete(request()), JudgeReply)
        await client.close()
        assert server.authorizations == ["Bearer no-key"]


async def test_a_key_file_is_read_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A rotated key file is used from the next call on; one that is emptied or gone changes nothing, and the log says so once."""
    path = tmp_path / "key"
    path.write_text("first\n")
    async with JudgeServer() as server:
        client = OpenAIClient(settings(server, api_key_file=str(path)), SystemClock())
        await client.complete(request())
        (tmp_path / "new").write_text("second\n")
        (tmp_path / "new").replace(path)
        await client.complete(request())
        path.write_text("")
        await client.complete(request())
        path.unlink()
        await client.complete(request())
        await client.complete(request())
        await client.close()
        assert server.authorizations == ["Bearer first", *["Bearer second"] * 4]
    assert [f"api_key_file {path} cannot be read" in one.getMessage() for one in caplog.records] == [True]


async def test_azure() -> None:
    """An Azure deployment is asked under its own path, with its api version and key header."""
    async with JudgeServer() as server:
        azure = {
            "endpoint": f"http://127.0.0.1:{server.port}",
            "api_version": "2026-01-01",
            "deployment": "judge-model",
        }
        client = OpenAIClient(settings(server, azure=azure, api_key=SecretStr("azure-key")), SystemClock())
        assert isinstance(await client.complete(request()), JudgeReply)
        await client.close()
        assert server.paths == ["/openai/deployments/judge-model/chat/completions?api-version=2026-01-01"]
        assert server.authorizations == ["azure-key"]


async def test_redirects_are_not_followed() -> None:
    """Content goes to the configured host only: a redirect is an error status."""
    async with JudgeServer() as server:

        async def redirect(_: web.Request) -> web.Response:
            raise web.HTTPTemporaryRedirect(f"{server.url}/chat/completions")

        app = web.Application()
        app.router.add_post("/v1/chat/completions", redirect)
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        port = site._server.sockets[0].getsockname()[1]  # type: ignore[union-attr]
        client = OpenAIClient(settings(server, base_url=f"http://127.0.0.1:{port}/v1"), SystemClock())
        fault = await client.complete(request())
        await client.close()
        await runner.cleanup()
        assert isinstance(fault, CallFault)
        assert (fault.status, server.count) == (307, 0)


async def test_a_slow_trickle_does_not_outlive_the_deadline() -> None:
    """A server that sends a byte now and then is given up at the deadline of the whole call."""

    async def trickle(asked: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(asked)
        for _ in range(100):
            await response.write(b" ")
            await asyncio.sleep(0.05)
        return response

    app = web.Application()
    app.router.add_post("/v1/chat/completions", trickle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = site._server.sockets[0].getsockname()[1]  # type: ignore[union-attr]
    client = OpenAIClient(JudgeSettings(model="m", base_url=f"http://127.0.0.1:{port}/v1"), SystemClock())
    fault = await client.complete(request(0.3))
    await client.close()
    await runner.cleanup()
    assert isinstance(fault, CallFault)
    assert fault.kind is FaultKind.TIMEOUT


async def test_nobody_listens() -> None:
    """A closed port is a connection fault."""
    client = OpenAIClient(JudgeSettings(model="m", base_url="http://127.0.0.1:9/v1"), SystemClock())
    fault = await client.complete(request(2.0))
    await client.close()
    assert isinstance(fault, CallFault)
    assert fault.kind is FaultKind.CONNECTION


async def test_rate_limit_headers_are_told() -> None:
    """Limits, what remains, and resets written as durations reach us."""
    headers = {
        "x-ratelimit-limit-requests": "500",
        "x-ratelimit-remaining-tokens": "0",
        "x-ratelimit-reset-tokens": "6m0.5s",
    }
    async with JudgeServer(headers=headers) as server:
        client = OpenAIClient(settings(server), SystemClock())
        reply = await client.complete(request())
        await client.close()
    assert reply.rate == RateHeaders(limit_requests=500.0, remaining_tokens=0.0, reset_tokens_seconds=360.5)


@pytest.mark.parametrize(
    ("text", "seconds"), [("157ms", 0.157), ("1h2m3s", 3723.0), ("12", 12.0), ("soon", None), ("", None)]
)
def test_resets_of_rate_limits(text: str, seconds: float | None) -> None:
    """A reset is a duration or plain seconds; anything else is nothing."""
    assert rate_headers({"x-ratelimit-reset-requests": text}).reset_requests_seconds == seconds


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after-ms": "250", "retry-after": "1"}, 0.25),
        ({"retry-after": "Tue, 14 Nov 2023 22:13:50 GMT"}, 30.0),
        ({"retry-after": "Tue, 14 Nov 2023 22:00:00 GMT"}, 0.0),
        ({"retry-after": "-3"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "later"}, None),
        ({}, None),
    ],
)
def test_retry_after_forms(headers: dict[str, str], seconds: float | None) -> None:
    """Seconds, milliseconds and HTTP dates are read; nonsense is nothing."""
    assert retry_after_seconds(headers, ManualClock(1_700_000_000.0).now()) == seconds


@pytest.mark.parametrize("mode", ["huge", "bomb"])
async def test_a_reply_is_read_to_a_bound(mode: str) -> None:
    """A body of megabytes, plain or compressed to little, is not read to its end: a fault of the endpoint."""
    async with JudgeServer(mode) as server:
        made = OpenAIClient(JudgeSettings(model="m", base_url=server.url), SystemClock())
        found = await made.complete(request())
        await made.close()
    assert isinstance(found, CallFault)
    assert found.kind is FaultKind.MALFORMED
