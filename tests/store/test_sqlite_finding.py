"""Invocations are found by their ids wherever they are stored."""

from __future__ import annotations

from pathlib import Path

from monitor.model.run import JournalPosition
from monitor.store.sqlite import SqliteStore
from tests.contracts.store_material import hex_id, invocation, pages, settlement

OTHER = hex_id("another trace", 32)


def test_one_that_moves_between_traces_stays_one(tmp_path: Path) -> None:
    """A run whose turn is settled with another trace, and later with its own again, is revised, not stored a second time."""
    store = SqliteStore(tmp_path)
    one = invocation("a")
    for revision, trace_id in enumerate((one.trace_id, OTHER, one.trace_id, OTHER), 1):
        told = settlement(invocation("a", revision=revision), trace_id=trace_id, consumed=JournalPosition(1, revision))
        store.save_traces([told])
        found = store.invocation(one.id)
        assert found is not None
        assert (found.id, found.trace_id, found.revision) == (one.id, trace_id, revision)
    assert [item["id"] for item in pages(store.list_invocations)] == [one.id]
    store.close()


def test_one_that_was_never_with_its_own_trace_is_revised_there(tmp_path: Path) -> None:
    """An invocation that came with another trace first is the same one when its own trace settles, alone or among many."""
    store = SqliteStore(tmp_path)
    one = invocation("a")
    store.save_traces([settlement(one, trace_id=OTHER)])
    assert store.invocation(one.id) == invocation("a", trace_id=OTHER)
    store.save_traces(
        [settlement(invocation("b")), settlement(invocation("a", revision=2)), settlement(invocation("c"))]
    )
    assert store.invocation(one.id) == invocation("a", revision=2)
    assert sorted(item["id"] for item in pages(store.list_invocations)) == sorted(
        invocation(name).id for name in ("a", "b", "c")
    )
    store.close()
