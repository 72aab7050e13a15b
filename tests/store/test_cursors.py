"""Cursors of polling collectors in the store."""

from __future__ import annotations

from pathlib import Path

from monitor.store.cursors import StoredCursors
from monitor.store.sqlite import SqliteStore


def test_a_cursor_is_there_after_the_store_was_opened_anew(tmp_path: Path) -> None:
    """One value for each collector, the last one saved; unknown collectors have none."""
    store = SqliteStore(tmp_path)
    cursors = StoredCursors(store)
    cursors.save("tempo/a", {"head": 1.5})
    cursors.save("tempo/a", {"head": 2.5, "slices": [[0.0, 1.0, 2.0, 1]]})
    cursors.save("tempo/b", [1])
    store.close()
    store = SqliteStore(tmp_path)
    again = StoredCursors(store)
    assert again.load("tempo/a") == {"head": 2.5, "slices": [[0.0, 1.0, 2.0, 1]]}
    assert (again.load("tempo/b"), again.load("tempo/c")) == ([1], None)
    store.close()
