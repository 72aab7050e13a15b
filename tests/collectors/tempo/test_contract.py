"""Tempo keeps the contract of pollers."""

from __future__ import annotations

from collectors.tempo import build_tempo
from tests.contracts.poller_contract import PollerContract
from tests.support.trace_servers import FakeTempo


class TestTempo(PollerContract):
    """Version 2 of the trace API."""

    kind = "tempo"
    build = staticmethod(build_tempo)
    server = FakeTempo
