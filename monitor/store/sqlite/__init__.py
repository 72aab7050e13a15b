"""The store in a SQLite database (WAL). Only this package knows SQL."""

from monitor.store.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
