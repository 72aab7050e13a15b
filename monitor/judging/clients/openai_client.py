"""The judge client for OpenAI-compatible servers: the openai client on its aiohttp transport. The only module that imports openai.

Retries, deadlines and rate limits are ours (`max_retries=0`), redirects are not followed (content goes to the configured host only), and
request and answer are plain JSON: compatible servers leave out what the client's models insist on, and walking the request by its
types takes half the time of a call.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any

import aiohttp
import httpx2
import openai

from monitor.clock import Clock
from monitor.judging.client import CallFault, FaultKind, JudgeReply, JudgeRequest, RateHeaders, ReplyFormat
from monitor.judging.clients.bounded import BoundedClient, ReplyTooLong
from monitor.settings.tree import JudgeSettings

LOG = logging.getLogger(__name__)

_NO_KEY = "no-key"
"""Sent where no key is configured: a key of the environment must not go to a server that nobody gave it to."""

_RESET = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_RESET_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_CONNECT_SECONDS = 10.0


_KEY_AS_BEARER: openai.RequestOptions = {"security": {"bearer_auth": True}}
"""Not an administrator's key, should the environment have one."""


class KeyFile:
    """An API key in a file, read again when the file changes (rotated secrets)."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        self._seen: tuple[int, int] | None = None
        self._key = ""
        self._unreadable = False

    async def __call__(self) -> str:
        """The key; the last one while the file cannot be read, or is empty."""
        return await asyncio.to_thread(self._read)

    def _read(self) -> str:
        try:
            state = self._path.stat()
            if (state.st_mtime_ns, state.st_ino) != self._seen:
                self._key = self._path.read_text(encoding="utf-8").strip() or self._key
                self._seen = (state.st_mtime_ns, state.st_ino)
            self._unreadable = False
        except (OSError, UnicodeDecodeError):
            if not self._unreadable:
                LOG.warning("api_key_file %s cannot be read: the key read before stays in force", self._path)
            self._unreadable = True
        return self._key or _NO_KEY


class OpenAIClient:
    """Asks an OpenAI-compatible server, or an Azure deployment. Use it from one event loop."""

    def __init__(self, settings: JudgeSettings, clock: Clock) -> None:
        self._clock = clock
        self._http = BoundedClient(
            follow_redirects=False,
            timeout=httpx2.Timeout(settings.timeout, connect=min(_CONNECT_SECONDS, settings.timeout)),
            limits=httpx2.Limits(
                max_connections=settings.max_concurrency + 4, max_keepalive_connections=settings.max_concurrency
            ),
        )
        self._client = _client(settings, self._http)

    async def complete(self, request: JudgeRequest) -> JudgeReply | CallFault:
        """The model's answer, or what kept it from answering."""
        try:
            async with asyncio.timeout(request.timeout_seconds):
                response = await self._client.post(
                    "/chat/completions", cast_to=httpx2.Response, body=_body(request), options=_KEY_AS_BEARER
                )
        except TimeoutError:
            return CallFault(FaultKind.TIMEOUT)
        except ReplyTooLong:
            return CallFault(FaultKind.MALFORMED)
        except openai.APIStatusError as error:
            return self._status_fault(error)
        except openai.APIConnectionError as error:
            timed_out = isinstance(error, openai.APITimeoutError) and _caused_by_a_timeout(error)
            return CallFault(FaultKind.TIMEOUT if timed_out else FaultKind.CONNECTION)
        except (openai.OpenAIError, httpx2.HTTPError, aiohttp.ClientError, OSError, ValueError, RuntimeError):
            # RuntimeError: the client was closed, before or meanwhile.
            return CallFault(FaultKind.CONNECTION)
        return read_completion(_json(response), rate_headers(response.headers))

    def _status_fault(self, error: openai.APIStatusError) -> CallFault:
        headers = error.response.headers
        return CallFault(
            FaultKind.STATUS,
            status=error.status_code,
            code=f"{error.code or ''} {error.type or ''}".strip(),
            parameter=str(error.param or ""),
            said=str(error.message)[:2000],
            retry_after_seconds=retry_after_seconds(headers, self._clock.now()),
            rate=rate_headers(headers),
        )

    async def close(self) -> None:
        """Give up connections."""
        await self._client.close()


def _client(settings: JudgeSettings, http: httpx2.AsyncClient) -> openai.AsyncOpenAI:
    key: str | Callable[[], Awaitable[str]] = _NO_KEY
    if settings.api_key is not None:
        key = settings.api_key.get_secret_value()
    elif settings.api_key_file is not None:
        key = KeyFile(settings.api_key_file)
    if settings.azure is not None:
        return openai.AsyncAzureOpenAI(
            azure_endpoint=settings.azure.endpoint,
            api_version=settings.azure.api_version,
            api_key=key,
            http_client=http,
            max_retries=0,
            timeout=settings.timeout,
        )
    return openai.AsyncOpenAI(
        base_url=settings.base_url, api_key=key, http_client=http, max_retries=0, timeout=settings.timeout
    )


def _body(request: JudgeRequest) -> dict[str, Any]:
    body: dict[str, Any] = {
        "model": request.model,
        "messages": [{"role": message.role, "content": message.content} for message in request.messages],
    }
    if request.format is ReplyFormat.JSON_SCHEMA:
        schema = {"name": "verdict", "strict": True, "schema": dict(request.schema)}
        body["response_format"] = {"type": "json_schema", "json_schema": schema}
    elif request.format is ReplyFormat.JSON_OBJECT:
        body["response_format"] = {"type": "json_object"}
    if request.temperature is not None:
        body["temperature"] = request.temperature
    if request.max_tokens is not None:
        body[request.max_tokens_key] = request.max_tokens
    return body


def _caused_by_a_timeout(error: BaseException) -> bool:
    """Aiohttp's lost connections come through the transport as time-outs too; only real ones have Python's TimeoutError behind them."""
    cause = error.__cause__
    while cause is not None:
        if isinstance(cause, TimeoutError):
            return True
        cause = cause.__cause__
    return False


def _json(response: httpx2.Response) -> Any:
    try:
        return response.json()
    except (ValueError, RecursionError):
        return None


def read_completion(body: Any, rate: RateHeaders) -> JudgeReply | CallFault:
    """A chat completion as a reply; anything else is malformed."""
    try:
        choice = body["choices"][0]
        message = choice["message"]
        content, refusal = message.get("content"), message.get("refusal")
        usage = body.get("usage") or {}
        return JudgeReply(
            text=content if isinstance(content, str) else _joined(content),
            finish_reason=choice.get("finish_reason"),
            refusal=refusal if isinstance(refusal, str) and refusal else None,
            model=body.get("model") if isinstance(body.get("model"), str) else None,
            system_fingerprint=body.get("system_fingerprint"),
            input_tokens=_count(usage.get("prompt_tokens")),
            output_tokens=_count(usage.get("completion_tokens")),
            rate=rate,
        )
    except (KeyError, IndexError, TypeError, AttributeError):
        return CallFault(FaultKind.MALFORMED, rate=rate)


def _joined(parts: Any) -> str | None:
    """Some servers answer with a list of parts."""
    if not isinstance(parts, list):
        return None
    return "".join(part["text"] for part in parts if isinstance(part, dict) and isinstance(part.get("text"), str))


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def rate_headers(headers: Mapping[str, str]) -> RateHeaders:
    """The `x-ratelimit-*` headers; a reset is a duration such as `6m0s` or `157ms`, or plain seconds."""

    def number(name: str) -> float | None:
        try:
            return float(headers.get(name, ""))
        except ValueError:
            return None

    def seconds(name: str) -> float | None:
        text = headers.get(name, "")
        parts = _RESET.findall(text)
        return sum(float(amount) * _RESET_UNITS[unit] for amount, unit in parts) if parts else number(name)

    return RateHeaders(
        limit_requests=number("x-ratelimit-limit-requests"),
        remaining_requests=number("x-ratelimit-remaining-requests"),
        reset_requests_seconds=seconds("x-ratelimit-reset-requests"),
        limit_tokens=number("x-ratelimit-limit-tokens"),
        remaining_tokens=number("x-ratelimit-remaining-tokens"),
        reset_tokens_seconds=seconds("x-ratelimit-reset-tokens"),
    )


def retry_after_seconds(headers: Mapping[str, str], now: float) -> float | None:
    """`Retry-After` in seconds: `retry-after-ms`, seconds, or an HTTP date. None where it says nothing usable."""
    for name, divisor in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        try:
            seconds = float(headers.get(name, "")) / divisor
        except ValueError:
            continue
        return seconds if 0 <= seconds < float("inf") else None
    try:
        moment = parsedate_to_datetime(headers.get("retry-after", ""))
    except (TypeError, ValueError):
        return None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return max(0.0, (moment - datetime.fromtimestamp(now, UTC)).total_seconds())
