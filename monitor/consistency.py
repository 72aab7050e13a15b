"""Faults that a configuration has in itself although each key is right: listeners that collide, labels that cannot be."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from collectors.otlp.config import OtlpConfig
from collectors.otlp.endpoint import Endpoint, parse_endpoint
from monitor.exporters.prometheus.labels import RESERVED_NAMES, usable_name
from monitor.exporters.rules.source import OWN_LABELS
from monitor.exporters.rules.templates import template_fault
from monitor.settings.document import Fault
from monitor.settings.load import LoadedSettings

_SERVER = ("server", "endpoint")
_ANNOTATION = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")


@dataclass(frozen=True, slots=True)
class _Listener:
    path: tuple[str, ...]
    endpoint: Endpoint


def inconsistencies(loaded: LoadedSettings, collectors: Mapping[str, Any]) -> Iterator[Fault]:
    """All of them. `collectors` are the parsed ones, by name; one that could not be parsed is left out."""
    listeners = [one for one in _receivers(collectors) if loaded.sound(*one.path)]
    try:
        if loaded.sound(*_SERVER):
            listeners.insert(0, _Listener(_SERVER, parse_endpoint(loaded.settings.server.endpoint)))
    except ValueError as error:
        yield loaded.document.fault(_SERVER, str(error))
    yield from _collisions(loaded, listeners)
    yield from _exporter(loaded)
    for name in loaded.settings.monitors:
        yield from _labels(loaded, name)


def remarks(loaded: LoadedSettings) -> Iterator[Fault]:
    """What is right, and may not be what is meant: nothing that would be judged, a server that shows no content."""
    if not loaded.settings.monitors:
        yield loaded.document.fault(("monitors",), "there is none: what arrives is stored, and nothing of it is judged")
    server = loaded.settings.server
    host = parse_endpoint(server.endpoint).host
    address = _address(host)
    open_to_others = not host or (address is not None and not address.is_loopback)
    if open_to_others and server.auth is None and not (server.tls and server.tls.client_ca_file):
        reason = (
            f"{server.endpoint} is open to other machines and has no authorisation: figures and health are served, paths that show content or "
            "change state answer 403; set server.auth.bearer_token_file or server.tls.client_ca_file"
        )
        yield loaded.document.fault(_SERVER, reason)


def _exporter(loaded: LoadedSettings) -> Iterator[Fault]:
    """An address that no record can be sent to."""
    exporter = loaded.settings.exporters.otlp
    if exporter is None:
        return
    scheme, separator, rest = exporter.endpoint.rpartition("://")
    known = not separator or scheme in ("http", "https")
    try:
        parsed = urlsplit(f"//{rest}")
        usable = known and bool(parsed.hostname) and (bool(separator) or parsed.port is not None)
    except ValueError:  # a port that is no number
        usable = False
    if not usable:
        reason = "is no address: write host:port, like collector:4317, or a URL, like https://collector:4318"
        yield loaded.document.fault(("exporters", "otlp", "endpoint"), reason)


def _receivers(collectors: Mapping[str, Any]) -> Iterator[_Listener]:
    for name, parsed in collectors.items():
        if isinstance(parsed, OtlpConfig):
            for protocol, receiver in (("grpc", parsed.grpc), ("http", parsed.http)):
                if receiver is not None:
                    path = ("collectors", name, "protocols", protocol, "endpoint")
                    yield _Listener(path, parse_endpoint(receiver.endpoint))


def _collisions(loaded: LoadedSettings, listeners: list[_Listener]) -> Iterator[Fault]:
    for index, one in enumerate(listeners):
        earlier = next((other for other in listeners[:index] if _collide(one.endpoint, other.endpoint)), None)
        if earlier is not None:
            where = ".".join(earlier.path)
            reason = f"{one.endpoint} is taken by {where} ({earlier.endpoint}); give each listener its own port"
            yield loaded.document.fault(one.path, reason)


def _collide(one: Endpoint, other: Endpoint) -> bool:
    """Whether two listeners would want the same port of one address; port 0 is any free one."""
    return one.port == other.port != 0 and _overlap(one.host, other.host)


def _overlap(one: str, other: str) -> bool:
    """Whether two hosts have an address in common, as far as their names tell: no name is looked up."""
    if one == other or not one or not other:
        return True
    first, second = _address(one), _address(other)
    if first is None or second is None:
        names = [host for host, address in ((one, first), (other, second)) if address is None]
        given = [address for address in (first, second) if address is not None]
        return any(address.is_unspecified for address in given) or (
            names == ["localhost"] and any(str(address) in ("127.0.0.1", "::1") for address in given)
        )
    return first.version == second.version and (first == second or first.is_unspecified or second.is_unspecified)


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _labels(loaded: LoadedSettings, monitor: str) -> Iterator[Fault]:
    """Names of labels and annotations that Prometheus refuses, or that are somebody else's, and annotations that are no templates. Labels are texts."""
    settings = loaded.settings.monitors[monitor]
    for name in settings.labels:
        path = ("monitors", monitor, "labels", name)
        if name in RESERVED_NAMES or name in OWN_LABELS:
            yield loaded.document.fault(
                path, f"`{name}` is a label of its own in Prometheus or here; choose another name"
            )
        elif not usable_name(name):
            yield loaded.document.fault(
                path, f"`{name}` is no name of a label: letters, digits and _, no digit first, not beginning with __"
            )
    for name, text in settings.annotations.items():
        path = ("monitors", monitor, "annotations", name)
        wrong = template_fault(text)
        if wrong is not None:
            yield loaded.document.fault(path, wrong)
        if not _ANNOTATION.fullmatch(name):
            yield loaded.document.fault(
                path, f"`{name}` is no name of an annotation: letters, digits and _, no digit first"
            )
