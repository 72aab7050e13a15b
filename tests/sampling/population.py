"""Candidates for draws, with trace ids as random as real ones and the same every time."""

from __future__ import annotations

import hashlib
from typing import Any

from monitor.model.run import Candidate


def trace_id(name: str) -> str:
    """A trace id that looks random and is told by its name."""
    return hashlib.md5(name.encode()).hexdigest()


def candidate(name: str = "c", **changes: Any) -> Candidate:
    """A settled invocation; everything can be changed."""
    trace = changes.pop("trace_id", None) or trace_id(name)
    plain: dict[str, Any] = {
        "invocation_id": f"{trace}-00000000000000aa",
        "trace_id": trace,
        "conversation_id": None,
        "agent_name": "restaurant-bot",
        "agent_version": "1.4.0",
        "environment": "production",
        "service": "bookings",
        "model": "gpt-4.1-mini",
        "operation": "invoke_agent",
        "collector": "otlp",
        "settled_by": "root_ended",
        "tools": ("find_table", "book_table"),
        "has_error": False,
        "attributes": {},
        "ended_at": 100.0,
        "settled_at": 130.0,
    }
    return Candidate(**(plain | changes))


def population(count: int, seed: str = "", **changes: Any) -> list[Candidate]:
    """So many candidates of different traces."""
    return [candidate(f"{seed}/{number}", **changes) for number in range(count)]
