"""Langfuse keeps the contract of pollers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from collectors.langfuse import build_langfuse
from tests.contracts.poller_contract import PollerContract
from tests.support.trace_servers import FakeLangfuse


class TestLangfuse(PollerContract):
    """The newest API."""

    kind = "langfuse"
    build = staticmethod(build_langfuse)
    server = FakeLangfuse

    @staticmethod
    def comparable(found: Sequence[dict[str, Any]]) -> Any:
        """An observation is read as Langfuse's dialect."""
        return [{key: value for key, value in one.items() if key not in ("convention",)} for one in found]
