"""A scripted OpenAI-compatible judge on loopback: it answers by the JSON Schema of the request, or misbehaves in a named way.

In an async test: `async with JudgeServer(mode="good") as server: … server.url`. From synchronous code: `with judge_server(...) as server`.
As a program: `python -m tests.support.judge_server --port 9911 --mode good`; then `GET /stats` and `POST /mode` with `{"mode": "…"}`.

`good` passes unless the judged record holds the marker word. `script` gives the modes of the first requests, one each.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import json
import re
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from aiohttp import web

MARKER = "FAILING-ANSWER"
"""A record that holds this word gets the worst verdict."""

DRAFT = {
    "dimensions": [
        {"id": "policy", "description": "Keeps the house rules. 5: all. 1: breaks one.", "weight": 9},
        {"id": "right_day", "description": "Books the day that was asked for. 5: it. 1: another.", "weight": 5},
    ],
    "properties": [{"id": "says_time", "text": "The answer names the time of the booking."}],
}
"""What mode `draft` answers: a rubric's dimensions and properties."""

LONG_TEXT = "The record shows it. " * 5


def instance(schema: dict[str, Any], good: bool) -> Any:
    """A value of the schema: the best one, or the worst one. Words are yes or no, grades the highest or the lowest."""
    if "anyOf" in schema:
        return instance(schema["anyOf"][0], good)
    if "enum" in schema:
        choices = [choice for choice in schema["enum"] if choice != "not_applicable"]
        if all(isinstance(choice, int) for choice in choices):
            return max(choices) if good else min(choices)
        return choices[0] if good else choices[min(1, len(choices) - 1)]
    kind = schema.get("type")
    if kind == "object":
        return {key: instance(value, good) for key, value in schema.get("properties", {}).items()}
    if kind == "array":
        return []
    return {"integer": 5 if good else 1, "number": 1.0 if good else 0.0, "boolean": good}.get(
        str(kind), "The record shows it."
    )


def schema_of(body: dict[str, Any]) -> dict[str, Any]:
    """The schema of the request, else the one written in its system message."""
    asked = (body.get("response_format") or {}).get("json_schema")
    if asked:
        return dict(asked["schema"])
    system = " ".join(str(message["content"]) for message in body["messages"] if message["role"] == "system")
    written = re.findall(r"```json\n(.*?)\n```", system, re.DOTALL)
    return dict(json.loads(written[-1])) if written else {"type": "object", "properties": {}}


def completion(body: dict[str, Any], text: str | None, finish: str = "stop", **message: Any) -> dict[str, Any]:
    """A chat completion with that text; usage is a token for four characters."""
    asked = sum(len(str(item["content"])) for item in body["messages"]) // 4
    answered = len(text or "") // 4
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1_795_000_000,
        "model": f"{body.get('model', 'judge')}-2026-11-18",
        "system_fingerprint": "fp_scripted",
        "choices": [
            {
                "index": 0,
                "finish_reason": finish,
                "message": {"role": "assistant", "content": text, "refusal": None, **message},
                "logprobs": None,
            }
        ],
        "usage": {"prompt_tokens": asked, "completion_tokens": answered, "total_tokens": asked + answered},
    }


def error(status: int, message: str, code: str | None = None, **headers: str) -> web.Response:
    """An error of the provider's form."""
    body = {"error": {"message": message, "type": "invalid_request_error", "code": code, "param": None}}
    return web.json_response(body, status=status, headers=headers)


class JudgeServer:
    """One listener. `mode` may be changed while it runs; `requests` keeps the bodies that came."""

    def __init__(
        self,
        mode: str = "good",
        *,
        script: Sequence[str] = (),
        marker: str = MARKER,
        latency: float = 0.0,
        retry_after: str = "1",
        port: int = 0,
        headers: dict[str, str] | None = None,
    ) -> None:
        self.mode, self.script, self.marker = mode, list(script), marker
        self.latency, self.retry_after, self.headers = latency, retry_after, headers or {}
        self.requests: list[dict[str, Any]] = []
        self.authorizations: list[str] = []
        self.paths: list[str] = []
        self.most_at_once = 0
        self.port = port
        self._running = 0
        self._runner: web.AppRunner | None = None
        self._stopping = asyncio.Event()

    @property
    def url(self) -> str:
        """What to configure as `base_url`."""
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def count(self) -> int:
        """How many chat completions were asked for."""
        return len(self.requests)

    async def start(self) -> None:
        """Listen on loopback; port 0 becomes a free one."""
        app = web.Application(client_max_size=64 * 1024 * 1024)
        app.router.add_post("/v1/chat/completions", self._chat)
        app.router.add_post("/openai/deployments/{deployment}/chat/completions", self._chat)
        app.router.add_get("/stats", self._stats)
        app.router.add_post("/mode", self._set_mode)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self.port)
        await site.start()
        self.port = site._server.sockets[0].getsockname()[1]  # type: ignore[union-attr]

    async def stop(self) -> None:
        """Close every connection."""
        self._stopping.set()
        if self._runner:
            await self._runner.cleanup()

    async def __aenter__(self) -> JudgeServer:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def _stats(self, request: web.Request) -> web.Response:
        return web.json_response({"requests": self.count, "mode": self.mode, "most_at_once": self.most_at_once})

    async def _set_mode(self, request: web.Request) -> web.Response:
        self.mode = (await request.json())["mode"]
        return web.json_response({"mode": self.mode})

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        self.requests.append(body)
        self.authorizations.append(request.headers.get("authorization", request.headers.get("api-key", "")))
        self.paths.append(request.path_qs)
        mode = self.script.pop(0) if self.script else self.mode
        self._running += 1
        self.most_at_once = max(self.most_at_once, self._running)
        try:
            if self.latency:
                await asyncio.sleep(self.latency)
            return await self._answer(mode, body, request)
        finally:
            self._running -= 1

    async def _answer(self, mode: str, body: dict[str, Any], request: web.Request) -> web.StreamResponse:
        if mode == "hung":
            await self._stopping.wait()
        if mode in ("drop", "hung"):
            if request.transport:
                request.transport.close()
            return web.Response()
        answer = self._refused(mode, body) or self._said(mode, body)
        if isinstance(answer, web.Response):
            return answer
        return web.json_response(answer, headers=self.headers)

    def _refused(self, mode: str, body: dict[str, Any]) -> web.Response | None:
        form = (body.get("response_format") or {}).get("type")
        if mode == "rate_limited":
            return error(429, "Rate limit reached", "rate_limit_exceeded", **{"Retry-After": self.retry_after})
        if mode == "no_json_schema" and form == "json_schema":
            return error(400, "'response_format' of type 'json_schema' is not supported with this model")
        if mode == "text_only" and form:
            return error(400, "Bad request")
        if mode == "reasoning" and "temperature" in body:
            return error(
                400, "Unsupported value: 'temperature' does not support 0 with this model.", "unsupported_value"
            )
        if mode == "reasoning" and "max_tokens" in body:
            return error(400, "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.")
        errors = {
            "no_credit": (429, "You exceeded your current quota", "insufficient_quota"),
            "server_error": (500, "The server had an error", None),
            "overloaded": (503, "Overloaded", None),
            "unauthorized": (401, "Incorrect API key provided", "invalid_api_key"),
            "unknown_model": (404, "The model does not exist", "model_not_found"),
            "too_long": (400, "This model's maximum context length is 8192 tokens.", "context_length_exceeded"),
            "filtered": (400, "The response was filtered", "content_filter"),
        }
        return error(*errors[mode]) if mode in errors else None

    def _said(self, mode: str, body: dict[str, Any]) -> dict[str, Any] | web.Response:
        asked = " ".join(str(message["content"]) for message in body["messages"] if message["role"] == "user")
        good = json.dumps(instance(schema_of(body), self.marker not in asked), ensure_ascii=False)
        passing = json.dumps(instance(schema_of(body), True))
        texts = {
            "fenced": f"Here is my verdict.\n\n```json\n{good}\n```\n",
            "garbage": "As the wise say, it depends on much and on little.",
            "refusal_in_words": "I'm sorry, but I can't help with judging this.",
            "quoting": f"The agent says {passing} of itself.",
            "two_verdicts": f"{passing}\n\n{json.dumps(instance(schema_of(body), False))}",
            "not_a_number": re.sub(r": (\d|\"yes\")(?=[,}])", ": NaN", passing),
            "out_of_range": re.sub(r": (\d|\"yes\")(?=[,}])", ": 9", passing),
            "incomplete": '{"properties": {}, "dimensions": {}, "reasoning": "x"}',
            "empty": "",
            "torn": passing[: len(passing) // 2],
        }
        if mode == "truncated":
            return completion(body, passing[: len(passing) // 2], "length")
        if mode == "used_up":
            return completion(body, "", "length")
        if mode == "refusal":
            return completion(body, None, refusal="I can't help with that.")
        if mode == "content_filter":
            return completion(body, passing, "content_filter")
        if mode == "no_completion":
            return web.json_response({"hello": "world"})
        if mode == "draft":
            return completion(body, json.dumps(DRAFT))
        if mode == "huge":
            return completion(body, good + " " * 5_000_000)
        if mode == "bomb":
            packed = gzip.compress(json.dumps(completion(body, good + " " * 20_000_000)).encode(), compresslevel=1)
            return web.Response(body=packed, content_type="application/json", headers={"Content-Encoding": "gzip"})
        if mode == "html":
            return web.Response(text="<html>gateway</html>", content_type="text/html")
        if mode == "no_usage":
            answer = completion(body, good)
            del answer["usage"]
            return answer
        return completion(body, texts.get(mode, good))


@contextmanager
def judge_server(mode: str = "good", **options: Any) -> Iterator[JudgeServer]:
    """The server on an event loop in a thread of its own, for tests that have none."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="judge-server", daemon=True)
    thread.start()

    async def start() -> JudgeServer:
        server = JudgeServer(mode, **options)
        await server.start()
        return server

    try:
        server = asyncio.run_coroutine_threadsafe(start(), loop).result(10)
        yield server
        asyncio.run_coroutine_threadsafe(server.stop(), loop).result(10)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


async def _main(options: argparse.Namespace) -> None:
    server = JudgeServer(
        options.mode, port=options.port, latency=options.latency, marker=options.marker, retry_after=options.retry_after
    )
    async with server:
        sys.stdout.write(f"{server.url}\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


def main() -> None:
    """Run until interrupted."""
    parser = argparse.ArgumentParser(description="A scripted OpenAI-compatible judge on loopback.")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--mode", default="good")
    parser.add_argument("--latency", type=float, default=0.0, help="seconds before each answer")
    parser.add_argument("--marker", default=MARKER, help="records with this word get the worst verdict")
    parser.add_argument("--retry-after", default="1")
    asyncio.run(_main(parser.parse_args()))


if __name__ == "__main__":
    main()
