"""Settled traces and their invocations."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from monitor.model.invocation import Invocation
from monitor.model.run import InvocationChange, JournalPosition, StoredInvocation, StoredTrace, TraceSettlement
from monitor.model.tallies import TallyName
from monitor.store.sqlite.blobs import packed, packed_ids, unpacked, unpacked_ids
from monitor.store.sqlite.content import content_blob
from monitor.store.sqlite.conversations import read_whole
from monitor.store.sqlite.erasure import erase_content, is_forgotten
from monitor.store.sqlite.heads import FROM_HEAD, HEAD, head_values, profile_of, read_invocation
from monitor.store.sqlite.revising import revise
from monitor.store.sqlite.tallies import Counting
from monitor.store.sqlite.turns import leave, note_turn
from monitor.store.sqlite.values import text
from monitor.store.sqlite.waiting import enqueue, withdraw


@dataclass(frozen=True, slots=True)
class PreparedChange:
    """An invocation ready to be written: compressed before the transaction, in the caller's thread."""

    change: InvocationChange
    head: Mapping[str, Any]
    content: bytes


@dataclass(frozen=True, slots=True)
class PreparedTrace:
    """A settlement ready to be written."""

    settlement: TraceSettlement
    changes: tuple[PreparedChange, ...]
    spans: bytes | None


def prepare(settlement: TraceSettlement) -> PreparedTrace:
    """Do all that needs no database."""
    changes = tuple(
        PreparedChange(change, head_values(change.invocation), content_blob(change.invocation))
        for change in settlement.changes
    )
    return PreparedTrace(settlement, changes, None if settlement.spans is None else packed(settlement.spans))


def save(connection: sqlite3.Connection, prepared: Sequence[PreparedTrace]) -> None:
    """Write settlements; see `Store.save_traces`."""
    counting = Counting()
    for trace in prepared:
        row, forgotten = _save_trace(connection, trace)
        for change in trace.changes:
            _save_invocation(connection, trace.settlement, row, change, counting, forgotten=forgotten)
        for merged, holder in trace.settlement.merged.items():
            _mark_merged(connection, merged, holder)
    counting.write(connection)


def _save_trace(connection: sqlite3.Connection, trace: PreparedTrace) -> tuple[int, bool]:
    """The trace's row and whether its content was forgotten. A replay, which has read no further, leaves the row alone."""
    told = trace.settlement
    found = connection.execute(
        "SELECT n, segment, position, forgotten FROM traces WHERE trace_id = ?", (told.trace_id,)
    ).fetchone()
    invocations = [prepared.change.invocation for prepared in trace.changes]
    began = [(text(one.conversation_id), one.started_at / 1e9) for one in invocations]
    forgotten = bool(found and found[3]) or is_forgotten(connection, told.trace_id, began)
    if found is None:
        if forgotten:
            trace = replace(trace, spans=None)
        row = _insert_trace(connection, trace, forgotten=forgotten)
        if trace.spans is not None:
            connection.execute("INSERT INTO trace_spans (trace, body) VALUES (?, ?)", (row, trace.spans))
        return row, forgotten
    row = found[0]
    if forgotten and not found[3]:
        connection.execute("UPDATE traces SET forgotten = 1 WHERE n = ?", (row,))
    if JournalPosition(found[1], found[2]) < told.consumed:
        _update_trace(connection, trace, row, None if forgotten else trace.spans)
    return row, forgotten


def _insert_trace(connection: sqlite3.Connection, trace: PreparedTrace, *, forgotten: bool) -> int:
    told = trace.settlement
    cursor = connection.execute(
        """INSERT INTO traces (trace_id, settled_at, collector, settled_by, segment, position, span_count, late_spans, has_spans, forgotten)
           VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)""",
        (told.trace_id, told.settled_at, *_values(told), int(trace.spans is not None), int(forgotten)),
    )
    return int(cursor.lastrowid or 0)


def _update_trace(connection: sqlite3.Connection, trace: PreparedTrace, row: int, spans: bytes | None) -> None:
    connection.execute(
        """UPDATE traces SET collector = ?, settled_by = ?, segment = ?, position = ?, span_count = ?, late_spans = ?,
           has_spans = ? WHERE n = ?""",
        (*_values(trace.settlement), int(spans is not None), row),
    )
    if spans is None:
        connection.execute("DELETE FROM trace_spans WHERE trace = ?", (row,))
    else:
        connection.execute("INSERT OR REPLACE INTO trace_spans (trace, body) VALUES (?, ?)", (row, spans))


def _values(told: TraceSettlement) -> tuple[Any, ...]:
    place = told.consumed
    return text(told.collector), told.settled_by, place.segment, place.offset, told.span_count, told.late_spans


def _save_invocation(
    connection: sqlite3.Connection,
    settlement: TraceSettlement,
    trace: int,
    prepared: PreparedChange,
    counting: Counting,
    *,
    forgotten: bool,
) -> None:
    invocation = prepared.change.invocation
    found = connection.execute(
        "SELECT n, revision, forgotten FROM invocations WHERE id = ?", (text(invocation.id),)
    ).fetchone()
    if found is not None and found[1] >= invocation.revision:
        return
    keep = not (forgotten or (found is not None and found[2]))
    values = dict(prepared.head) | {
        "profile": profile_of(connection, invocation),
        "window_at": min(invocation.ended_at / 1e9, settlement.settled_at),
        "kept_below": settlement.kept_below,
        "digest": prepared.change.digest,
        "span_ids": packed_ids(prepared.change.span_ids),
        "merged_into": None,
        "has_content": int(keep),
    }
    if not keep:
        values["attributes"] = None
    if found is None:
        row = _insert(connection, settlement, trace, invocation, values)
        _count(counting, settlement, invocation)
    else:
        row = found[0]
        revise(connection, row, values, settlement.settled_at, rejudge=prepared.change.rejudge)
    if keep:
        connection.execute(
            "INSERT OR REPLACE INTO invocation_content (invocation, body) VALUES (?, ?)", (row, prepared.content)
        )
    note_turn(connection, row, settlement)


def _insert(
    connection: sqlite3.Connection,
    settlement: TraceSettlement,
    trace: int,
    invocation: Invocation,
    values: dict[str, Any],
) -> int:
    values |= {
        "id": text(invocation.id),
        "trace": trace,
        "settled_at": settlement.settled_at,
        "unconsidered": len(settlement.monitors),
    }
    columns, places = ", ".join(values), ", ".join(f":{name}" for name in values)
    cursor = connection.execute(f"INSERT INTO invocations ({columns}) VALUES ({places})", values)  # noqa: S608
    row = int(cursor.lastrowid or 0)
    enqueue(connection, row, settlement.settled_at, settlement.monitors)
    return row


def _count(counting: Counting, settlement: TraceSettlement, invocation: Invocation) -> None:
    labels = {
        "agent": invocation.label_agent,
        "agent_version": invocation.agent_version or "",
        "environment": invocation.environment or "",
        "settled_by": invocation.completeness.settled_by.value,
    }
    counting.add(TallyName.INVOCATIONS, labels, settlement.settled_at)


def _mark_merged(connection: sqlite3.Connection, merged: str, holder: str) -> None:
    """Mark an invocation as part of another: it is considered, judged and counted in rates no more, and has no content of its own."""
    found = connection.execute(
        "SELECT n, settled_at FROM invocations WHERE id = ? AND merged_into IS NOT ?", (text(merged), text(holder))
    ).fetchone()
    if found is None:
        return
    row, settled_at = found
    leave(connection, row, settled_at)
    withdraw(connection, row, settled_at)
    connection.execute(
        "UPDATE invocations SET merged_into = ?, unconsidered = 0, held = 0 WHERE n = ?", (text(holder), row)
    )
    connection.execute("UPDATE decisions SET eligible = 0 WHERE invocation = ?", (row,))
    evaluations = "SELECT n FROM evaluations WHERE invocation = ?"
    connection.execute(f"UPDATE verdicts SET counted = 0 WHERE evaluation IN ({evaluations})", (row,))  # noqa: S608
    connection.execute(
        """UPDATE evaluations SET state = 'done' WHERE invocation = ? AND state = 'pending'
           AND n IN (SELECT evaluation FROM verdicts)""",
        (row,),
    )
    connection.execute("DELETE FROM evaluations WHERE invocation = ? AND state = 'pending'", (row,))
    erase_content(connection, [row])


def stored_trace(connection: sqlite3.Connection, trace_id: str) -> StoredTrace | None:
    """See `Store.trace`."""
    found = connection.execute(
        """SELECT t.n, t.settled_at, t.settled_by, t.segment, t.position, t.late_spans, s.body
           FROM traces t LEFT JOIN trace_spans s ON s.trace = t.n WHERE t.trace_id = ?""",
        (trace_id,),
    ).fetchone()
    if found is None:
        return None
    row, settled_at, settled_by, segment, position, late_spans, spans = found
    invocations = connection.execute(
        f"""SELECT {HEAD}, i.span_ids, i.digest, EXISTS (
                SELECT 1 FROM evaluations e LEFT JOIN verdicts v ON v.evaluation = e.n
                WHERE e.invocation = i.n AND (e.state <> 'pending' OR v.evaluation IS NOT NULL)
            ) {FROM_HEAD} WHERE i.trace = ? AND i.merged_into IS NULL AND i.turns IS NULL ORDER BY i.n""",  # noqa: S608
        (row,),
    )
    return StoredTrace(
        trace_id=trace_id,
        settled_at=settled_at,
        settled_by=settled_by,
        consumed=JournalPosition(segment, position),
        late_spans=late_spans,
        spans=None if spans is None else unpacked(spans),
        invocations=tuple(
            StoredInvocation(read_invocation(head), unpacked_ids(span_ids), digest, bool(judged))
            for *head, span_ids, digest, judged in invocations
        ),
    )


def consumed_positions(connection: sqlite3.Connection, trace_ids: Collection[str]) -> dict[str, JournalPosition]:
    """See `Store.consumed_positions`."""
    positions = {}
    for trace_id in trace_ids:
        found = connection.execute("SELECT segment, position FROM traces WHERE trace_id = ?", (trace_id,)).fetchone()
        if found is not None:
            positions[trace_id] = JournalPosition(*found)
    return positions


def stored_invocation(connection: sqlite3.Connection, invocation_id: str) -> Invocation | None:
    """See `Store.invocation`. Chains of merges are followed; each step leads to an invocation that was stored earlier."""
    seen: set[str] = set()
    while invocation_id not in seen:
        seen.add(invocation_id)
        row = connection.execute(f"SELECT {HEAD} {FROM_HEAD} WHERE i.id = ?", (invocation_id,)).fetchone()
        if row is None:
            return None
        merged_into = row[-2]
        if merged_into is None:
            return read_whole(connection, row)
        invocation_id = merged_into
    return None
