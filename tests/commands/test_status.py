"""`rubricd status` as people read it."""

from __future__ import annotations

from typing import Any

import pytest

from monitor.cli import main
from monitor.commands.client import Server

RATE = {
    "rubric": "r", "agent": "x" * 3000, "agent_version": "1", "window": "1h", "rate": 0.5, "lower": 0.4, "upper": 0.6, "judged": 9,
    "unscored": 0, "coverage": 1.0,
}  # fmt: skip
MONITOR = {
    "name": "m", "state": "waiting", "schedule": "every 1m", "last_run": None, "next_run": None, "pending": 0, "waiting_for_judge": [],
    "pass_rates": [{**RATE, "environment": "prod"}, {**RATE, "environment": "staging"}],
}  # fmt: skip


def test_pass_rates_tell_environments_apart_and_long_names_are_cut(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two rows that differ only in the environment say so, and a name of thousands of characters takes some lines, not hundreds."""
    dialect = {
        "agent": "x" * 3000,
        "convention": "c",
        "collector": "o",
        "invocations": 1,
        "looked_at": 1,
        "missing": {},
    }
    answers: dict[str, list[dict[str, Any]]] = {"/api/v1/monitors": [MONITOR], "/api/v1/dialects": [dialect]}
    monkeypatch.setattr(Server, "items", lambda self, path: answers.get(path, []))
    assert main(["status"]) == 0
    shown = capsys.readouterr().out
    assert ("environment" in shown, "prod" in shown, "staging" in shown, "…" in shown) == (True,) * 4
    assert len(shown.splitlines()) < 50
