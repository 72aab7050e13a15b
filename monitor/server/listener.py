"""The listener: routes, one way through for every request, and its start and stop."""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from aiohttp import web

from collectors.collector import CollectorFailed
from collectors.otlp.config import TlsConfig
from collectors.otlp.connections import WithoutContent, bound
from collectors.otlp.endpoint import Endpoint as Address
from collectors.otlp.endpoint import bind, parse_endpoint
from collectors.otlp.neutral import answer_neutrally
from collectors.otlp.tls import http_context
from collectors.otlp.tokens import BearerTokens
from monitor.server.access import Gate, is_loopback
from monitor.server.bodies import in_time
from monitor.server.context import ServerContext
from monitor.server.endpoints import ENDPOINTS, Endpoint
from monitor.server.handlers import Answer, Asked, Handlers
from monitor.server.pages.site import Site
from monitor.server.parameters import read_query
from monitor.server.problems import Refused, problem
from monitor.server.scrapes import Scrapes
from monitor.settings.tree import Server
from monitor.store.protocol import InvalidCursor, StoreUnwritable

if TYPE_CHECKING:
    import socket
    import ssl

LOG = logging.getLogger(__name__)

PLACE = "server"
MAX_BODY_BYTES = 1024 * 1024
READ_THREADS = 4
PROBE_THREADS = 2
IDLE_SECONDS = 75.0
LINGER_SECONDS = 2.0  # for what a refused client is still sending, so that it reads our answer
STOP_SECONDS = 5.0

HEADERS: Mapping[str, str] = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Server": "rubricd",
}
"""On every answer. There are no CORS headers: pages of other origins get nothing."""

Handle = Callable[[web.Request], Awaitable[web.StreamResponse]]


class ServerFailed(Exception):
    """The server could not start; the message names the key or file and what would be right."""


class ApiServer:
    """Serves a context on `server.endpoint`. `start` once; `stop` at any time and twice."""

    def __init__(self, context: ServerContext) -> None:
        self._context = context
        self._handlers = Handlers(context, self._probe, self._read, lambda: self._gate.problem if self._gate else None)
        self.scrapes = Scrapes(context.clock)
        self._runner: web.AppRunner | None = None
        self._gate: Gate | None = None
        self._read_pool: ThreadPoolExecutor | None = None
        self._probe_pool: ThreadPoolExecutor | None = None
        self._url = ""
        self._site = Site(context, self._asked_gate)

    @property
    def url(self) -> str:
        """Where the server listens, as bound: `http://127.0.0.1:8464`; empty before the start."""
        return self._url

    async def start(self) -> None:
        """Listen. Raises ServerFailed and leaves nothing behind when that cannot be."""
        settings = self._context.settings
        try:
            tls = TlsConfig(**settings.tls.model_dump()) if settings.tls else None
            context = http_context(tls, PLACE) if tls else None
            tokens = _tokens(settings)
            address = _address(settings)
            sockets = bind(address, PLACE)
        except CollectorFailed as error:
            raise ServerFailed(str(error)) from None
        bound = [str(opened.getsockname()[0]) for opened in sockets]
        external = urlsplit(settings.external_url or "").hostname
        self._gate = Gate(settings.endpoint, is_loopback(bound), bool(tls and tls.client_ca_file), tokens, external)
        self._read_pool = ThreadPoolExecutor(READ_THREADS, thread_name_prefix="api")
        self._probe_pool = ThreadPoolExecutor(
            PROBE_THREADS, thread_name_prefix="probe"
        )  # a slow listing holds up no probe
        shown = Address(address.host or bound[0], sockets[0].getsockname()[1])
        self._url = f"{'https' if context else 'http'}://{shown}"
        await self._listen(sockets, context)

    async def _listen(self, sockets: Sequence[socket.socket], context: ssl.SSLContext | None) -> None:
        self._runner = web.AppRunner(
            self.application(),
            access_log=None,
            logger=WithoutContent(LOG),
            keepalive_timeout=IDLE_SECONDS,
            lingering_time=LINGER_SECONDS,
            shutdown_timeout=STOP_SECONDS,
        )
        try:
            await self._runner.setup()
            bound(self._runner.server, "server")
            answer_neutrally(self._runner.server, _unreadable)
            for opened in sockets:
                await web.SockSite(self._runner, opened, ssl_context=context).start()
        except OSError as error:
            await self.stop()
            for opened in sockets:
                opened.close()
            raise ServerFailed(f"{PLACE}: cannot listen at {self._url}: {error.strerror or error}") from None

    async def stop(self) -> None:
        """Stop listening, let answers under way end for some seconds, and release everything."""
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()
        pools, self._read_pool, self._probe_pool = (self._read_pool, self._probe_pool), None, None
        for pool in pools:
            if pool is not None:
                await asyncio.to_thread(pool.shutdown)
        self._site.close()

    def application(self) -> web.Application:
        """The routes. Separate from the listener, so that they can be looked at."""
        application = web.Application(middlewares=[_always_answered, self._site.lost], client_max_size=MAX_BODY_BYTES)
        for endpoint in ENDPOINTS:
            path = endpoint.path.replace("/invocations/{id}", "/invocations/{id:.+}")
            application.router.add_route(endpoint.method, path, self._handle(endpoint))
            if endpoint.method == "GET":
                application.router.add_route("HEAD", path, self._handle(endpoint))
        self._site.add_to(application)
        return application

    def _asked_gate(self) -> Gate:
        assert self._gate is not None
        return self._gate

    def _handle(self, endpoint: Endpoint) -> Handle:
        async def handle(request: web.Request) -> web.StreamResponse:
            page = self._site.instead(request, endpoint.name)
            if page is not None:
                return web.Response(status=HTTPStatus.SEE_OTHER.value, headers={"Location": page})
            assert self._gate is not None
            self._gate.admit(request, endpoint.access)
            if endpoint.later:
                raise Refused(HTTPStatus.NOT_IMPLEMENTED, f"{endpoint.path} is promised for a later version")
            query = read_query(endpoint.parameters, list(request.query.items()), self._context.clock.now())
            asked_at = self._context.clock.monotonic()
            body = await in_time(request.read()) if request.method == "POST" else b""
            asked = Asked(request.match_info, query, request.headers, body)
            answer = await self._handlers.table[endpoint.name](asked)
            if endpoint.name == "metrics":
                self.scrapes.seen(request.remote, request.headers, asked_at)
            return web.Response(
                status=answer.status.value,
                body=answer.body,
                headers={"Content-Type": answer.content_type, **answer.headers},
            )

        return handle

    async def _probe(self, answer: Callable[[], Answer]) -> Answer:
        return await asyncio.get_running_loop().run_in_executor(self._probe_pool, answer)

    async def _read(self, answer: Callable[[], Answer]) -> Answer:
        return await asyncio.get_running_loop().run_in_executor(self._read_pool, answer)


def _address(settings: Server) -> Address:
    try:
        return parse_endpoint(settings.endpoint)
    except ValueError as error:
        raise ServerFailed(f"server.endpoint: {settings.endpoint!r} {error}") from None


def _tokens(settings: Server) -> BearerTokens | None:
    if settings.auth is None:
        return None
    try:
        return BearerTokens(settings.auth.bearer_token_file)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ServerFailed(f"server.auth.bearer_token_file: {settings.auth.bearer_token_file}: {reason}") from None


@web.middleware
async def _always_answered(request: web.Request, handler: Handle) -> web.StreamResponse:
    """Every fault becomes a problem detail, and every answer carries the headers."""
    try:
        if (request.content_length or 0) > MAX_BODY_BYTES:
            raise Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"the body is larger than {MAX_BODY_BYTES} bytes")
        response = await handler(request)
    except Refused as refused:
        headers = {"WWW-Authenticate": "Bearer"} if refused.status is HTTPStatus.UNAUTHORIZED else None
        response = problem(refused.status, refused.detail, refused.more, headers)
    except InvalidCursor as error:
        response = problem(HTTPStatus.BAD_REQUEST, str(error), {"parameter": "cursor"})
    except StoreUnwritable as error:
        response = problem(HTTPStatus.SERVICE_UNAVAILABLE, str(error))
    except web.HTTPException as error:
        response = _of_aiohttp(request, error)
    except Exception as error:
        LOG.error("%s %s: %s", request.method, _route(request), _where(error))
        response = problem(HTTPStatus.INTERNAL_SERVER_ERROR, "the answer could not be made; the log says where")
    for name, value in HEADERS.items():
        response.headers.setdefault(name, value)  # pages allow their own style and script
    if response.status in (HTTPStatus.REQUEST_ENTITY_TOO_LARGE, HTTPStatus.REQUEST_TIMEOUT):
        response.force_close()  # what is left of the body is not read
    return response


def _of_aiohttp(request: web.Request, error: web.HTTPException) -> web.Response:
    status = HTTPStatus(error.status)
    if isinstance(error, web.HTTPMethodNotAllowed):
        allowed = ", ".join(sorted(error.allowed_methods))
        return problem(status, f"{request.method} is not understood here; use {allowed}", None, {"Allow": allowed})
    if status is HTTPStatus.NOT_FOUND:
        return problem(status, "nothing is served at this path; /api/v1/openapi.json lists what is")
    return problem(status, error.reason)


def _unreadable(status: int) -> web.Response:
    """The answer to what is no HTTP."""
    found = HTTPStatus(status)
    response = problem(
        found, "this is no HTTP request" if status < 500 else "a fault of the server; its log says where"
    )
    response.headers.update(HEADERS)
    return response


def _route(request: web.Request) -> str:
    """The pattern of the path, not what a caller put into it."""
    resource = request.match_info.route.resource
    return resource.canonical if resource is not None else "an unknown path"


def _where(error: Exception) -> str:
    """The kind of an unforeseen fault and where it was raised. Its message is left out: it could quote content."""
    frames = traceback.extract_tb(error.__traceback__)
    return f"{type(error).__name__} at {frames[-1].filename}:{frames[-1].lineno}" if frames else type(error).__name__
