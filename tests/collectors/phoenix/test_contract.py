"""Phoenix keeps the contract of pollers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from collectors.phoenix import build_phoenix
from tests.contracts.poller_contract import PollerContract
from tests.support.trace_servers import FakePhoenix


class TestPhoenix(PollerContract):
    """The newest API."""

    kind = "phoenix"
    build = staticmethod(build_phoenix)
    server = FakePhoenix
    window = False

    @staticmethod
    def comparable(found: Sequence[dict[str, Any]]) -> Any:
        """Phoenix keeps no resource: service and environment are lost."""
        return [
            {key: value for key, value in one.items() if key not in ("environment", "service", "completeness")}
            for one in found
        ]
