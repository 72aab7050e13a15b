"""How large the database is, and giving space back."""

from __future__ import annotations

import sqlite3

_PAGES_AT_ONCE = 4096


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


def empty_log(connection: sqlite3.Connection) -> None:
    """Empty the write-ahead log, which still holds what was erased. Outside of transactions.

    When readers are in the way it is emptied as far as it goes; the next time does the rest.
    """
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
