"""What SQLite's errors mean to who runs rubricd."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from monitor.store.protocol import StoreUnwritable

_MEANINGS = {
    sqlite3.SQLITE_FULL: "the disk is full",
    sqlite3.SQLITE_READONLY: "it is read-only",
    sqlite3.SQLITE_CANTOPEN: "it cannot be opened",
    sqlite3.SQLITE_PERM: "permission is denied",
    sqlite3.SQLITE_AUTH: "permission is denied",
    sqlite3.SQLITE_IOERR: "the disk gives an input/output error",
    sqlite3.SQLITE_CORRUPT: "the database is damaged",
    sqlite3.SQLITE_NOTADB: "the file is no database",
    sqlite3.SQLITE_BUSY: "another process keeps it locked",
    sqlite3.SQLITE_LOCKED: "another process keeps it locked",
    sqlite3.SQLITE_PROTOCOL: "another process keeps it locked",
    sqlite3.SQLITE_NOMEM: "there is no memory left",
    sqlite3.SQLITE_TOOBIG: "a value is too large",
}


def unwritable(path: Path, reason: str) -> StoreUnwritable:
    """The error with the file, its folder and our user id, which is what has to be put right."""
    return StoreUnwritable(
        f"store {path.name} in folder {path.parent} cannot be written by user id {os.getuid()}: {reason}"
    )


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """Turn SQLite's environmental errors into StoreUnwritable; errors of our own making pass as they are."""
    try:
        yield
    except sqlite3.Error as error:
        meaning = _MEANINGS.get(getattr(error, "sqlite_errorcode", 0) & 0xFF)
        if meaning is None:
            raise
        raise unwritable(path, f"{meaning} ({error.sqlite_errorname})") from error
    except OSError as error:
        raise unwritable(path, error.strerror or type(error).__name__) from error
