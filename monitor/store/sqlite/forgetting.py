"""Forgetting: the content of a trace, or of conversations by their id, is erased, and what of them is still open will be stored without it."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from monitor.model.conversation import PREFIX, ConversationKey, conversation_name, is_conversation
from monitor.store.sqlite.erasure import erase_content, erase_spans, erase_what_was_said_of
from monitor.store.sqlite.finding import row_of
from monitor.store.sqlite.ties import OF_TURN, with_turns
from monitor.store.sqlite.turns import conversations_of
from monitor.store.sqlite.values import compact

_WHOLE, _SOME, _ONE = "conversation", "conversation_some", "conversation_one"
"""Marks: of all conversations of an id; that some of an id are meant; which ones."""


@dataclass(frozen=True, slots=True)
class WhichConversations:
    """Those of an id, or the one of a full name (`conversation:ID@suffix`, also without its first part); of one service or environment only."""

    id: str
    service: str | None = None
    environment: str | None = None

    def takes(self, key: ConversationKey) -> bool:
        """Whether a conversation is of that service and environment."""
        return self.service in (None, key[1]) and self.environment in (None, key[2])


@dataclass(frozen=True, slots=True)
class _Meant:
    """What that comes to: rows of invocations by conversation, and what the marks say of those that are open."""

    rows: Mapping[ConversationKey, Sequence[int]]
    which: WhichConversations


def is_forgotten(
    connection: sqlite3.Connection, trace_id: str, conversations: Iterable[tuple[ConversationKey, float]]
) -> bool:
    """Whether a trace was to be forgotten before it settled: by its id, or by a conversation in which it began before that was asked.

    `conversations` are (key, start in seconds since 1970-01-01Z) of its invocations.
    """
    asked = "SELECT 1 FROM forgotten WHERE kind = ? AND id = ? AND at >= ?"
    if connection.execute(asked, ("trace", trace_id, 0.0)).fetchone():
        return True
    return any(
        connection.execute(asked, (kind, mark, start)).fetchone()
        for key, start in conversations
        for kind, mark in ((_WHOLE, key[0]), *((_ONE, mark) for mark in _marks(*key)))
    )


def _marks(conversation_id: str, service: str, environment: str) -> list[str]:
    """The marks that mean a conversation: of its service, its environment, or both."""
    places = ((service, environment), (service, None), (None, environment))
    return [compact([conversation_id, *place]) for place in places]


def expire_forgotten(connection: sqlite3.Connection, before: float) -> None:
    """Drop the marks of what was forgotten before a time: nothing of that is open any more."""
    connection.execute("DELETE FROM forgotten WHERE at < ?", (before,))


def forget_trace(connection: sqlite3.Connection, trace_id: str, now: float) -> int:
    """See `Store.forget`."""
    _mark(connection, "trace", trace_id, now)
    traces = [row for (row,) in connection.execute(OF_TURN, (trace_id,))]
    invocations = [
        row for trace in traces for (row,) in connection.execute("SELECT n FROM invocations WHERE trace = ?", (trace,))
    ]
    return _erase(connection, invocations, traces)


def forget_conversations(connection: sqlite3.Connection, which: WhichConversations, now: float) -> int:
    """See `Store.forget`."""
    meant = _meant(connection, which)
    found = meant.which
    if (found.service, found.environment) == (None, None):
        maybe = found.id if meant.rows else found.id.removeprefix(PREFIX)
        for conversation_id in {found.id, maybe}:
            _mark(connection, _WHOLE, conversation_id, now)
    else:
        _mark(connection, _SOME, found.id, now)
        _mark(connection, _ONE, compact([found.id, found.service, found.environment]), now)
    invocations = [row for rows in meant.rows.values() for row in rows]
    own = {
        trace
        for row in invocations
        for (trace,) in connection.execute("SELECT trace FROM invocations WHERE n = ?", (row,))
    }
    return _erase(connection, invocations, with_turns(connection, own))


def conversations_named(connection: sqlite3.Connection, which: WhichConversations) -> list[tuple[ConversationKey, int]]:
    """See `Store.conversations_named`."""
    counted: Counter[ConversationKey] = Counter()
    for key, rows in _meant(connection, which).rows.items():
        counted[key] = sum(not is_conversation(name) for row in rows for name in _names(connection, row))
    return sorted((key, count) for key, count in counted.items() if count)


def _mark(connection: sqlite3.Connection, kind: str, identifier: str, now: float) -> None:
    connection.execute("INSERT OR REPLACE INTO forgotten (kind, id, at) VALUES (?, ?, ?)", (kind, identifier, now))


def _erase(connection: sqlite3.Connection, invocations: Sequence[int], traces: Sequence[int]) -> int:
    """What comes later for these is stored without content. Attributes go too: they are no content, but they may name the person."""
    erase_content(connection, invocations)
    erase_what_was_said_of(connection, conversations_of(connection, invocations))
    erase_spans(connection, traces)
    connection.executemany("UPDATE traces SET forgotten = 1 WHERE n = ?", [(row,) for row in traces])
    connection.executemany(
        "UPDATE invocations SET forgotten = 1, attributes = NULL WHERE n = ?", [(row,) for row in invocations]
    )
    return sum(not is_conversation(name) for row in invocations for name in _names(connection, row))


def _names(connection: sqlite3.Connection, row: int) -> list[str]:
    return [name for (name,) in connection.execute("SELECT id FROM invocations WHERE n = ?", (row,))]


def _meant(connection: sqlite3.Connection, which: WhichConversations) -> _Meant:
    """An id that is stored means that id; else it may be a full name."""
    there = _of_id(connection, which.id)
    if not there:
        key = _of_name(connection, which.id)
        if key is not None and which.takes(key):
            return _Meant({key: _of_id(connection, key[0]).get(key, [])}, WhichConversations(*key))
        if key is not None:
            return _Meant({}, which)
        there = _of_id(connection, which.id.removeprefix(PREFIX))
        if there:
            which = WhichConversations(which.id.removeprefix(PREFIX), which.service, which.environment)
    return _Meant({key: rows for key, rows in there.items() if which.takes(key)}, which)


def _of_id(connection: sqlite3.Connection, conversation_id: str) -> dict[ConversationKey, list[int]]:
    found: dict[ConversationKey, list[int]] = {}
    query = """SELECT i.n, i.conversation_id, coalesce(p.service, ''), coalesce(p.environment, '')
               FROM invocations i JOIN profiles p ON p.n = i.profile WHERE i.conversation_id = ?"""
    for row, *key in connection.execute(query, (conversation_id,)):
        found.setdefault((key[0], key[1], key[2]), []).append(row)
    return found


def _of_name(connection: sqlite3.Connection, asked: str) -> ConversationKey | None:
    """The conversation of a full name: that of its row, else the one that its suffix tells."""
    name = asked if asked.startswith(PREFIX) else f"{PREFIX}{asked}"
    row = connection.execute(
        f"""SELECT c.conversation_id, c.service, c.environment FROM invocations i JOIN conversations c ON c.n = i.conversation
            WHERE i.n = {row_of("?1")} AND i.turns IS NOT NULL""",  # noqa: S608
        (name,),
    ).fetchone()
    if row is not None:
        return row[0], row[1], row[2]
    plain = name.removeprefix(PREFIX).rpartition("@")[0]
    return next((key for key in _of_id(connection, plain) if conversation_name(key, taken=True) == name), None)
