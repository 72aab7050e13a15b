"""What the SQLite store does with conversations that it cannot make sense of."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from monitor.model.conversation import digest
from monitor.model.run import Query
from monitor.store.sqlite import SqliteStore, conversations
from tests.contracts.store_conversations_contract import complete, settled, turn
from tests.contracts.store_material import invocation


def test_a_conversation_that_cannot_be_completed_stops_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fault of ours in one of two: the other is complete, and what was kept for the one is let go."""
    real = conversations._values

    def broken(first: conversations._Turn, others: Iterable[conversations._Turn], now: float) -> dict[str, object]:
        if first.conversation_id == "c":
            raise IndexError
        return real(first, others, now)

    monkeypatch.setattr(conversations, "_values", broken)
    store = SqliteStore(tmp_path)
    store.save_traces([settled(turn("a", 0)), settled(invocation("b", conversation_id="other"))])
    complete(store)
    listed = store.list_invocations(Query(level="conversation")).items
    assert [one["id"] for one in listed] == ["conversation:other"]
    assert complete(store) == 0
    store.close()


def test_the_turns_of_a_conversation_are_not_held() -> None:
    """An id that is used for ever has any number of turns: what they come to is summed one by one."""
    first = conversations._Turn(
        "t0", 1, 1, "s", 1, 0, 1, "root_ended", 0, 0, None, 1, 5, None, '{"k": 1}', 0.5, 1, "c"
    )  # fmt: skip
    others = (replace(first, id=f"t{number}", ended_at=number) for number in range(1, 20_000))
    tracemalloc.start()
    values = conversations._values(first, others, 1.0)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 200_000
    assert (values["turns"], values["input_tokens"], values["output_tokens"]) == (20_000, 100_000, None)
    assert values["digest"] == digest((f"t{number}", 1) for number in range(20_000))
