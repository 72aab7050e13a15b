"""`forget` says what it has erased: how much, and of whose conversations."""

from __future__ import annotations

from typing import Any

import pytest

from monitor.cli import main
from monitor.commands.client import Server


def answering(monkeypatch: pytest.MonkeyPatch, answer: dict[str, Any]) -> list[dict[str, Any]]:
    """A daemon that gives this answer; what it is asked is collected."""
    asked: list[dict[str, Any]] = []

    def request(_self: Server, _method: str, _path: str, /, **parameters: Any) -> Any:
        asked.append({name: value for name, value in parameters.items() if value is not None})
        return answer

    monkeypatch.setattr(Server, "request", request)
    return asked


def conversation(service: str, environment: str, turns: int) -> dict[str, Any]:
    return {"conversation_id": "c", "service": service, "environment": environment, "turns": turns}


def test_the_conversations_of_an_id_are_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """By service and environment with their turns; a name that a sender chose does not reach the terminal as a command."""
    places = [conversation("shop", "live", 2), conversation("de\x1bsk", "", 1), conversation("", "", 1)]
    asked = answering(monkeypatch, {"forgotten": 4, "conversations": places})
    assert main(["forget", "--conversation-id", "c", "--environment", "live"]) == 0
    assert asked == [{"conversation_id": "c", "environment": "live"}]
    assert capsys.readouterr().out == (
        "erased the content of 4 invocations in 3 conversations: service shop in live (2 turns), service desk (1 turn), "
        "service not known (1 turn); verdicts and tallies stay as numbers\n"
    )


def test_a_trace_has_no_service_to_pick(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """`--service` beside `--trace-id` is refused before anything is erased; a trace alone is counted."""
    asked = answering(monkeypatch, {"forgotten": 1})
    assert main(["forget", "--trace-id", "1" * 32, "--service", "shop"]) == 2
    assert not asked
    assert main(["forget", "--trace-id", "1" * 32]) == 0
    assert "erased the content of 1 invocation; verdicts" in capsys.readouterr().out
