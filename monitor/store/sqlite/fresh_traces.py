"""Traces that nobody has seen before, many at once: nearly all that come. A statement for all of them instead of some for each."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from monitor.model.invocation import Invocation
from monitor.model.run import InvocationChange, JournalPosition, TraceSettlement
from monitor.model.tallies import TallyName
from monitor.store.sqlite.blobs import packed_ids
from monitor.store.sqlite.heads import Profiles
from monitor.store.sqlite.tallies import Counting
from monitor.store.sqlite.turns import any_known, note_turn
from monitor.store.sqlite.values import text
from monitor.store.sqlite.waiting import enqueue_all

_IDS_AT_ONCE = 1000

FUTURE_NS = 366 * 86400 * 10**9
"""Nanoseconds after its settling at which no invocation can have ended, however wrong the clock that said so."""


@dataclass(frozen=True, slots=True)
class PreparedChange:
    """An invocation ready to be written: compressed before the transaction, in the caller's thread. `content` is None while it is not assembled."""

    change: InvocationChange
    head: dict[str, Any]
    content: bytes | None


@dataclass(frozen=True, slots=True)
class PreparedTrace:
    """A settlement ready to be written."""

    settlement: TraceSettlement
    changes: tuple[PreparedChange, ...]
    spans: bytes | None


def split_fresh(
    connection: sqlite3.Connection, prepared: Sequence[PreparedTrace]
) -> tuple[list[PreparedTrace], list[PreparedTrace]]:
    """Those that can be written at once, and the others: known ids, ids that occur twice, merges, turns over several traces, and what is to be forgotten."""
    trace_ids = [trace.settlement.trace_id for trace in prepared]
    ids = [text(one.change.invocation.id) for trace in prepared for one in trace.changes]
    taken = {trace_id for trace_id, count in Counter(trace_ids).items() if count > 1}
    taken |= {trace_id for trace_id, *_ in known_positions(connection, trace_ids)}
    conversations = [text(one.change.invocation.conversation_id) for trace in prepared for one in trace.changes]
    named = [*trace_ids, *{one for one in conversations if one is not None}]
    forgotten = {
        row[0]
        for row in _among(
            connection,
            "SELECT id FROM forgotten WHERE kind IN ('trace', 'conversation', 'conversation_some') AND id IN",
            named,
        )
    }
    used = {invocation_id for invocation_id, count in Counter(ids).items() if count > 1}
    used |= {row[0] for row in _among(connection, "SELECT id FROM invocations WHERE id IN", ids)}
    fresh: list[PreparedTrace] = []
    others: list[PreparedTrace] = []
    for trace in prepared:
        told = trace.settlement
        alone = told.tie is None or told.tie.turn is None
        is_fresh = alone and not told.merged and told.trace_id not in taken and told.trace_id not in forgotten
        is_fresh = is_fresh and not any(_is_special(one.change.invocation, used, forgotten) for one in trace.changes)
        (fresh if is_fresh else others).append(trace)
    return fresh, others


def _is_special(one: Invocation, used: Collection[str], forgotten: Collection[str]) -> bool:
    return text(one.id) in used or (one.conversation_id is not None and text(one.conversation_id) in forgotten)


def known_positions(connection: sqlite3.Connection, trace_ids: Collection[str]) -> Iterable[tuple[str, int, int]]:
    """(trace id, segment, offset) of those of the traces that are stored."""
    return _among(connection, "SELECT trace_id, segment, position FROM traces WHERE trace_id IN", list(trace_ids))


def positions(connection: sqlite3.Connection, trace_ids: Collection[str]) -> dict[str, JournalPosition]:
    """See `Store.consumed_positions`."""
    return {found[0]: JournalPosition(found[1], found[2]) for found in known_positions(connection, trace_ids)}


def _among(connection: sqlite3.Connection, query: str, ids: Sequence[str]) -> Iterable[tuple[Any, ...]]:
    for start in range(0, len(ids), _IDS_AT_ONCE):
        some = json.dumps(ids[start : start + _IDS_AT_ONCE])
        yield from connection.execute(f"{query} (SELECT value FROM json_each(?))", (some,))  # noqa: S608


def insert(
    connection: sqlite3.Connection, fresh: Sequence[PreparedTrace], profiles: Profiles, counting: Counting
) -> None:
    """Write traces, none of which is there, with their invocations; and what waits for monitors."""
    numbered = list(enumerate(fresh, _next_row(connection, "traces")))
    connection.executemany(
        """INSERT INTO traces (n, trace_id, settled_at, collector, settled_by, segment, position, span_count, late_spans, has_spans)
           VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)""",
        ((row, *_trace_values(trace.settlement), int(trace.spans is not None)) for row, trace in numbered),
    )
    connection.executemany(
        "INSERT INTO trace_spans (trace, body) VALUES (?, ?)",
        ((row, trace.spans) for row, trace in numbered if trace.spans is not None),
    )
    changes = [(row, trace.settlement, one) for row, trace in numbered for one in trace.changes]
    placed = list(enumerate(changes, _next_row(connection, "invocations")))
    rows = []
    for row, (trace, told, one) in placed:
        rows.append({**values_of(told, one, profiles), **new_values(told, trace, one.change.invocation), "n": row})
    if rows:
        columns, places = ", ".join(rows[0]), ", ".join("?" * len(rows[0]))
        statement = f"INSERT INTO invocations ({columns}) VALUES ({places})"  # noqa: S608
        connection.executemany(statement, [tuple(values.values()) for values in rows])  # all in one order
    connection.executemany(
        "INSERT INTO invocation_content (invocation, body) VALUES (?, ?)",
        ((row, one.content) for row, (_, _, one) in placed if one.content is not None),
    )
    enqueue_all(connection, ((name, told.settled_at, row) for row, (_, told, _) in placed for name in told.monitors))
    known = any_known(connection)
    for row, (_, told, one) in placed:
        if one.change.invocation.conversation_id is not None and (told.conversation_monitors or known):
            note_turn(connection, row, told)
    count(counting, ((told, one.change.invocation) for _, told, one in changes))


def _next_row(connection: sqlite3.Connection, table: str) -> int:
    return int(connection.execute(f"SELECT coalesce(max(n), 0) FROM {table}").fetchone()[0]) + 1  # noqa: S608


def _trace_values(told: TraceSettlement) -> tuple[Any, ...]:
    place = told.consumed
    return (
        told.trace_id, told.settled_at, text(told.collector), told.settled_by, place.segment, place.offset, told.span_count,
        told.late_spans,
    )  # fmt: skip


def values_of(told: TraceSettlement, prepared: PreparedChange, profiles: Profiles) -> dict[str, Any]:
    """The columns of an invocation's row that every revision writes."""
    change = prepared.change
    return {
        **_told_by_a_clock(prepared.head, told.settled_at),
        "profile": profiles.of(change.invocation),
        "window_at": min(change.invocation.ended_at / 1e9, told.settled_at),
        "kept_below": told.kept_below,
        "digest": change.digest,
        "span_ids": packed_ids(change.span_ids),
        "merged_into": None,
        "has_content": 1,
        "assembled": int(change.assembled),
    }


def _told_by_a_clock(head: dict[str, Any], settled_at: float) -> dict[str, Any]:
    """The columns, with a start and end that lie in the future by more than a year moved to the settling: they would lead every list for ever."""
    settled = round(settled_at * 1e9)
    if head["ended_at"] <= settled + FUTURE_NS:
        return head
    return {**head, "started_at": min(head["started_at"], settled), "ended_at": settled}


def new_values(told: TraceSettlement, trace: int, invocation: Invocation) -> dict[str, Any]:
    """The columns that only a new invocation writes; `trace` is its trace's row."""
    return {
        "id": text(invocation.id),
        "trace": trace,
        "settled_at": told.settled_at,
        "unconsidered": len(told.monitors),
    }


def insertion(values: Mapping[str, Any]) -> str:
    """The statement that inserts an invocation with these columns."""
    columns, places = ", ".join(values), ", ".join(f":{name}" for name in values)
    return f"INSERT INTO invocations ({columns}) VALUES ({places})"  # noqa: S608


def count(counting: Counting, new: Iterable[tuple[TraceSettlement, Invocation]]) -> None:
    """Count new invocations by their labels; equal ones together, because each costs a text of JSON."""
    kinds = Counter(
        (told.settled_at, one.label_agent, one.agent_version or "", one.environment or "", one.completeness.settled_by.value)
        for told, one in new
    )  # fmt: skip
    for (settled_at, agent, version, environment, settled_by), amount in kinds.items():
        labels = {"agent": agent, "agent_version": version, "environment": environment, "settled_by": settled_by}
        counting.add(TallyName.INVOCATIONS, labels, settled_at, amount=amount)
