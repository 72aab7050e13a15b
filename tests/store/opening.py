"""How the contract's child processes open a store of this kind."""

from __future__ import annotations

from pathlib import Path

from monitor.store.sqlite import SqliteStore


def open_sqlite(place: str) -> SqliteStore:
    """The SQLite store in a folder."""
    return SqliteStore(Path(place))
