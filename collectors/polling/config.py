"""What can be set of a poller. Durations are seconds, sizes bytes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Pace:
    """How a source is polled.

    `interval`: between polls. `overlap`: how late spans may show up; 30 minutes hold for agents that run for long, because stores index by
    a span's start. `lag_least` and `lag_most` bound how far behind now we search first. `lookback`: how far back a new
    collector begins. `catch_up`: how far back after a downtime; what is older is left out and said. `max_results`: hits of one search, past
    which its window is halved.
    """

    interval: float = 30.0
    overlap: float = 1800.0
    lag_least: float = 5.0
    lag_most: float = 120.0
    lookback: float = 600.0
    catch_up: float = 86400.0
    widest: float = 300.0
    max_results: int = 1000
    max_concurrency: int = 4


@dataclass(frozen=True, slots=True)
class Credentials:
    """How we prove who we are; files are read again at every request, so that a rotated secret is taken up."""

    bearer_token: str | None = field(default=None, repr=False)
    bearer_token_file: str | None = None
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    password_file: str | None = None


@dataclass(frozen=True, slots=True)
class ClientTls:
    """TLS towards the source: an own authority, a client certificate. Certificates are always verified."""

    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None
    server_name: str | None = None


@dataclass(frozen=True, slots=True)
class HttpConfig:
    """How a source is reached. `endpoint` is a URL without credentials; `timeout` is for one request."""

    endpoint: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    credentials: Credentials = Credentials()
    tls: ClientTls = ClientTls()
    timeout: float = 30.0
    requests_per_second: float = 10.0
    max_response_bytes: int = 64 * 1024**2


@dataclass(frozen=True, slots=True)
class PollerConfig:
    """A poller: its type, where it reads and how often, and what its type alone knows (`options`)."""

    kind: str
    pace: Pace
    http: HttpConfig | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
