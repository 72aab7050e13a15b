"""Earlier revisions of invocations, with what judges said of them: for people who ask what an alert was about before late data came.

All of it is content: it goes when the invocation's content goes.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from typing import Any

from monitor.model.browsing import EarlierRevision
from monitor.model.conversation import conversation, is_conversation, turn_order
from monitor.model.invocation import Invocation
from monitor.model.verdict import Verdict
from monitor.model.wire import invocation_from_json, invocation_json, verdict_json
from monitor.store.sqlite.blobs import packed_json, unpacked_json
from monitor.store.sqlite.finding import row_of
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


def keep_conversation(connection: sqlite3.Connection, row: int, revision: int, turns: Sequence[str]) -> None:
    """Keep of a conversation which turns (their ids) it had, before its revision is put in its place. What was said is theirs."""
    connection.execute(
        "INSERT OR REPLACE INTO earlier_invocations (invocation, revision, body) VALUES (?, ?, ?)",
        (row, revision, packed_json(list(turns))),
    )
    connection.execute("DELETE FROM earlier_invocations WHERE invocation = ? AND revision <= ?", (row, revision - KEPT))


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
        f"""SELECT invocation, revision, body FROM earlier_invocations WHERE invocation = {row_of("?1")}
            ORDER BY revision DESC""",  # noqa: S608
        (text(invocation_id),),
    ).fetchall()
    found = (
        (_read(connection, invocation_id, revision, unpacked_json(body)), row, revision) for row, revision, body in rows
    )
    return tuple(
        EarlierRevision(invocation, _verdicts(connection, row, revision))
        for invocation, row, revision in found
        if invocation is not None
    )


def _read(connection: sqlite3.Connection, invocation_id: str, revision: int, kept: Any) -> Invocation | None:
    """An invocation as it was kept; a conversation of the turns that it had, as these are now. None when none of them is left."""
    if not is_conversation(invocation_id):
        return invocation_from_json(kept)
    rows = (
        connection.execute(f"SELECT {HEAD} {FROM_HEAD} WHERE i.n = {row_of('?1')}", (name,)).fetchone() for name in kept
    )
    turns = sorted((read_stored(row) for row in rows if row is not None), key=turn_order)
    return conversation(turns, invocation_id, revision) if turns else None


def _verdicts(connection: sqlite3.Connection, invocation: int, revision: int) -> tuple[dict[str, object], ...]:
    rows = connection.execute(
        "SELECT body FROM earlier_verdicts WHERE invocation = ? AND revision = ? ORDER BY evaluation",
        (invocation, revision),
    )
    return tuple(unpacked_json(body) for (body,) in rows)
