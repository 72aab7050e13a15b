"""Who has yet to be considered by whom."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable

from monitor.model.origin import is_backfill
from monitor.store.sqlite.turns import release_turns

_TAKE = "DELETE FROM waiting WHERE monitor = ? AND settled_at = ? AND invocation = ?"


def enqueue(connection: sqlite3.Connection, invocation: int, settled_at: float, monitors: Iterable[str]) -> None:
    """Let an invocation wait for each of the monitors."""
    enqueue_all(connection, ((monitor, settled_at, invocation) for monitor in monitors))


def enqueue_all(connection: sqlite3.Connection, waiting: Iterable[tuple[str, float, int]]) -> None:
    """Let invocations wait: (monitor, settled_at, invocation)."""
    connection.executemany("INSERT INTO waiting (monitor, settled_at, invocation) VALUES (?, ?, ?)", waiting)


def take(connection: sqlite3.Connection, monitor: str, taken: Iterable[tuple[float, int]]) -> None:
    """Take (settled_at, invocation) pairs out: the monitor has considered them."""
    connection.executemany(_TAKE, ((monitor, settled_at, invocation) for settled_at, invocation in taken))


def waiting_monitors(connection: sqlite3.Connection) -> list[str]:
    """The monitors that anything waits for, a step through the key for each instead of a scan of all rows."""
    monitors: list[str] = []
    found = connection.execute("SELECT min(monitor) FROM waiting").fetchone()[0]
    while found is not None:
        monitors.append(found)
        found = connection.execute("SELECT min(monitor) FROM waiting WHERE monitor > ?", (found,)).fetchone()[0]
    return monitors


def withdraw(connection: sqlite3.Connection, invocation: int, settled_at: float) -> None:
    """Let an invocation wait for nobody any more."""
    connection.executemany(_TAKE, ((monitor, settled_at, invocation) for monitor in waiting_monitors(connection)))


def oldest_waiting(connection: sqlite3.Connection, monitor: str) -> float | None:
    """When the oldest invocation settled that waits for a monitor, or None."""
    found: float | None = connection.execute(
        "SELECT min(settled_at) FROM waiting WHERE monitor = ?", (monitor,)
    ).fetchone()[0]
    return found


def retire(connection: sqlite3.Connection, active: Collection[str]) -> int:
    """Drop what waits for monitors that are not active; those invocations have one monitor less to wait for."""
    gone = {monitor for monitor in waiting_monitors(connection) if not is_backfill(monitor)} - set(active)
    return sum(release(connection, monitor) for monitor in gone)


def release(connection: sqlite3.Connection, monitor: str) -> int:
    """Drop what waits for one monitor or backfill."""
    conversations = connection.execute(
        """SELECT w.invocation FROM waiting w JOIN invocations i ON i.n = w.invocation
           WHERE w.monitor = ? AND i.turns IS NOT NULL""",
        (monitor,),
    ).fetchall()
    connection.execute(
        """UPDATE invocations SET unconsidered = unconsidered - 1
           WHERE n IN (SELECT invocation FROM waiting WHERE monitor = ?)""",
        (monitor,),
    )
    dropped = connection.execute("DELETE FROM waiting WHERE monitor = ?", (monitor,)).rowcount
    release_turns(connection, (row for (row,) in conversations))
    return dropped
