"""How large the database is, and giving space back."""

from __future__ import annotations

import sqlite3

_PAGES_AT_ONCE = 2048
_PATIENCE_MILLISECONDS = 100


def used_bytes(connection: sqlite3.Connection) -> int:
    """Bytes in use: the file without its free pages."""
    pages, free, size = (
        connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "freelist_count", "page_size")
    )
    return int((pages - free) * size)


def give_back(connection: sqlite3.Connection) -> int:
    """Give free pages back to the disk, some at a time; returns how many are left. Outside of transactions."""
    # A script, because `execute` stops after the first step of this pragma, which is one page.
    connection.executescript(f"PRAGMA incremental_vacuum({_PAGES_AT_ONCE});")
    return int(connection.execute("PRAGMA freelist_count").fetchone()[0])


def checkpoint(connection: sqlite3.Connection) -> None:
    """Write the write-ahead log to the database as far as readers let it, without waiting for them. Outside of transactions."""
    connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()


def empty_log(connection: sqlite3.Connection) -> bool:
    """Empty the write-ahead log, which still holds what was erased; False when a reader was in the way. Outside of transactions.

    It holds up all writing, so a reader is waited for only a moment.
    """
    patience = connection.execute("PRAGMA busy_timeout").fetchone()[0]
    connection.execute(f"PRAGMA busy_timeout = {_PATIENCE_MILLISECONDS}")
    try:
        return bool(connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] == 0)
    finally:
        connection.execute(f"PRAGMA busy_timeout = {patience}")
