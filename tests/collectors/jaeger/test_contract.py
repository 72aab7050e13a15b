"""Jaeger keeps the contract of pollers."""

from __future__ import annotations

from collectors.jaeger import build_jaeger
from tests.contracts.poller_contract import PollerContract
from tests.support.trace_servers import FakeJaeger


class TestJaeger(PollerContract):
    """The newest API."""

    kind = "jaeger"
    build = staticmethod(build_jaeger)
    server = FakeJaeger
    raw = {"max_results": 5000}  # noqa: RUF012
