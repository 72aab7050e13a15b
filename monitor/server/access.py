"""Who may see and do what.

Health and the page of metrics are open to all who reach the port. With `server.auth` everything else wants a token. Without it, figures are open and
content and changes only to this machine, or to clients with a certificate of the configured authority.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from http import HTTPStatus
from urllib.parse import urlsplit

from aiohttp import web

from collectors.otlp.tokens import BearerTokens
from monitor.server.problems import Refused

_LOOPBACK_NAMES = ("localhost", "localhost.localdomain")


class Access(StrEnum):
    """What a path gives away: nothing worth hiding, numbers and names, content, or the power to change something."""

    OPEN = "open"
    FIGURES = "figures"
    CONTENT = "content"
    CHANGE = "change"


@dataclass(frozen=True, slots=True)
class Gate:
    """Admits requests. `loopback` says that every address listened on is; `client_ca` that TLS already knows the client."""

    endpoint: str
    loopback: bool
    client_ca: bool
    tokens: BearerTokens | None = None
    external_host: str | None = None

    @property
    def problem(self) -> str | None:
        """What is wrong with the token file that was right at the start, or None."""
        return None if self.tokens is None else self.tokens.problem

    def admit(self, request: web.Request, access: Access) -> None:
        """Let a request through, or raise Refused with 401 or 403."""
        if access is Access.OPEN:
            return
        if self.tokens is not None:
            if not self.tokens.accept(request.headers.get("Authorization")):
                raise Refused(HTTPStatus.UNAUTHORIZED, "a bearer token of server.auth.bearer_token_file is needed")
        elif access is not Access.FIGURES and not self.client_ca:
            self._admit_local(request, access)

    def _admit_local(self, request: web.Request, access: Access) -> None:
        if not self.loopback:
            raise Refused(
                HTTPStatus.FORBIDDEN,
                f"{self.endpoint} is open to other machines and has no authorisation, so {access} is not served: "
                "set server.auth.bearer_token_file or server.tls.client_ca_file, or listen on localhost",
                key="server.auth.bearer_token_file",
            )
        origin = request.headers.get("Origin")
        hosts = [request.host] if origin is None else [request.host, urlsplit(origin).netloc]
        if not all(self._is_local(host) for host in hosts):
            raise Refused(  # a page in a browser on this machine that calls us by a name of its own (DNS rebinding)
                HTTPStatus.FORBIDDEN,
                "without authorisation this machine is served under its own name only: use localhost, "
                "or set server.external_url to the name that you use",
                key="server.external_url",
            )

    def _is_local(self, host: str) -> bool:
        try:
            name = urlsplit(f"//{host}").hostname
        except ValueError:
            return False
        return name is not None and (name in _LOOPBACK_NAMES or name == self.external_host or is_loopback([name]))


def is_loopback(addresses: Sequence[str]) -> bool:
    """Whether all addresses are this machine's own; a name is no address."""
    try:
        return all(ipaddress.ip_address(address).is_loopback for address in addresses)
    except ValueError:
        return False
