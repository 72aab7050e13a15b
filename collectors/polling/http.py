"""Asking a source over HTTP: authentication, TLS, time-outs, limits, retries; every fault a SourceFault that says what would be right."""

from __future__ import annotations

import asyncio
import base64
import random
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from collectors.collector import CollectorFailed
from collectors.polling.backoff import Random, delay_seconds
from collectors.polling.clock import PollClock
from collectors.polling.config import HttpConfig
from collectors.polling.faults import TEMPORARY, FaultKind, SourceFault
from collectors.polling.rates import RequestRate
from collectors.polling.skew import ClockSkew

if TYPE_CHECKING:
    import aiohttp

ATTEMPTS = 3
FIRST_DELAY_SECONDS = 0.5
LONGEST_WAIT_SECONDS = 30.0
"""What a source asks us to wait for is waited for in place up to this; longer waits end the poll."""
_CHUNK = 256 * 1024
_PASSED = frozenset({200, 204, 400, 404, 405, 413, 415, 422, 501})
"""Statuses that the caller understands; all others are faults."""

Parameters = Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer whose status is one that the caller may understand."""

    status: int
    body: bytes
    content_type: str


class HttpSource:
    """One source's HTTP side. `get` may be called side by side; `open` once before, `close` as often as wanted."""

    def __init__(self, config: HttpConfig, clock: PollClock, chance: Random = random.random) -> None:
        self._config, self._clock, self._chance = config, clock, chance
        self.endpoint = config.endpoint.rstrip("/")
        self.skew = ClockSkew()
        self._rate = RequestRate(config.requests_per_second, clock)
        self._session: aiohttp.ClientSession | None = None

    async def open(self) -> None:
        """Read the certificates. Raises CollectorFailed."""
        import aiohttp

        tls = await asyncio.to_thread(self._tls) if self.endpoint.startswith("https:") else True
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=tls, limit=64),
            timeout=aiohttp.ClientTimeout(total=self._config.timeout),
            auto_decompress=True,
            cookie_jar=aiohttp.DummyCookieJar(),
        )

    async def close(self) -> None:
        """Close the connections."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    def _tls(self) -> ssl.SSLContext:
        tls = self._config.tls
        try:
            context = ssl.create_default_context(cafile=tls.ca_file)
            if tls.cert_file is not None:
                context.load_cert_chain(tls.cert_file, tls.key_file)
        except (OSError, ssl.SSLError) as error:
            reason = error.reason if isinstance(error, ssl.SSLError) else error.strerror
            files = ", ".join(file for file in (tls.ca_file, tls.cert_file, tls.key_file) if file)
            raise CollectorFailed(f"{self.endpoint}: tls: {files}: {reason}: PEM files are wanted") from None
        return context

    # -- asking -------------------------------------------------------------------------------------------------------
    async def get(self, path: str, parameters: Parameters = (), accept: str = "application/json") -> Answer:
        """Ask, again after temporary faults. Raises SourceFault."""
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return await self._ask(path, parameters, accept)
            except SourceFault as fault:
                wait = delay_seconds(FIRST_DELAY_SECONDS, attempt, self._chance, fault.retry_after_seconds)
                if fault.kind not in TEMPORARY or attempt == ATTEMPTS or wait > LONGEST_WAIT_SECONDS:
                    raise
                await self._clock.sleep(wait)
        raise AssertionError("unreachable")

    async def _ask(self, path: str, parameters: Parameters, accept: str) -> Answer:
        import aiohttp

        assert self._session is not None, "open() comes first"
        await self._rate.turn()
        headers = {"Accept": accept, **self._config.headers, **await asyncio.to_thread(self._authorization)}
        name = self._config.tls.server_name
        try:
            sent = self._clock.now()
            async with self._session.get(
                self.endpoint + path,
                params=list(parameters),
                headers=headers,
                allow_redirects=False,
                server_hostname=name,
            ) as response:
                self.skew.observe(response.headers.get("Date"), sent, self._clock.now())
                return await self._answer(path, response)
        except TimeoutError:
            raise self._fault(FaultKind.TIMEOUT, path, f"no answer within {self._config.timeout:g} s") from None
        except aiohttp.ClientConnectorCertificateError as error:
            reason = getattr(error.certificate_error, "verify_message", "") or "it is not trusted"
            raise self._fault(
                FaultKind.UNREACHABLE, path, f"the certificate was not accepted: {reason}; is tls.ca_file right?"
            ) from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or type(error).__name__
            raise self._fault(FaultKind.UNREACHABLE, path, f"cannot be reached: {reason}") from None

    async def _answer(self, path: str, response: aiohttp.ClientResponse) -> Answer:
        status = response.status
        if status not in _PASSED:
            raise self._refusal(path, status, response.headers)
        body = bytearray()
        async for chunk in response.content.iter_chunked(_CHUNK):
            body += chunk
            if len(body) > self._config.max_response_bytes:
                raise self._fault(
                    FaultKind.TOO_LARGE, path, f"the answer is larger than {self._config.max_response_bytes} bytes"
                )
        return Answer(status, bytes(body), response.content_type)

    def _refusal(self, path: str, status: int, headers: Mapping[str, str]) -> SourceFault:
        asked = _retry_after(headers.get("Retry-After"), self._clock.now())
        if status in (401, 403):
            return self._fault(FaultKind.UNAUTHORIZED, path, f"answered {status}: are `auth` and `headers` right?")
        if status == 429:
            return self._fault(FaultKind.RATE_LIMITED, path, "answered 429: it is asked too often", asked)
        if status >= 500 or status == 408:
            return self._fault(FaultKind.SERVER_ERROR, path, f"answered {status}", asked)
        if 300 <= status < 400:
            return self._fault(
                FaultKind.REFUSED, path, f"answered {status}, a redirect: is `endpoint` the API's own URL?"
            )
        return self._fault(FaultKind.REFUSED, path, f"answered {status}: is `endpoint` right?")

    def _fault(self, kind: FaultKind, path: str, reason: str, asked: float | None = None) -> SourceFault:
        return SourceFault(kind, f"{self.endpoint}{_pattern(path)}: {reason}", asked)

    def _authorization(self) -> dict[str, str]:
        given = self._config.credentials
        if given.bearer_token or given.bearer_token_file:
            token = given.bearer_token or self._secret(given.bearer_token_file)
            return {"Authorization": f"Bearer {token}"}
        if given.username is not None:
            password = given.password or self._secret(given.password_file)
            pair = base64.b64encode(f"{given.username}:{password}".encode()).decode()
            return {"Authorization": f"Basic {pair}"}
        return {}

    def _secret(self, file: str | None) -> str:
        try:
            text = Path(file or "").read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
            raise SourceFault(FaultKind.UNAUTHORIZED, f"{file}: cannot be read: {reason}") from None
        if not text or "\n" in text:
            raise SourceFault(FaultKind.UNAUTHORIZED, f"{file}: should hold one line, the secret")
        return text


def _pattern(path: str) -> str:
    """The path without ids: faults are told apart by what is asked for, not for which trace."""
    return "/".join("{id}" if len(part) >= 16 else part for part in path.split("/"))


def _retry_after(value: str | None, now: float) -> float | None:
    """Seconds of a Retry-After header, which is a number or a date (RFC 9110 section 10.2.3)."""
    if value is None:
        return None
    if value.strip().isdigit():
        return float(value)
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - now)
    except (ValueError, TypeError, OverflowError):
        return None


def json_of(answer: Answer, endpoint: str) -> Any:
    """The JSON of an answer. Raises SourceFault."""
    from collectors.otlp.otlp_json import read_json
    from collectors.sink import MalformedRequest

    try:
        return read_json(answer.body)
    except MalformedRequest:
        raise SourceFault(
            FaultKind.MALFORMED,
            f"{endpoint}: the answer is no JSON ({answer.content_type}): is `endpoint` the API's own URL?",
        ) from None
