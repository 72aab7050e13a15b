"""Complete conversations: each a row among the invocations, so that it is considered, drawn, judged and counted like one.

The row has no content of its own: what was said is that of its turns, read when it is asked for.
"""

from __future__ import annotations

import json
import logging
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from monitor.model.conversation import (
    ConversationKey,
    conversation,
    conversation_name,
    digest,
    is_conversation,
    merged_attributes,
    weakest,
)
from monitor.model.invocation import Invocation, SettledBy
from monitor.model.run import AssembleLater, InvocationChange
from monitor.store.sqlite.blobs import packed_ids
from monitor.store.sqlite.content import opening
from monitor.store.sqlite.earlier import keep_conversation
from monitor.store.sqlite.finding import row_of
from monitor.store.sqlite.heads import FROM_HEAD, HEAD, read_or_bare
from monitor.store.sqlite.revising import revise
from monitor.store.sqlite.turns import hold_new_turns, let_go, release_turns, set_aside
from monitor.store.sqlite.values import compact, integer
from monitor.store.sqlite.waiting import enqueue, withdraw

_log = logging.getLogger(__name__)

LONGEST_SECONDS = 24 * 3600.0
"""A conversation that is never silent is completed after so long all the same, and goes on as revisions: a fixed id may be used for ever."""

MAX_TURNS, _FIRST_TURNS = 1000, 200
"""Of a conversation with more turns the first and the last are read."""

_SILENT = "SELECT n FROM conversations WHERE changed_at IS NOT NULL AND changed_at <= ?"
_LONG = "SELECT n FROM conversations WHERE changed_at IS NOT NULL AND opened_at <= ? AND monitors IS NOT NULL"
_UNWANTED = "SELECT n FROM conversations WHERE changed_at IS NOT NULL AND changed_at <= ? AND monitors IS NOT NULL"
"""`monitors` is NULL of what came while no monitor wanted conversations: it waits for one."""

_TURNS = """
    SELECT i.id, i.revision, i.trace, i.span_id, i.profile, i.started_at, i.ended_at, i.settled_by, i.late_spans, i.has_error, i.tools,
           i.model_calls, i.input_tokens, i.output_tokens, i.attributes, i.upstream_probability * i.kept_below, i.has_content, i.conversation_id
    FROM invocations i WHERE i.conversation = ? AND i.turns IS NULL AND i.merged_into IS NULL ORDER BY i.started_at, i.id
"""


@dataclass(frozen=True, slots=True)
class _Turn:
    """A turn as a row of _TURNS."""

    id: str
    revision: int
    trace: int
    span_id: str
    profile: int
    started_at: int
    ended_at: int
    settled_by: str
    late_spans: int
    has_error: int
    tools: str | None
    model_calls: int
    input_tokens: int | None
    output_tokens: int | None
    attributes: str | None
    probability: float
    has_content: int
    conversation_id: str


def any_due(connection: sqlite3.Connection, silent_since: float, monitors: Sequence[str], now: float) -> bool:
    """Whether a conversation waits to be completed, or without monitors to be set aside."""
    due = ((_SILENT, silent_since), (_LONG, now - LONGEST_SECONDS)) if monitors else ((_UNWANTED, silent_since),)
    return any(connection.execute(f"{query} LIMIT 1", (before,)).fetchone() is not None for query, before in due)


def complete(
    connection: sqlite3.Connection, silent_since: float, monitors: Sequence[str], now: float, limit: int
) -> int:
    """See `Store.complete_conversations`."""
    if not monitors:
        unwanted = connection.execute(f"{_UNWANTED} ORDER BY changed_at, n LIMIT ?", (silent_since, limit)).fetchall()
        for (number,) in unwanted:
            set_aside(connection, number)
        return len(unwanted)
    due = connection.execute(
        f"""SELECT n, conversation_id, service, environment, changed_at <= ? FROM conversations
            WHERE n IN ({_SILENT} UNION {_LONG}) ORDER BY changed_at, n LIMIT ?""",  # noqa: S608
        (silent_since, silent_since, now - LONGEST_SECONDS, limit),
    ).fetchall()
    for number, conversation_id, service, environment, is_silent in due:
        due_by = None if is_silent else SettledBy.MAX_AGE
        key = (conversation_id, service, environment)
        _or_let_go(connection, number, lambda: _complete(connection, number, key, monitors, now, due_by))  # noqa: B023
    return len(due)


def _or_let_go(connection: sqlite3.Connection, number: int, action: Callable[[], None]) -> None:
    """Do something with a conversation. One that it cannot be done with is let go: it would stand in the way of all others for ever."""
    connection.execute("SAVEPOINT conversation")
    try:
        action()
    except (sqlite3.OperationalError, MemoryError):  # the disk's, the machine's
        raise
    except Exception as error:
        _log.error("a conversation cannot be completed: %s", type(error).__name__)
        connection.execute("ROLLBACK TO conversation")
        let_go(connection, number)
    connection.execute("RELEASE conversation")


def _complete(
    connection: sqlite3.Connection, number: int, key: ConversationKey, monitors: Sequence[str], now: float,
    due_by: SettledBy | None,
) -> None:  # fmt: skip
    turns = (_Turn(*row) for row in connection.execute(_TURNS, (number,)))
    first = next(turns, None)
    stored = connection.execute(
        "SELECT n, revision, digest, settled_at FROM invocations WHERE conversation = ? AND turns IS NOT NULL",
        (number,),
    ).fetchone()
    if stored is None and first is None:
        let_go(connection, number)
        return
    before = () if stored is None else _turns_before(connection, number)
    values = {} if first is None else _values(first, turns, now)
    hold_new_turns(connection, number)
    connection.execute(
        "UPDATE conversations SET completed_at = ?, changed_at = NULL, monitors = ? WHERE n = ?",
        (now, compact(list(monitors)), number),
    )
    if not values:
        _empty(connection, *stored)
        return
    if due_by is not None:
        values["settled_by"] = due_by.value
    if stored is None:
        row = _insert(connection, number, key, values, monitors, now)
    else:
        row = stored[0]
        if stored[2] != values["digest"]:
            keep_conversation(connection, row, stored[1], before)
            revise(connection, row, values | {"revision": stored[1] + 1}, now, rejudge=True)
    release_turns(connection, [row])


def _turns_before(connection: sqlite3.Connection, number: int) -> Sequence[str]:
    """The turns that the conversation had when it was last complete, as far as they still belong to it."""
    rows = connection.execute(
        """SELECT i.id FROM invocations i JOIN conversations k ON k.n = i.conversation
           WHERE i.conversation = ? AND i.turns IS NULL AND i.settled_at <= k.completed_at ORDER BY i.started_at, i.id LIMIT ?""",
        (number, MAX_TURNS),
    )
    return [name for (name,) in rows]


@dataclass(slots=True)
class _Sums:
    """What the turns of a conversation come to, one after the other: of one whose id is used for ever there are too many to be held."""

    first: _Turn
    last: _Turn
    count: int = 0
    settled_by: set[SettledBy] = field(default_factory=set)
    tools: list[str] = field(default_factory=list)
    attributes: dict[str, object] = field(default_factory=dict)
    late_spans: int = 0
    model_calls: int = 0
    input_tokens: int | None = 0
    output_tokens: int | None = 0
    probability: float = 1.0
    has_error: bool = False
    has_content: bool = False

    def add(self, turn: _Turn) -> None:
        """The next turn."""
        self.last = turn
        self.count += 1
        self.settled_by.add(SettledBy(turn.settled_by))
        self.tools += json.loads(turn.tools) if turn.tools else ()
        self.attributes = merged_attributes((self.attributes, json.loads(turn.attributes) if turn.attributes else {}))
        self.late_spans += turn.late_spans
        self.model_calls += turn.model_calls
        self.input_tokens = _plus(self.input_tokens, turn.input_tokens)
        self.output_tokens = _plus(self.output_tokens, turn.output_tokens)
        self.probability = min(self.probability, turn.probability)
        self.has_error = self.has_error or bool(turn.has_error)
        self.has_content = self.has_content or bool(turn.has_content)

    def each(self, turns: Iterable[_Turn]) -> Iterator[tuple[str, int]]:
        """Add the turns; their ids and revisions."""
        for turn in turns:
            self.add(turn)
            yield turn.id, turn.revision


def _plus(total: int | None, more: int | None) -> int | None:
    """Unknown as soon as one of them is."""
    return None if total is None or more is None else total + more


def _values(first: _Turn, others: Iterable[_Turn], now: float) -> dict[str, Any]:
    """The columns of a conversation's row; as `monitor.model.conversation` says, without reading what was said."""
    told = _Sums(first, first)
    mark = digest(told.each(chain((first,), others)))
    last = told.last
    return {
        "trace": last.trace,
        "span_id": last.span_id,
        "conversation_id": last.conversation_id,
        "profile": last.profile,
        "started_at": first.started_at,
        "ended_at": last.ended_at,
        "window_at": min(last.ended_at / 1e9, now),
        "settled_by": weakest(told.settled_by).value,
        "late_spans": integer(told.late_spans),
        "has_error": int(told.has_error),
        "tools": compact(told.tools) if told.tools else None,
        "model_calls": integer(told.model_calls),
        "input_tokens": integer(told.input_tokens),
        "output_tokens": integer(told.output_tokens),
        "attributes": compact(told.attributes) if told.attributes else None,
        "upstream_probability": told.probability,
        "kept_below": 1.0,
        "digest": mark,
        "merged_into": None,
        "has_content": int(told.has_content),
        "turns": told.count,
    }


def _insert(
    connection: sqlite3.Connection, number: int, key: ConversationKey, values: dict[str, Any], monitors: Sequence[str],
    now: float,
) -> int:  # fmt: skip
    name = conversation_name(key)
    if connection.execute(f"SELECT {row_of('?1')}", (name,)).fetchone()[0] is not None:
        name = conversation_name(key, taken=True)
    whole = values | {
        "id": name,
        "settled_at": now,
        "revision": 1,
        "span_ids": packed_ids(frozenset()),
        "unconsidered": len(monitors),
        "conversation": number,
    }
    columns, places = ", ".join(whole), ", ".join(f":{name}" for name in whole)
    cursor = connection.execute(f"INSERT INTO invocations ({columns}) VALUES ({places})", whole)  # noqa: S608
    row = int(cursor.lastrowid or 0)
    enqueue(connection, row, now, monitors)
    return row


def _empty(connection: sqlite3.Connection, row: int, revision: int, digest_: str, settled_at: float) -> None:
    """All turns turned out to belong elsewhere: the conversation is considered and counted no more, until it has turns again."""
    withdraw(connection, row, settled_at)
    evaluations = "SELECT n FROM evaluations WHERE invocation = ?"
    connection.execute("UPDATE invocations SET merged_into = '', unconsidered = 0, digest = '' WHERE n = ?", (row,))
    connection.execute(f"UPDATE verdicts SET counted = 0 WHERE evaluation IN ({evaluations})", (row,))  # noqa: S608
    connection.execute("UPDATE decisions SET eligible = 0 WHERE invocation = ?", (row,))
    connection.execute(
        """DELETE FROM evaluations WHERE invocation = ? AND state = 'pending' AND n NOT IN (SELECT evaluation FROM verdicts)""",
        (row,),
    )
    connection.execute("UPDATE evaluations SET state = 'done' WHERE invocation = ? AND state = 'pending'", (row,))


_MEMBERS = """
    i.conversation = (SELECT conversation FROM invocations WHERE n = ?) AND i.turns IS NULL AND i.merged_into IS NULL
    AND i.settled_at <= (SELECT completed_at FROM conversations k WHERE k.n = i.conversation)
"""
"""The turns that a conversation had when it was last complete: one that came since is seen with its next revision."""


def _turn_heads(connection: sqlite3.Connection, row: int) -> list[Sequence[Any]]:
    """The rows of HEAD of a conversation's turns in their order; of very many the first and the last."""
    query = f"SELECT {HEAD} {FROM_HEAD} WHERE {_MEMBERS} ORDER BY i.started_at"
    (count,) = connection.execute(f"SELECT count(*) FROM invocations i WHERE {_MEMBERS}", (row,)).fetchone()  # noqa: S608
    if count <= MAX_TURNS:
        return connection.execute(f"{query}, i.id", (row,)).fetchall()
    first = connection.execute(f"{query}, i.id LIMIT ?", (row, _FIRST_TURNS)).fetchall()
    last = connection.execute(f"{query} DESC, i.id DESC LIMIT ?", (row, MAX_TURNS - _FIRST_TURNS)).fetchall()
    return [*first, *reversed(last)]


def opening_of(connection: sqlite3.Connection, row: int, characters: int) -> tuple[str | None, str | None]:
    """The first characters of what a conversation was asked first and answered last."""
    ends = [
        connection.execute(
            f"""SELECT c.body FROM invocations i LEFT JOIN invocation_content c ON c.invocation = i.n
                WHERE i.conversation = (SELECT conversation FROM invocations WHERE n = ?) AND i.turns IS NULL AND i.merged_into IS NULL
                ORDER BY i.started_at {order}, i.id {order} LIMIT 1""",  # noqa: S608
            (row,),
        ).fetchone()
        for order in ("ASC", "DESC")
    ]
    first, last = (opening(one[0], characters) if one and one[0] is not None else (None, None) for one in ends)
    return first[0], last[1]


Late = list[tuple[int, InvocationChange]]
"""What was assembled on the way, by row."""


def read_whole_or_bare(
    connection: sqlite3.Connection, row: Sequence[Any], assemble: AssembleLater
) -> tuple[Invocation, Late, bool]:
    """An invocation from a row of HEAD, a conversation with its turns; and what was assembled for it. Where what is stored of it is damaged, or is
    not what this program makes of its spans: its ids, names and times, and True.
    """
    if not is_conversation(row[1]):
        invocation, late, damaged = read_or_bare(row, assemble)
        return invocation, [(row[0], late)] if late is not None else [], damaged
    turns: list[Invocation] = []
    assembled: Late = []
    head, _, damaged = read_or_bare(row, assemble)
    for turn in _turn_heads(connection, row[0]):
        invocation, late, bad = read_or_bare(turn, assemble)
        turns.append(invocation)
        assembled += [(turn[0], late)] if late is not None else []
        damaged = damaged or bad
    if not turns or damaged:
        return head, assembled, True
    return conversation(turns, head.id, head.revision), assembled, False
