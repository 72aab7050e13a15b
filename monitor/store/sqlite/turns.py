"""Invocations as turns of conversations: which belong to which, and whose content is kept until the conversation has been considered.

`invocations.conversation` is the conversation's number, on its turns and on the row of the conversation itself; that row alone has `turns`, how
many there are. `held` is 0 of a turn that nothing keeps, 1 of one that is kept until its conversation was considered (and counts in `unconsidered`),
2 of one that is kept because its conversation was drawn (and counts in `drawn`).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable

from monitor.model.run import TraceSettlement
from monitor.store.sqlite.values import compact

_CHANGE = "opened_at = iif(changed_at IS NULL, ?, opened_at), changed_at = max(coalesce(changed_at, 0), ?)"


def note_turn(connection: sqlite3.Connection, row: int, settlement: TraceSettlement) -> None:
    """A turn was stored or revised: its conversation is to be completed (again) once it has been silent long enough."""
    if not settlement.conversation_monitors:
        return
    member, conversation_id, service, environment = connection.execute(
        """SELECT i.conversation, i.conversation_id, coalesce(p.service, ''), coalesce(p.environment, '')
           FROM invocations i JOIN profiles p ON p.n = i.profile WHERE i.n = ?""",
        (row,),
    ).fetchone()
    belongs = None if conversation_id is None else _number(connection, (conversation_id, service, environment))
    if member is not None and member != belongs:
        leave(connection, row, settlement.settled_at)
        member = None
    if belongs is None:
        return
    if member is None and not _takes_turns(connection, belongs, settlement):
        return
    _keep(connection, row, belongs)
    connection.execute(
        f"UPDATE conversations SET {_CHANGE}, monitors = ? WHERE n = ?",  # noqa: S608
        (settlement.settled_at, settlement.settled_at, compact(list(settlement.conversation_monitors)), belongs),
    )


def _number(connection: sqlite3.Connection, key: tuple[str, str, str]) -> int:
    """The conversation of that id, service and environment. A new one takes over the turns that are stored already."""
    found = connection.execute(
        "SELECT n FROM conversations WHERE conversation_id = ? AND service = ? AND environment = ?", key
    ).fetchone()
    if found is not None:
        return int(found[0])
    cursor = connection.execute(
        "INSERT INTO conversations (conversation_id, service, environment) VALUES (?, ?, ?)", key
    )
    number = int(cursor.lastrowid or 0)
    earlier = connection.execute(
        """SELECT i.n FROM invocations i JOIN profiles p ON p.n = i.profile
           WHERE i.conversation_id = ? AND i.conversation IS NULL AND i.turns IS NULL AND i.merged_into IS NULL
           AND coalesce(p.service, '') = ? AND coalesce(p.environment, '') = ?""",
        key,
    ).fetchall()
    for (row,) in earlier:
        _keep(connection, row, number)
    return number


def _takes_turns(connection: sqlite3.Connection, number: int, settlement: TraceSettlement) -> bool:
    """Whether another turn changes the conversation: under `late_spans: ignore` one that is complete stays as it is."""
    completed_at, changed_at = connection.execute(
        "SELECT completed_at, changed_at FROM conversations WHERE n = ?", (number,)
    ).fetchone()
    if completed_at is None or changed_at is not None:
        return True
    return settlement.late_turns


def _keep(connection: sqlite3.Connection, row: int, number: int) -> None:
    connection.execute("UPDATE invocations SET conversation = ? WHERE n = ?", (number, row))
    connection.execute(
        "UPDATE invocations SET held = 1, unconsidered = unconsidered + 1 WHERE n = ? AND held = 0 AND has_content = 1",
        (row,),
    )


def leave(connection: sqlite3.Connection, row: int, now: float) -> None:
    """A turn that was merged into another, or turns out to belong elsewhere, leaves its conversation, which changes by that."""
    found = connection.execute(
        "SELECT conversation, held FROM invocations WHERE n = ? AND turns IS NULL AND conversation IS NOT NULL", (row,)
    ).fetchone()
    if found is None:
        return
    number, held = found
    connection.execute(
        """UPDATE invocations SET conversation = NULL, held = 0, unconsidered = unconsidered - ?, drawn = drawn - ? WHERE n = ?""",
        (int(held == 1), int(held == 2), row),
    )
    connection.execute(
        f"UPDATE conversations SET {_CHANGE} WHERE n = ?",  # noqa: S608
        (now, now, number),
    )


def release_turns(connection: sqlite3.Connection, conversations: Iterable[int]) -> None:
    """Turns of conversations (by the rows of these) that every monitor has considered are kept for as long as the conversation is drawn."""
    for row in conversations:
        found = connection.execute(
            """SELECT c.n, c.completed_at, i.drawn > 0 FROM invocations i JOIN conversations c ON c.n = i.conversation
               WHERE i.n = ? AND i.turns IS NOT NULL AND i.unconsidered = 0""",
            (row,),
        ).fetchone()
        if found is None:
            continue
        number, completed_at, drawn = found
        connection.execute(
            """UPDATE invocations SET unconsidered = unconsidered - 1, drawn = drawn + ?, held = 2 * ?
               WHERE conversation = ? AND turns IS NULL AND held = 1 AND settled_at <= ?""",
            (drawn, drawn, number, completed_at),
        )
        if not drawn:
            connection.execute(
                """UPDATE invocations SET drawn = drawn - 1, held = 0
                   WHERE conversation = ? AND turns IS NULL AND held = 2""",
                (number,),
            )


def let_go(connection: sqlite3.Connection, number: int) -> None:
    """No monitor wants conversations any more: what is kept for this one is not, and it is forgotten unless it was complete once."""
    connection.execute(
        """UPDATE invocations SET unconsidered = unconsidered - 1, held = 0
           WHERE conversation = ? AND turns IS NULL AND held = 1""",
        (number,),
    )
    connection.execute("UPDATE conversations SET changed_at = NULL WHERE n = ?", (number,))
    drop_empty(connection, [number])


def drop_empty(connection: sqlite3.Connection, numbers: Iterable[int]) -> None:
    """Forget conversations without a row of their own that nobody waits to be complete; their turns stay as invocations."""
    for number in numbers:
        found = connection.execute(
            """DELETE FROM conversations WHERE n = ? AND changed_at IS NULL AND NOT EXISTS (
                   SELECT 1 FROM invocations i WHERE i.conversation = conversations.n AND i.turns IS NOT NULL)""",
            (number,),
        )
        if found.rowcount:
            connection.execute("UPDATE invocations SET conversation = NULL WHERE conversation = ?", (number,))


def conversations_of(connection: sqlite3.Connection, invocations: Collection[int]) -> list[int]:
    """The conversations (their numbers) that turns belong to."""
    found = {
        number
        for row in invocations
        for (number,) in connection.execute("SELECT conversation FROM invocations WHERE n = ?", (row,))
        if number is not None
    }
    return sorted(found)
