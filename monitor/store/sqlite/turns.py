"""Invocations as turns of conversations: which belong to which, and whose content is kept until the conversation has been considered.

`invocations.conversation` is the conversation's number, on its turns and on the row of the conversation itself; that row alone has `turns`, how
many there are. `held` is 0 of a turn that nothing keeps, 1 of one that is kept until its conversation was considered (and counts in `unconsidered`),
2 of one that is kept because its conversation was drawn (and counts in `drawn`).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable

from monitor.model.conversation import ConversationKey
from monitor.model.run import TraceSettlement
from monitor.store.sqlite.values import compact

_CHANGE = "opened_at = iif(changed_at IS NULL, ?, opened_at), changed_at = max(coalesce(changed_at, 0), ?)"


def note_turn(connection: sqlite3.Connection, row: int, settlement: TraceSettlement) -> None:
    """A turn was stored or revised: its conversation is to be completed (again) once it has been silent long enough.

    Without a monitor of conversations no conversation begins and nothing is kept for one, but one that is known gets its turn all the same:
    it is completed with it when there is such a monitor again.
    """
    wanted = bool(settlement.conversation_monitors)
    member, conversation_id, service, environment = connection.execute(
        """SELECT i.conversation, i.conversation_id, coalesce(p.service, ''), coalesce(p.environment, '')
           FROM invocations i JOIN profiles p ON p.n = i.profile WHERE i.n = ?""",
        (row,),
    ).fetchone()
    key = None if conversation_id is None else (conversation_id, service, environment)
    belongs = None if key is None else _number(connection, key, begin=wanted)
    if member is not None and member != belongs:
        leave(connection, row, settlement.settled_at)
        member = None
    if key is None or belongs is None:
        return
    if member is None and not _takes_turns(connection, key, belongs, settlement):
        return
    _join(connection, row, belongs)
    now = settlement.settled_at
    if not wanted:
        if _is_wanted(connection, belongs):  # what a backfill reads again asks for no conversation, but others may
            _hold(connection, row)
        connection.execute(f"UPDATE conversations SET {_CHANGE} WHERE n = ?", (now, now, belongs))  # noqa: S608
        return
    _hold(connection, row)
    connection.execute(
        """UPDATE conversations SET opened_at = iif(changed_at IS NULL OR monitors IS NULL, ?, opened_at),
           changed_at = max(coalesce(changed_at, 0), ?), monitors = ? WHERE n = ?""",
        (now, now, compact(list(settlement.conversation_monitors)), belongs),
    )


def any_known(connection: sqlite3.Connection) -> bool:
    """Whether there is any conversation."""
    return connection.execute("SELECT 1 FROM conversations LIMIT 1").fetchone() is not None


def _number(connection: sqlite3.Connection, key: ConversationKey, *, begin: bool) -> int | None:
    """The conversation of that id, service and environment; `begin`: there is one from now on, with the turns that are stored already."""
    found = connection.execute(
        "SELECT n FROM conversations WHERE conversation_id = ? AND service = ? AND environment = ?", key
    ).fetchone()
    if found is not None:
        return int(found[0])
    if not begin:
        return None
    cursor = connection.execute(
        "INSERT INTO conversations (conversation_id, service, environment) VALUES (?, ?, ?)", key
    )
    number = int(cursor.lastrowid or 0)
    for row in _adopt(connection, key, number):
        _hold(connection, row)
    return number


def _adopt(connection: sqlite3.Connection, key: ConversationKey, number: int) -> list[int]:
    """Take over the turns that are stored and in no conversation yet; their rows."""
    earlier = connection.execute(
        """SELECT i.n FROM invocations i JOIN profiles p ON p.n = i.profile
           WHERE i.conversation_id = ? AND i.conversation IS NULL AND i.turns IS NULL AND i.merged_into IS NULL
           AND coalesce(p.service, '') = ? AND coalesce(p.environment, '') = ?""",
        key,
    ).fetchall()
    for (row,) in earlier:
        _join(connection, row, number)
    return [row for (row,) in earlier]


def _takes_turns(
    connection: sqlite3.Connection, key: ConversationKey, number: int, settlement: TraceSettlement
) -> bool:
    """Whether another turn changes the conversation: under `late_spans: ignore` one that is complete stays as it is.

    The first turn after it was complete brings those along that an earlier program, or `ignore`, had left out.
    """
    completed_at, changed_at = connection.execute(
        "SELECT completed_at, changed_at FROM conversations WHERE n = ?", (number,)
    ).fetchone()
    if completed_at is None or changed_at is not None:
        return True
    if settlement.late_turns:
        _adopt(connection, key, number)
    return settlement.late_turns


def _is_wanted(connection: sqlite3.Connection, number: int) -> bool:
    """Whether some monitor wanted the conversation when it was last looked at; where none does any more, `set_aside` lets go."""
    (monitors,) = connection.execute("SELECT monitors FROM conversations WHERE n = ?", (number,)).fetchone()
    return monitors is not None


def _join(connection: sqlite3.Connection, row: int, number: int) -> None:
    connection.execute("UPDATE invocations SET conversation = ? WHERE n = ?", (number, row))


def _hold(connection: sqlite3.Connection, row: int) -> None:
    connection.execute(
        "UPDATE invocations SET held = 1, unconsidered = unconsidered + 1 WHERE n = ? AND held = 0 AND has_content = 1",
        (row,),
    )


def hold_new_turns(connection: sqlite3.Connection, number: int) -> None:
    """Keep what came since the conversation was last complete, also what came while no monitor wanted conversations."""
    connection.execute(
        """UPDATE invocations SET held = 1, unconsidered = unconsidered + 1
           WHERE conversation = ?1 AND turns IS NULL AND held = 0 AND has_content = 1 AND merged_into IS NULL
           AND settled_at > coalesce((SELECT completed_at FROM conversations WHERE n = ?1), -1)""",
        (number,),
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


def set_aside(connection: sqlite3.Connection, number: int) -> None:
    """No monitor wants conversations any more: nothing is kept for this one. One that was complete once goes on when there is one again."""
    found = connection.execute("SELECT 1 FROM invocations WHERE conversation = ? AND turns IS NOT NULL", (number,))
    if found.fetchone() is None:
        let_go(connection, number)
        return
    _release(connection, number)
    connection.execute("UPDATE conversations SET monitors = NULL WHERE n = ?", (number,))


def let_go(connection: sqlite3.Connection, number: int) -> None:
    """The conversation will not be completed: nothing is kept for it, and it is forgotten unless it was complete once."""
    _release(connection, number)
    connection.execute("UPDATE conversations SET changed_at = NULL WHERE n = ?", (number,))
    drop_empty(connection, [number])


def _release(connection: sqlite3.Connection, number: int) -> None:
    connection.execute(
        """UPDATE invocations SET unconsidered = unconsidered - 1, held = 0
           WHERE conversation = ? AND turns IS NULL AND held = 1""",
        (number,),
    )


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
