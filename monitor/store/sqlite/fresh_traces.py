"""Traces that nobody has seen before, many at once: nearly all that come. A statement for all of them instead of some for each."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from typing import Any

from collectors.immutable import immutable
from monitor.model.invocation import Invocation
from monitor.model.run import InvocationChange, JournalPosition, TraceSettlement
from monitor.model.tallies import TallyName
from monitor.store.sqlite.blobs import packed_ids
from monitor.store.sqlite.finding import is_elsewhere
from monitor.store.sqlite.heads import HEAD_COLUMNS, Profiles, head_values
from monitor.store.sqlite.tallies import Counting
from monitor.store.sqlite.turns import any_known, note_turn
from monitor.store.sqlite.values import text
from monitor.store.sqlite.waiting import enqueue_all

_IDS_AT_ONCE = 1000

_STARTED = HEAD_COLUMNS.index("started_at")  # the end follows it

FUTURE_NS = 366 * 86400 * 10**9
"""Nanoseconds after its settling at which no invocation can have ended, however wrong the clock that said so."""


_COLUMNS = (*HEAD_COLUMNS, "window_at", "kept_below", "digest", "span_ids", "assembled")
"""The columns of `PreparedChange.values`, in its order."""

_INSERT = f"""INSERT INTO invocations (n, id, trace, profile, settled_at, unconsidered, elsewhere, has_content, {", ".join(_COLUMNS)})
              VALUES (?, ?, ?, ?, ?, ?, 0, 1{", ?" * len(_COLUMNS)})"""  # noqa: S608


@immutable(frozen=True, slots=True)
class PreparedChange:
    """An invocation ready to be written: compressed before the transaction, in the caller's thread.

    `values` are the columns that need no look-up, those of a head first. `content` is None while it is not assembled.
    """

    change: InvocationChange
    values: tuple[Any, ...]
    content: bytes | None


@immutable(frozen=True, slots=True)
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
    invocations = [one.change.invocation for trace in prepared for one in trace.changes]
    ids = [text(one.id) for one in invocations]
    taken = _repeated(trace_ids)
    taken.update(trace_id for trace_id, *_ in known_positions(connection, trace_ids))
    conversations = {one.conversation_id for one in invocations}
    named = [*trace_ids, *(text(one) for one in conversations if one is not None)]
    forgotten = _found(
        connection,
        "SELECT id FROM forgotten WHERE kind IN ('trace', 'conversation', 'conversation_some') AND id IN",
        named,
    )
    used = _repeated(ids) | _found(connection, "SELECT id FROM invocations WHERE elsewhere = 1 AND id IN", ids)
    fresh: list[PreparedTrace] = []
    others: list[PreparedTrace] = []
    for trace in prepared:
        (fresh if _is_fresh(trace, taken, used, forgotten) else others).append(trace)
    return fresh, others


def _is_fresh(trace: PreparedTrace, taken: Set[str], used: Set[str], forgotten: Collection[str | None]) -> bool:
    told = trace.settlement
    if told.merged or (told.tie is not None and told.tie.turn is not None):
        return False
    if told.trace_id in taken or told.trace_id in forgotten:
        return False
    for one in trace.changes:
        invocation_id, conversation_id = text(one.change.invocation.id), text(one.change.invocation.conversation_id)
        if is_elsewhere(invocation_id, told.trace_id) or invocation_id in used or conversation_id in forgotten:
            return False
    return True


def _repeated(ids: Sequence[str]) -> set[str]:
    return {one for one, count in Counter(ids).items() if count > 1} if len(set(ids)) < len(ids) else set()


def _found(connection: sqlite3.Connection, query: str, ids: Sequence[str]) -> set[str]:
    return {row[0] for row in _among(connection, query, ids)}


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
    connection.executemany(_INSERT, [(row, *_row(trace, told, one, profiles)) for row, (trace, told, one) in placed])
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


def _row(trace: int, told: TraceSettlement, prepared: PreparedChange, profiles: Profiles) -> tuple[Any, ...]:
    """What _INSERT takes, without the row's number."""
    one = prepared.change.invocation
    return (text(one.id), trace, profiles.of(one), told.settled_at, len(told.monitors), *prepared.values)


def ready_values(told: TraceSettlement, change: InvocationChange) -> tuple[Any, ...]:
    """`PreparedChange.values`. A start and end that lie in the future by more than a year are moved to the settling: they would lead every
    list for ever.
    """
    invocation = change.invocation
    head = head_values(invocation)
    if invocation.ended_at > (settled := round(told.settled_at * 1e9)) + FUTURE_NS:
        head = (*head[:_STARTED], min(head[_STARTED], settled), settled, *head[_STARTED + 2 :])
    window_at = min(invocation.ended_at / 1e9, told.settled_at)
    return (*head, window_at, told.kept_below, change.digest, packed_ids(change.span_ids), int(change.assembled))


def values_of(prepared: PreparedChange, profiles: Profiles) -> dict[str, Any]:
    """The columns of an invocation's row that every revision writes."""
    return {
        **dict(zip(_COLUMNS, prepared.values, strict=True)),
        "profile": profiles.of(prepared.change.invocation),
        "merged_into": None,
        "has_content": 1,
    }


def new_values(told: TraceSettlement, trace: int, invocation: Invocation) -> dict[str, Any]:
    """The columns that only a new invocation writes; `trace` is its trace's row."""
    return {
        "id": text(invocation.id),
        "trace": trace,
        "elsewhere": int(is_elsewhere(text(invocation.id), told.trace_id)),
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
