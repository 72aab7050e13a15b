"""Who may see a page and send a form: the server's gate, with a signed-in session in place of the header."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from urllib.parse import urlsplit

from aiohttp import web

from monitor.clock import Clock
from monitor.server.access import Access, Gate
from monitor.server.pages.sessions import SESSION_SECONDS, Session, Sessions, Tries
from monitor.server.problems import Refused

SIGN_IN = "/sign-in"


class SignInNeeded(Exception):
    """The page wants somebody who is signed in."""


@dataclass(frozen=True, slots=True)
class Visitor:
    """Who asks: the session or None, the secret that forms carry, and what may be shown. `tokens` says that signing in is a thing here."""

    session: Session | None
    csrf: str
    content: bool
    tokens: bool


class Guard:
    """Admits requests for pages. `gate` is asked each time: it is made at the server's start. On the event loop only."""

    def __init__(self, gate: Callable[[], Gate], clock: Clock, external_url: str | None) -> None:
        self._gate = gate
        self._clock = clock
        self._external = urlsplit(external_url or "")
        self._sessions = Sessions()
        self._tries = Tries()
        self._csrf = secrets.token_urlsafe(32)

    def admit(self, request: web.Request, access: Access) -> Visitor:
        """Let a request through. Raises SignInNeeded, or Refused with 403."""
        session = self._session(request)
        if session is None:
            self._ask_gate(request, access)
        return Visitor(
            session,
            session.csrf if session is not None else self._csrf,
            content=session is not None or self._may(request, Access.CONTENT),
            tokens=self._gate().tokens is not None,
        )

    def _ask_gate(self, request: web.Request, access: Access) -> None:
        try:
            self._gate().admit(request, access)
        except Refused as refused:
            if refused.status is HTTPStatus.UNAUTHORIZED:
                raise SignInNeeded from None
            raise

    def _may(self, request: web.Request, access: Access) -> bool:
        try:
            self._gate().admit(request, access)
        except Refused:
            return False
        return True

    def check_form(self, request: web.Request, given: str | None, visitor: Visitor) -> None:
        """Refuse a form that does not come from a page of ours: its origin, and the secret that only our pages know."""
        origin = request.headers.get("Origin")
        site = request.headers.get("Sec-Fetch-Site", "same-origin")
        hosts = [host for host in (request.host, self._external.netloc) if host]
        own = origin is None or urlsplit(origin).netloc in hosts
        if not own or site not in ("same-origin", "none") or not hmac.compare_digest(given or "", visitor.csrf):
            raise Refused(
                HTTPStatus.FORBIDDEN, "the form is no longer good, or does not come from here: load the page again"
            )

    # -- signing in
    def sign_in(self, request: web.Request, token: str) -> Session | None:
        """A session for a token of `server.auth`, or None for a wrong one. Raises Refused with 429 after too many wrong ones."""
        peer, now = request.remote or "", self._clock.now()
        wait = self._tries.wait(peer, now)
        if wait:
            raise Refused(HTTPStatus.TOO_MANY_REQUESTS, f"too many wrong tokens: try again in {wait:.0f} s")
        tokens = self._gate().tokens
        if tokens is None or not token.isprintable() or not tokens.accept(f"Bearer {token}"):
            self._tries.failed(peer, now)
            return None
        return self._sessions.open(token, now)

    def sign_out(self, session: Session | None) -> None:
        """End a session."""
        if session is not None:
            self._sessions.close(session.id)

    def _session(self, request: web.Request) -> Session | None:
        """The session of the cookie, while its token is still one of the file's."""
        tokens = self._gate().tokens
        session = self._sessions.find(request.cookies.get(self.cookie(request)), self._clock.now())
        if session is None or tokens is None:
            return None
        if not tokens.accept(f"Bearer {session.token}"):
            self._sessions.close(session.id)
            return None
        return session

    def cookie(self, request: web.Request) -> str:
        """The cookie's name: bound to the host by its prefix under TLS; else it tells the port, for cookies do not."""
        return "__Host-rubricd" if self._secure(request) else f"rubricd-{request.url.port}"

    def keep(self, request: web.Request, response: web.StreamResponse, session: Session) -> None:
        """Give the browser the session's cookie."""
        response.set_cookie(
            self.cookie(request), session.id, max_age=int(SESSION_SECONDS), path="/", httponly=True, samesite="Strict",
            secure=self._secure(request),
        )  # fmt: skip

    def drop(self, request: web.Request, response: web.StreamResponse) -> None:
        """Take the cookie back."""
        response.del_cookie(
            self.cookie(request), path="/", httponly=True, samesite="Strict", secure=self._secure(request)
        )

    def _secure(self, request: web.Request) -> bool:
        return request.secure or (self._external.scheme == "https" and request.host == self._external.netloc)


def may_come_from_elsewhere(request: web.Request) -> bool:
    """Whether a browser may have followed a link from another site: then it leaves out our cookie, which is for this site only. Over plain HTTP
    browsers do not tell.
    """
    return request.method == "GET" and request.headers.get("Sec-Fetch-Site") not in ("same-origin", "none")


def own_path(text: str | None) -> str:
    """Where to go after signing in: a path of ours, never another site."""
    if not text or not text.startswith("/") or text.startswith(("//", "/\\")) or not text.isprintable():
        return "/"
    return text
