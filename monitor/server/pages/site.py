"""The pages as routes: one way through for every request, from admission to HTML."""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from monitor.server.access import Access, Gate
from monitor.server.bodies import in_time
from monitor.server.context import ServerContext
from monitor.server.pages.asked import Asked, Desk, GoTo, Made, PlainText, Rendered
from monitor.server.pages.guard import SIGN_IN, Guard, SignInNeeded, Visitor, may_come_from_elsewhere, own_path
from monitor.server.pages.health import health
from monitor.server.pages.invocation import invocation_page, whole_text
from monitor.server.pages.invocations import PARAMETERS, PATH, invocations
from monitor.server.pages.kept import KeptFigures
from monitor.server.pages.labelling import answered, draw, labels_page, next_label, take_label
from monitor.server.pages.monitor import acknowledge, monitor_page
from monitor.server.pages.overview import overview
from monitor.server.pages.rendering import environment, href, page_arguments, static_files, static_version
from monitor.server.pages.shown_text import encodable
from monitor.server.problems import Refused
from monitor.store.protocol import InvalidCursor, StoreUnwritable

LOG = logging.getLogger(__name__)

PAGE_THREADS = 4
HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; "
        "frame-ancestors 'none'"
    ),
    "Referrer-Policy": "same-origin",  # with no-referrer browsers send `Origin: null` with our own forms
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
"""On every page, besides those of every answer."""
STATIC_SECONDS = 365 * 86400

View = Callable[[Desk, Asked], Made]


@dataclass(frozen=True, slots=True)
class Page:
    """One method of one path and the view that makes it."""

    method: str
    path: str
    view: View
    access: Access


PAGES = (
    Page("GET", "/", overview, Access.FIGURES),
    Page("GET", "/monitors/{name}", monitor_page, Access.FIGURES),
    Page("POST", "/regressions/{id}/ack", acknowledge, Access.CHANGE),
    Page("GET", "/invocations", invocations, Access.CONTENT),
    Page("GET", "/invocations/{id}/text", whole_text, Access.CONTENT),
    Page("GET", "/invocations/{id}", invocation_page, Access.CONTENT),
    Page("GET", "/labels", labels_page, Access.CONTENT),
    Page("POST", "/labels", take_label, Access.CHANGE),
    Page("POST", "/labels/draws", draw, Access.CHANGE),
    Page("GET", "/labels/next", next_label, Access.CONTENT),
    Page("GET", "/labels/answered", answered, Access.CONTENT),
    Page("GET", "/health", health, Access.FIGURES),
)


class Site:
    """The pages of a server. `gate` is asked for each request: it is made at the server's start. `close` ends the threads."""

    def __init__(self, context: ServerContext, gate: Callable[[], Gate]) -> None:
        self._context = context
        self._guard = Guard(gate, context.clock, context.settings.external_url)
        self._desk = Desk(context, KeptFigures(context.clock))
        self._templates = environment()
        self._pool = ThreadPoolExecutor(PAGE_THREADS, thread_name_prefix="page")

    def add_to(self, application: web.Application) -> None:
        """Add the routes."""
        router = application.router
        for page in PAGES:
            handle = self._handle(page)
            router.add_route(page.method, page.path, handle)
            if page.method == "GET":
                router.add_route("HEAD", page.path, handle)
        router.add_get(SIGN_IN, self._safely(self._ask_to_sign_in))
        router.add_post(SIGN_IN, self._safely(self._sign_in))
        router.add_post("/sign-out", self._safely(self._sign_out))
        router.add_get("/static/{name}", self._static)
        router.add_get("/favicon.ico", self._favicon)
        self._pool.submit(self._warm)

    def _warm(self) -> None:
        """Compile the templates, so that the first visitor does not wait for it."""
        for name in self._templates.list_templates():
            self._templates.get_template(name)
        static_version()

    @staticmethod
    def instead(request: web.Request, endpoint: str) -> str | None:
        """The page that shows a person what an endpoint of the API tells programs: for a browser that follows an alert's link to it."""
        if endpoint != "verdicts" or request.method != "GET" or "text/html" not in request.headers.get("Accept", ""):
            return None
        taken = {parameter.name for parameter in PARAMETERS}
        return href(
            PATH, **{name: value for name, value in request.query.items() if name in taken and name != "cursor"}
        )

    def close(self) -> None:
        """Begin nothing more."""
        self._desk.kept.close()
        self._pool.shutdown(wait=False, cancel_futures=True)

    # -- pages
    def _handle(self, page: Page) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        async def handle(request: web.Request) -> web.StreamResponse:
            visitor = self._guard.admit(request, page.access)
            form: Mapping[str, str] = {}
            if page.method == "POST":
                form = _texts(await in_time(request.post()))
                self._guard.check_form(request, form.get("csrf"), visitor)
            return await self._made(request, page, self._asked(request, visitor, form))

        return self._safely(handle)

    def _asked(self, request: web.Request, visitor: Visitor, form: Mapping[str, str]) -> Asked:
        context = self._context
        return Asked(
            dict(request.match_info), _texts(request.query), form, visitor, context.clock.now(), request.path_qs,
            context.collectors(), context.judges(), context.monitors(),
        )  # fmt: skip

    async def _made(self, request: web.Request, page: Page, asked: Asked) -> web.StreamResponse:
        made = await self._in_thread(lambda: self._render(page.view(self._desk, asked), asked))
        if isinstance(made, GoTo):
            return web.Response(status=HTTPStatus.SEE_OTHER, headers={"Location": made.path})
        body, content_type, status = made
        return web.Response(status=status, body=body, headers={"Content-Type": content_type})

    def _render(self, made: Made, asked: Asked | None) -> GoTo | tuple[bytes, str, int]:
        if isinstance(made, GoTo):
            return made
        if isinstance(made, PlainText):
            return encodable(made.text), "text/plain; charset=utf-8", HTTPStatus.OK
        known: dict[str, Any] = {"visitor": None, "now": None, "url": "/"}
        if asked is not None:
            known = {"visitor": asked.visitor, "now": asked.now, "url": asked.url}
        html = self._templates.get_template(made.template).render(page_arguments(**known, **made.values))
        return encodable(html), "text/html; charset=utf-8", made.status

    async def _in_thread(self, work: Callable[[], Any]) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._pool, work)

    # -- signing in
    async def _ask_to_sign_in(self, request: web.Request) -> web.StreamResponse:
        after = own_path(request.query.get("next"))
        if self._guard.admit(request, Access.OPEN).session is not None:
            return web.Response(status=HTTPStatus.SEE_OTHER, headers={"Location": after})
        return self._sign_in_page(request, after, None, HTTPStatus.OK)

    def _sign_in_page(self, request: web.Request, after: str, problem: str | None, status: HTTPStatus) -> web.Response:
        visitor = self._guard.admit(request, Access.OPEN)
        values = {"after": after, "problem": problem, "visitor": visitor, "now": None, "url": "/"}
        html = self._templates.get_template("sign_in.html").render(page_arguments(**values))
        return web.Response(status=status, body=encodable(html), headers={"Content-Type": "text/html; charset=utf-8"})

    async def _sign_in(self, request: web.Request) -> web.StreamResponse:
        form = _texts(await in_time(request.post()))
        self._guard.check_form(request, form.get("csrf"), self._guard.admit(request, Access.OPEN))
        after = own_path(form.get("next"))
        session = self._guard.sign_in(request, form.get("token", "").strip())
        if session is None:
            return self._sign_in_page(request, after, "That is none of the tokens.", HTTPStatus.UNAUTHORIZED)
        response = web.Response(status=HTTPStatus.SEE_OTHER, headers={"Location": after})
        self._guard.keep(request, response, session)
        return response

    async def _sign_out(self, request: web.Request) -> web.StreamResponse:
        form = _texts(await in_time(request.post()))
        visitor = self._guard.admit(request, Access.OPEN)
        self._guard.check_form(request, form.get("csrf"), visitor)
        self._guard.sign_out(visitor.session)
        response = web.Response(status=HTTPStatus.SEE_OTHER, headers={"Location": SIGN_IN})
        self._guard.drop(request, response)
        return response

    # -- what goes wrong
    def _safely(
        self, handle: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        async def safe(request: web.Request) -> web.StreamResponse:
            try:
                response = await handle(request)
            except SignInNeeded:
                response = self._to_sign_in(request)
            except Refused as refused:
                response = self._refused(request, refused.status, refused.detail)
            except InvalidCursor as error:
                response = self._refused(request, HTTPStatus.BAD_REQUEST, str(error))
            except StoreUnwritable as error:
                response = self._refused(request, HTTPStatus.SERVICE_UNAVAILABLE, str(error))
            except web.HTTPException:
                raise
            except Exception as error:
                LOG.error("page %s: %s", request.match_info.route.resource, _where(error))
                detail = "the page could not be made; the log says where"
                response = self._refused(request, HTTPStatus.INTERNAL_SERVER_ERROR, detail)
            response.headers.update(HEADERS)
            return response

        return safe

    def _to_sign_in(self, request: web.Request) -> web.StreamResponse:
        """To the form. From another site by a page of ours: the browser sends the cookie along then, and the form sends who has one on."""
        form = href(SIGN_IN, next=request.path_qs if request.method == "GET" else "/")
        if may_come_from_elsewhere(request):
            html = self._templates.get_template("again.html").render(page_arguments(url=form))
            return web.Response(body=encodable(html), headers={"Content-Type": "text/html; charset=utf-8"})
        return web.Response(status=HTTPStatus.SEE_OTHER, headers={"Location": form})

    def _refused(self, request: web.Request, status: HTTPStatus, detail: str) -> web.Response:
        values = {"status": status, "detail": detail}
        made = self._render(Rendered("refused.html", values, status), None)
        assert not isinstance(made, GoTo)
        body, content_type, _ = made
        return web.Response(status=status, body=body, headers={"Content-Type": content_type})

    @property
    def lost(self) -> Middleware:
        """A page for people at a path where nothing is; programs get what the listener says."""

        @web.middleware
        async def lost(request: web.Request, handler: Handler) -> web.StreamResponse:
            try:
                return await handler(request)
            except web.HTTPNotFound:
                if "text/html" not in request.headers.get("Accept", ""):
                    raise
            response = self._refused(request, HTTPStatus.NOT_FOUND, "nothing is served at this path")
            response.headers.update(HEADERS)
            return response

        return lost

    # -- files
    async def _static(self, request: web.Request) -> web.StreamResponse:
        found = static_files().get(request.match_info["name"])
        if found is None:
            raise web.HTTPNotFound
        body, content_type = found
        current = request.query.get("v") == static_version()
        caching = f"public, max-age={STATIC_SECONDS}, immutable" if current else "no-cache"
        return web.Response(body=body, headers={"Content-Type": content_type, "Cache-Control": caching})

    async def _favicon(self, _request: web.Request) -> web.StreamResponse:
        body, content_type = static_files()["icon.svg"]
        return web.Response(body=body, headers={"Content-Type": content_type})


def _texts(values: Mapping[str, Any]) -> dict[str, str]:
    """Fields that are texts and not empty; forms send what was not filled in as well."""
    return {name: value.strip() for name, value in values.items() if isinstance(value, str) and value.strip()}


def _where(error: Exception) -> str:
    """The kind of a fault and where it was raised. Its message is left out: it could quote content."""
    frames = traceback.extract_tb(error.__traceback__)
    return f"{type(error).__name__} at {frames[-1].filename}:{frames[-1].lineno}" if frames else type(error).__name__
