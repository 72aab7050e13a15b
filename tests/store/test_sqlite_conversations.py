"""What the SQLite store does with conversations that it cannot make sense of."""

from __future__ import annotations

from pathlib import Path

import pytest

from monitor.model.run import Query
from monitor.store.sqlite import SqliteStore, conversations
from tests.contracts.store_conversations_contract import complete, settled, turn
from tests.contracts.store_material import invocation


def test_a_conversation_that_cannot_be_completed_stops_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fault of ours in one of two: the other is complete, and what was kept for the one is let go."""
    real = conversations._values

    def broken(turns: list[conversations._Turn], now: float) -> dict[str, object]:
        if turns[0].conversation_id == "c":
            raise IndexError
        return real(turns, now)

    monkeypatch.setattr(conversations, "_values", broken)
    store = SqliteStore(tmp_path)
    store.save_traces([settled(turn("a", 0)), settled(invocation("b", conversation_id="other"))])
    complete(store)
    listed = store.list_invocations(Query(level="conversation")).items
    assert [one["id"] for one in listed] == ["conversation:other"]
    assert complete(store) == 0
    store.close()
