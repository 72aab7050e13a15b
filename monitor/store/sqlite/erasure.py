"""Erasing content: retention, what no monitor wanted."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from monitor.store.sqlite import earlier
from monitor.store.sqlite.ties import drop_ties, with_turns
from monitor.store.sqlite.turns import conversations_of, drop_empty
from monitor.store.sqlite.waiting import withdraw


def erase_content(connection: sqlite3.Connection, invocations: Sequence[int]) -> None:
    """Erase what was said in invocations and in what judges said of them. Heads and figures stay."""
    rows = [(row,) for row in invocations]
    connection.executemany("DELETE FROM invocation_content WHERE invocation = ?", rows)
    connection.executemany(
        "DELETE FROM verdict_content WHERE evaluation IN (SELECT n FROM evaluations WHERE invocation = ?)", rows
    )
    connection.executemany("DELETE FROM label_comments WHERE invocation = ?", rows)
    earlier.erase(connection, rows)
    connection.executemany("UPDATE invocations SET has_content = 0 WHERE n = ?", rows)


def erase_spans(connection: sqlite3.Connection, traces: Sequence[int]) -> None:
    """Erase the raw spans of traces."""
    rows = [(row,) for row in traces]
    connection.executemany("DELETE FROM trace_spans WHERE trace = ?", rows)
    connection.executemany("UPDATE traces SET has_spans = 0 WHERE n = ?", rows)


def _rows(connection: sqlite3.Connection, query: str, *arguments: object) -> list[int]:
    return [row[0] for row in connection.execute(query, arguments)]


def erase_what_was_said_of(connection: sqlite3.Connection, conversations: Sequence[int]) -> None:
    """What judges and people said of conversations may quote any of their turns."""
    for number in conversations:
        rows = _rows(connection, "SELECT n FROM invocations WHERE conversation = ? AND turns IS NOT NULL", number)
        erase_content(connection, rows)


_JUDGED = """SELECT n FROM invocations WHERE has_content = 1 AND unconsidered = 0 AND NOT EXISTS (
    SELECT 1 FROM evaluations e WHERE e.invocation = invocations.n AND e.state = 'pending') AND NOT EXISTS (
    SELECT 1 FROM invocations k JOIN evaluations e ON e.invocation = k.n AND e.state = 'pending'
    WHERE k.conversation = invocations.conversation AND k.turns IS NOT NULL) LIMIT ?"""


def drop_unwanted(connection: sqlite3.Connection, limit: int, judged_too: bool) -> int:
    """See `Store.drop_unwanted_content`. Raw spans go when no invocation of their trace has content left."""
    undrawn = "SELECT n FROM invocations WHERE has_content = 1 AND unconsidered = 0 AND drawn = 0 LIMIT ?"
    invocations = _rows(connection, _JUDGED if judged_too else undrawn, limit)
    erase_content(connection, invocations)
    _erase_spans_without_content(connection, invocations)
    return len(invocations)


def _erase_spans_without_content(connection: sqlite3.Connection, invocations: Sequence[int]) -> None:
    traces = {
        trace
        for row in invocations
        for trace in _rows(
            connection,
            """SELECT trace FROM invocations i WHERE n = ? AND NOT EXISTS (
                   SELECT 1 FROM invocations o WHERE o.trace = i.trace AND o.has_content = 1)""",
            row,
        )
    }
    erase_spans(connection, with_turns(connection, traces))


def expire_content(connection: sqlite3.Connection, before: float, limit: int) -> int:
    """Erase the content of up to `limit` invocations and as many traces that settled before a time, oldest first."""
    invocations = _rows(
        connection,
        "SELECT n FROM invocations WHERE has_content = 1 AND settled_at < ? ORDER BY settled_at LIMIT ?",
        before,
        limit,
    )
    traces = _rows(
        connection,
        "SELECT n FROM traces WHERE has_spans = 1 AND settled_at < ? ORDER BY settled_at LIMIT ?",
        before,
        limit,
    )
    erase_content(connection, invocations)
    erase_what_was_said_of(connection, conversations_of(connection, invocations))
    erase_spans(connection, traces)
    return len(invocations) + len(traces)


_GOES_ON = """turns IS NOT NULL AND EXISTS (
    SELECT 1 FROM conversations c WHERE c.n = conversation AND (c.changed_at >= ? OR c.completed_at >= ?))"""
"""A conversation that still gets turns keeps its row, or it would be drawn and counted anew."""


def expire_rows(connection: sqlite3.Connection, before: float, limit: int) -> int:
    """Delete up to `limit` invocations that settled before a time, with their decisions, evaluations and verdicts; and as many traces
    that have none left.
    """
    found = connection.execute(
        f"SELECT n, settled_at, unconsidered FROM invocations WHERE settled_at < ? AND NOT ({_GOES_ON}) ORDER BY settled_at LIMIT ?",  # noqa: S608
        (before, before, before, limit),
    ).fetchall()
    conversations = conversations_of(connection, [row for row, _, _ in found])
    for row, settled_at, unconsidered in found:
        if unconsidered:
            withdraw(connection, row, settled_at)
    rows = [(row,) for row, _, _ in found]
    erase_content(connection, [row for (row,) in rows])
    connection.executemany(
        "DELETE FROM verdict_log WHERE evaluation IN (SELECT n FROM evaluations WHERE invocation = ?)", rows
    )
    connection.executemany(
        "DELETE FROM verdicts WHERE evaluation IN (SELECT n FROM evaluations WHERE invocation = ?)", rows
    )
    connection.executemany("DELETE FROM evaluations WHERE invocation = ?", rows)
    connection.executemany("DELETE FROM decisions WHERE invocation = ?", rows)
    connection.executemany("DELETE FROM given_up WHERE invocation = ?", rows)
    connection.executemany("DELETE FROM invocations WHERE n = ?", rows)
    waited = [(number, before) for number in conversations]
    connection.executemany("UPDATE conversations SET changed_at = NULL WHERE n = ? AND changed_at < ?", waited)
    drop_empty(connection, conversations)
    traces = _rows(
        connection,
        """SELECT n FROM traces t WHERE settled_at < ?
           AND NOT EXISTS (SELECT 1 FROM invocations i WHERE i.trace = t.n) ORDER BY settled_at LIMIT ?""",
        before,
        limit,
    )
    erase_spans(connection, traces)
    drop_ties(connection, traces)
    connection.executemany("DELETE FROM traces WHERE n = ?", [(row,) for row in traces])
    return len(rows) + len(traces)


def expire_runs(connection: sqlite3.Connection, before: float) -> None:
    """Delete runs of before a time, except each monitor's newest that was completed: the schedule goes on from it."""
    connection.execute(
        """DELETE FROM runs WHERE tick < ? AND tick < (
               SELECT max(tick) FROM runs newest WHERE newest.monitor = runs.monitor AND newest.outcome <> 'failed')""",
        (before,),
    )
