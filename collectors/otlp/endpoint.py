"""Where a listener listens: `host:port` to the addresses behind it."""

from __future__ import annotations

import errno
import socket
from dataclasses import dataclass

from collectors.collector import CollectorFailed

_ANY_HOSTS = ("", "*")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A parsed `host:port`; an empty host means all addresses."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_endpoint(text: str) -> Endpoint:
    """`localhost:4317`, `0.0.0.0:4318`, `[::1]:4317`, `:4317`. Raises ValueError saying what would be right."""
    right = "write host:port, like localhost:4317 or 0.0.0.0:4317"
    if "://" in text or "/" in text:
        raise ValueError(f"is a host and a port, without scheme and path: {right}")
    host, colon, port = text.rpartition(":")
    if not colon or not (port.isascii() and port.isdigit()) or int(port) > 65535:
        raise ValueError(f"has no port from 0 to 65535: {right}")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ValueError("is an IPv6 address without brackets: write [::1]:4317")
    return Endpoint("" if host in _ANY_HOSTS else host, int(port))


def bind(endpoint: Endpoint, place: str) -> list[socket.socket]:
    """Sockets bound to every address of the endpoint, not yet listening; all on one port, also when that is 0 (any free one).

    `localhost` is two addresses on most machines. One that the machine does not have is left out; one that is taken is an error, because
    half a listener would go unnoticed. Raises CollectorFailed, with `place` in front, and leaves nothing open.
    """
    opened: list[socket.socket] = []
    port = endpoint.port
    try:
        for family, address in _addresses(endpoint):
            bound = _bound(family, (address, port), any_free=endpoint.port == 0 and bool(opened))
            if bound is not None:
                opened.append(bound)
                port = bound.getsockname()[1]
        if not opened:
            raise OSError(errno.EADDRNOTAVAIL, "the machine has no such address")
    except OSError as error:
        for bound in opened:
            bound.close()
        raise CollectorFailed(f"{place}: cannot listen on {endpoint}: {_reason(error)}") from None
    return opened


def _addresses(endpoint: Endpoint) -> list[tuple[socket.AddressFamily, str]]:
    """Families and addresses, IPv4 first, each once."""
    hosts = [endpoint.host] if endpoint.host else ["0.0.0.0", "::"]  # noqa: S104 - an empty host asks for all
    found = [info for host in hosts for info in socket.getaddrinfo(host, endpoint.port, type=socket.SOCK_STREAM)]
    pairs = dict.fromkeys((family, str(address[0])) for family, _, _, _, address in found)
    return sorted(pairs, key=lambda pair: pair[0] != socket.AF_INET)


def _bound(family: socket.AddressFamily, address: tuple[str, int], any_free: bool) -> socket.socket | None:
    """A bound socket, or None for an address that the machine does not have."""
    try:
        opened = socket.socket(family, socket.SOCK_STREAM)
    except OSError:
        return None
    try:
        opened.setsockopt(
            socket.SOL_SOCKET, socket.SO_REUSEADDR, 1
        )  # else a restart waits for old connections to time out
        if family == socket.AF_INET6:
            opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        opened.bind(address)
    except OSError as error:
        opened.close()
        if any_free or error.errno in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT, errno.EPERM):
            return None
        raise
    return opened


def _reason(error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return "the port is in use; stop the other program, or give another endpoint"
    if error.errno == errno.EACCES:
        return "the port needs privileges; give one from 1024 up"
    if isinstance(error, socket.gaierror):
        return "the host name is not known"
    return error.strerror or str(error)
