"""Turns over several traces: by which keys a trace is found, and which traces make one turn."""

from __future__ import annotations

import sqlite3
import struct
from collections.abc import Collection, Iterable, Sequence

from monitor.model.run import TiedTrace, TraceSettlement, TurnTie

TIE_SECONDS = 24 * 3600.0
"""What comes later than this changes nothing that is stored (contract section 3, `late_spans`)."""

_EXPIRED_AT_ONCE = 200
_KEY = struct.Struct("<qI")

OF_TURN = """
    SELECT other.n FROM traces one JOIN traces other ON other.n = one.n OR other.turn = one.turn WHERE one.trace_id = ?
"""
"""The rows of a trace and of those that make one turn with it."""


def with_turns(connection: sqlite3.Connection, rows: Iterable[int]) -> list[int]:
    """The traces and those that make one turn with them."""
    found = set(rows)
    for row in list(found):
        found.update(
            other
            for (other,) in connection.execute(
                "SELECT other.n FROM traces one JOIN traces other ON other.turn = one.turn WHERE one.n = ?", (row,)
            )
        )
    return sorted(found)


def save_ties(connection: sqlite3.Connection, saved: Sequence[TraceSettlement]) -> None:
    """Keep the ties of traces, all of which have a row by now."""
    tied = [(told, told.tie) for told in saved if told.tie is not None]
    for told, tie in tied:
        (row,) = connection.execute("SELECT n FROM traces WHERE trace_id = ?", (told.trace_id,)).fetchone()
        _save(connection, row, told.settled_at, tie)
    if tied:
        before = max(told.settled_at for told, _ in tied) - TIE_SECONDS
        _expire(connection, before, max(_EXPIRED_AT_ONCE, 2 * len(tied)))


def _save(connection: sqlite3.Connection, row: int, settled_at: float, tie: TurnTie) -> None:
    turn = "(SELECT n FROM traces WHERE trace_id = ?)"
    connection.execute(f"UPDATE traces SET turn = {turn} WHERE n = ? AND turn IS NOT {turn}", (tie.turn, row, tie.turn))  # noqa: S608
    keys = b"".join(_KEY.pack(*key) for key in tie.keys)
    if connection.execute("SELECT 1 FROM ties WHERE trace = ? AND keys = ?", (row, keys)).fetchone():
        connection.execute("UPDATE ties SET pieces = ? WHERE trace = ? AND pieces <> ?", (tie.pieces, row, tie.pieces))
        return
    drop_ties(connection, [row])
    connection.execute(
        "INSERT INTO ties (trace, settled_at, keys, pieces) VALUES (?, ?, ?, ?)", (row, settled_at, keys, tie.pieces)
    )
    connection.executemany(
        "INSERT OR IGNORE INTO tie_keys (key, at, trace) VALUES (?, ?, ?)", [(*key, row) for key in tie.keys]
    )


def drop_ties(connection: sqlite3.Connection, rows: Iterable[int]) -> None:
    """Forget the ties of traces."""
    for row in rows:
        found = connection.execute("SELECT keys FROM ties WHERE trace = ?", (row,)).fetchone()
        if found is None:
            continue
        connection.executemany(
            "DELETE FROM tie_keys WHERE key = ? AND at = ? AND trace = ?",
            [(*key, row) for key in _KEY.iter_unpack(found[0])],
        )
        connection.execute("DELETE FROM ties WHERE trace = ?", (row,))


def _expire(connection: sqlite3.Connection, before: float, limit: int) -> None:
    """Forget old ties, some at a time, but more than come. The newest without pieces stays: what an agent was set up with holds until it is set up anew."""
    old = connection.execute(
        "SELECT trace, keys, pieces FROM ties WHERE settled_at < ? ORDER BY settled_at LIMIT ?",
        (before, limit),
    ).fetchall()
    kept = [row for row, keys, pieces in old if not pieces and _is_newest(connection, keys)]
    drop_ties(connection, [row for row, _, _ in old if row not in kept])
    connection.executemany(
        "UPDATE ties SET settled_at = ? WHERE trace = ?", [(before + TIE_SECONDS, row) for row in kept]
    )


def _is_newest(connection: sqlite3.Connection, keys: bytes) -> bool:
    newer = "SELECT 1 FROM tie_keys WHERE key = ? AND at > ? LIMIT 1"
    return any(connection.execute(newer, key).fetchone() is None for key in _KEY.iter_unpack(keys))


def tied_traces(
    connection: sqlite3.Connection,
    trace_ids: Collection[str],
    keys: Collection[int],
    windows: Collection[tuple[int, int, int]],
    limit: int,
) -> list[TiedTrace]:
    """See `Store.tied_traces`."""
    rows: set[int] = set()
    for trace_id in trace_ids:
        rows.update(n for (n,) in connection.execute("SELECT n FROM traces WHERE trace_id = ?", (trace_id,)))
    for key, since, until in [*((key, 0, 2**32) for key in keys), *windows]:
        rows.update(
            n
            for (n,) in connection.execute(
                "SELECT trace FROM tie_keys WHERE key = ? AND at BETWEEN ? AND ? ORDER BY at DESC LIMIT ?",
                (key, since, until, limit),
            )
        )
    return [
        TiedTrace(*found)
        for row in with_turns(connection, rows)
        for found in connection.execute(
            """SELECT t.trace_id, coalesce((SELECT l.trace_id FROM traces l WHERE l.n = t.turn), t.trace_id), s.pieces
               FROM ties s JOIN traces t ON t.n = s.trace WHERE s.trace = ?""",
            (row,),
        )
    ]
