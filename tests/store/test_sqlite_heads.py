"""Invocations of which only the head was stored, where the rest cannot be told from their spans any more."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from monitor.model.run import Query
from monitor.store.sqlite import SqliteStore
from tests.contracts.store_conversations_contract import complete, settled, turn
from tests.contracts.store_material import invocation, settlement


def test_a_head_whose_spans_say_something_else_is_shown_as_such(tmp_path: Path) -> None:
    """Another version of the program may find no such run in them: listings and the invocation itself show ids, names and times."""
    store = SqliteStore(tmp_path)
    told = settlement(invocation("head"))
    store.save_traces([replace(told, changes=(replace(told.changes[0], digest="", assembled=False),))])
    store.save_traces([settlement(invocation("whole"))])
    listed = store.list_invocations(Query()).items
    found = store.invocation(invocation("head").id)
    assert {one["id"] for one in listed} == {invocation("head").id, invocation("whole").id}
    assert found is not None
    assert (found.agent_name, found.user_input) == (invocation("head").agent_name, None)
    store.close()


def test_a_conversation_of_such_a_turn_is_shown(tmp_path: Path) -> None:
    """By its name and times."""
    store = SqliteStore(tmp_path)
    told = settled(turn("a", 0))
    store.save_traces([replace(told, changes=(replace(told.changes[0], digest="", assembled=False),))])
    complete(store)
    found = store.invocation("conversation:c")
    assert found is not None
    assert found.user_input is None
    store.close()
