"""Connections to the database file: one kind that writes, and a pool of those that read."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from monitor.store.protocol import StoreTooNew
from monitor.store.sqlite.faults import translated, unwritable
from monitor.store.sqlite.migrations import migrate

BUSY_SECONDS = 10.0
"""How long to wait for another process's transaction; ours last well below a second."""
_OLDEST = (3, 37, 0)
_PAGE_BYTES = 8192
"""Of a new database. A trace's raw spans take 4 to 9 kB: in SQLite's own pages of 4 kB each is written as two or three. Still larger ones cost where
ids are looked up by: these are random, and each puts a page of their index into the log.
"""
_WRITER = """
    PRAGMA temp_store = MEMORY;
    PRAGMA secure_delete = ON;
    PRAGMA cache_size = -32768;
    PRAGMA wal_autocheckpoint = 2000;
    PRAGMA journal_size_limit = 67108864;
"""
"""temp_store: the root file system may be read-only. secure_delete: what is erased is overwritten, not only unlinked."""


def open_for_writing(path: Path) -> sqlite3.Connection:
    """Open, create or migrate the database. Raises StoreUnwritable, StoreTooNew.

    The file is readable by its owner only: it holds what people wrote to agents.
    """
    if sqlite3.sqlite_version_info < _OLDEST:
        raise unwritable(path, f"SQLite 3.37 or newer is needed, this Python has {sqlite3.sqlite_version}")
    with translated(path):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
        connection = _connect(path)
        try:
            _prepare(connection, path)
        except BaseException:
            connection.close()
            raise
    return connection


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    connection.execute(f"PRAGMA page_size = {_PAGE_BYTES}")
    connection.execute("PRAGMA auto_vacuum = INCREMENTAL")  # both have an effect before the first table only
    mode = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
    if mode != "wal":
        raise unwritable(path, f"its file system cannot share memory (journal mode {mode}): use a local disk")
    for pragma in _WRITER.strip().splitlines():
        connection.execute(pragma)
    try:
        migrate(connection)
    except StoreTooNew as error:
        raise StoreTooNew(f"store {path}: {error}") from None


def _connect(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(
        path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False, cached_statements=512
    )


class ReadPool:
    """Connections that only read. A reader sees one moment of the database and is short: a long one would hold up checkpoints."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._idle: list[sqlite3.Connection] = []
        self._closed = False

    @contextmanager
    def snapshot(self) -> Iterator[sqlite3.Connection]:
        """A connection within one read transaction. Raises StoreUnwritable when the file cannot be read, or after `close`."""
        with translated(self._path):
            connection = self._take()
            try:
                connection.execute("BEGIN")
                yield connection
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                self._give_back(connection)

    def _take(self) -> sqlite3.Connection:
        with self._lock:
            if self._closed:
                raise unwritable(self._path, "it is closed")
            if self._idle:
                return self._idle.pop()
        connection = _connect(self._path)
        connection.execute("PRAGMA query_only = ON")
        connection.execute("PRAGMA temp_store = MEMORY")
        return connection

    def _give_back(self, connection: sqlite3.Connection) -> None:
        with self._lock:
            if not self._closed:
                self._idle.append(connection)
                return
        connection.close()

    def close(self) -> None:
        """Close what is idle now and what is in use when it comes back."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()
