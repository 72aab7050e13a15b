"""Earlier revisions of invocations, with what judges said of them: for people who ask what an alert was about before late data came.

All of it is content: it goes when the invocation's content goes.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence

from monitor.model.browsing import EarlierRevision
from monitor.model.verdict import Verdict
from monitor.model.wire import invocation_from_json, invocation_json, verdict_json
from monitor.store.sqlite.blobs import packed_json, unpacked_json
from monitor.store.sqlite.heads import FROM_HEAD, HEAD, has_stored_content, read_stored
from monitor.store.sqlite.values import text

KEPT = 5
"""Revisions before the newest that are kept of an invocation."""


def keep_invocation(connection: sqlite3.Connection, row: int) -> None:
    """Keep an invocation as it is, before its revision is put in its place. One of which nobody read more than
    the head is not kept: nothing was said of it.
    """
    found = connection.execute(f"SELECT {HEAD} {FROM_HEAD} WHERE i.n = ?", (row,)).fetchone()
    if not has_stored_content(found):
        return
    kept = read_stored(found)
    connection.execute(
        "INSERT OR REPLACE INTO earlier_invocations (invocation, revision, body) VALUES (?, ?, ?)",
        (row, kept.revision, packed_json(invocation_json(kept))),
    )
    connection.execute(
        "DELETE FROM earlier_invocations WHERE invocation = ? AND revision <= ?", (row, kept.revision - KEPT)
    )


def keep_verdict(connection: sqlite3.Connection, invocation: int, evaluation: int, verdict: Verdict) -> None:
    """Keep a verdict as it is, before that of a later revision takes its place."""
    connection.execute(
        "INSERT OR REPLACE INTO earlier_verdicts (invocation, revision, evaluation, body) VALUES (?, ?, ?, ?)",
        (invocation, verdict.revision, evaluation, packed_json(verdict_json(verdict))),
    )
    connection.execute(
        "DELETE FROM earlier_verdicts WHERE invocation = ? AND revision <= ?", (invocation, verdict.revision - KEPT)
    )


def erase(connection: sqlite3.Connection, invocations: Iterable[tuple[int]]) -> None:
    """Erase what is kept of these."""
    rows = list(invocations)
    connection.executemany("DELETE FROM earlier_invocations WHERE invocation = ?", rows)
    connection.executemany("DELETE FROM earlier_verdicts WHERE invocation = ?", rows)


def earlier_revisions(connection: sqlite3.Connection, invocation_id: str) -> Sequence[EarlierRevision]:
    """See `Store.earlier_revisions`."""
    rows = connection.execute(
        """SELECT e.invocation, e.revision, e.body FROM earlier_invocations e JOIN invocations i ON i.n = e.invocation
           WHERE i.id = ? ORDER BY e.revision DESC""",
        (text(invocation_id),),
    ).fetchall()
    return tuple(
        EarlierRevision(invocation_from_json(unpacked_json(body)), _verdicts(connection, invocation, revision))
        for invocation, revision, body in rows
    )


def _verdicts(connection: sqlite3.Connection, invocation: int, revision: int) -> tuple[dict[str, object], ...]:
    rows = connection.execute(
        "SELECT body FROM earlier_verdicts WHERE invocation = ? AND revision = ? ORDER BY evaluation",
        (invocation, revision),
    )
    return tuple(unpacked_json(body) for (body,) in rows)
