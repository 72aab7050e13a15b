"""Settled traces and their invocations."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from monitor.model.conversation import ConversationKey, conversation_key
from monitor.model.invocation import Invocation
from monitor.model.run import (
    AssembleLater,
    InvocationChange,
    JournalPosition,
    StoredInvocation,
    StoredTrace,
    TraceSettlement,
)
from monitor.store.sqlite import earlier
from monitor.store.sqlite.blobs import as_it_is, packed_ids, unpacked, unpacked_ids
from monitor.store.sqlite.content import content_blob
from monitor.store.sqlite.conversations import read_whole_or_bare
from monitor.store.sqlite.erasure import erase_content
from monitor.store.sqlite.finding import is_elsewhere, row_of
from monitor.store.sqlite.forgetting import is_forgotten
from monitor.store.sqlite.fresh_traces import (
    PreparedChange,
    PreparedTrace,
    count,
    insert,
    insertion,
    new_values,
    ready_values,
    split_fresh,
    values_of,
)
from monitor.store.sqlite.heads import (
    FROM_HEAD,
    HEAD,
    HEAD_COLUMNS,
    Profiles,
    head_values,
    read_head,
    read_stored,
)
from monitor.store.sqlite.revising import revise
from monitor.store.sqlite.tallies import Counting
from monitor.store.sqlite.ties import OF_TURN, save_ties
from monitor.store.sqlite.turns import leave, note_turn
from monitor.store.sqlite.values import text
from monitor.store.sqlite.waiting import enqueue, withdraw


def prepare(settlement: TraceSettlement) -> PreparedTrace:
    """Do all that needs no database."""
    changes = tuple([_prepared(settlement, change) for change in settlement.changes])
    return PreparedTrace(settlement, changes, None if settlement.spans is None else as_it_is(settlement.spans))


def _prepared(settlement: TraceSettlement, change: InvocationChange) -> PreparedChange:
    return PreparedChange(change, ready_values(settlement, change), content_of(change))


def content_of(change: InvocationChange) -> bytes | None:
    """What was said in an invocation, as it is stored; None while it is not assembled."""
    return content_blob(change.invocation) if change.assembled else None


def save(connection: sqlite3.Connection, ready: Sequence[PreparedTrace]) -> None:
    """Write settlements; see `Store.save_traces`."""
    counting, profiles = Counting(), Profiles(connection)
    fresh, others = split_fresh(connection, ready)
    insert(connection, fresh, profiles, counting)
    rows = [_save_trace(connection, trace) for trace in others]
    forgotten_turns = {_turn(trace) for trace, (_, forgotten) in zip(others, rows, strict=True) if forgotten}
    for trace, (row, _) in zip(others, rows, strict=True):
        forgotten = _turn(trace) in forgotten_turns
        for change in trace.changes:
            _save_invocation(connection, trace.settlement, row, change, _Saving(counting, profiles, forgotten))
        for merged, holder in trace.settlement.merged.items():
            _mark_merged(connection, merged, holder)
    save_ties(connection, [trace.settlement for trace in ready])
    counting.write(connection)


@dataclass(frozen=True, slots=True)
class _Saving:
    """What saving an invocation needs besides it; `forgotten`: its trace was to be forgotten."""

    counting: Counting
    profiles: Profiles
    forgotten: bool


def _turn(trace: PreparedTrace) -> str:
    """Which traces of a save are of one turn: to forget one is to forget all."""
    tie = trace.settlement.tie
    return tie.turn if tie is not None and tie.turn is not None else trace.settlement.trace_id


def _save_trace(connection: sqlite3.Connection, trace: PreparedTrace) -> tuple[int, bool]:
    """The trace's row and whether its content was forgotten. A replay, which has read no further, leaves the row alone."""
    told = trace.settlement
    found = connection.execute(
        "SELECT n, segment, position, forgotten FROM traces WHERE trace_id = ?", (told.trace_id,)
    ).fetchone()
    invocations = [prepared.change.invocation for prepared in trace.changes]
    began = [(_stored(key), one.started_at / 1e9) for one in invocations if (key := conversation_key(one)) is not None]
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


def _stored(key: ConversationKey) -> ConversationKey:
    return text(key[0]), text(key[1]), text(key[2])


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
    connection: sqlite3.Connection, settlement: TraceSettlement, trace: int, prepared: PreparedChange, saving: _Saving
) -> None:
    invocation = prepared.change.invocation
    found = connection.execute(
        f"SELECT n, revision, forgotten FROM invocations WHERE n = {row_of('?1')}",  # noqa: S608
        (text(invocation.id),),
    ).fetchone()
    if found is not None and found[1] >= invocation.revision:
        return
    keep = not (saving.forgotten or (found is not None and found[2]))
    values = values_of(prepared, saving.profiles)
    if not keep:
        values |= {"has_content": 0, "attributes": None}
    if found is None:
        values |= new_values(settlement, trace, invocation)
        row = int(connection.execute(insertion(values), values).lastrowid or 0)
        enqueue(connection, row, settlement.settled_at, settlement.monitors)
        count(saving.counting, [(settlement, invocation)])
    else:
        row = found[0]
        if keep:
            earlier.keep_invocation(connection, row)
        place = {"trace": trace, "elsewhere": int(is_elsewhere(text(invocation.id), settlement.trace_id))}
        revise(connection, row, values | place, settlement.settled_at, rejudge=prepared.change.rejudge)
        if not keep:
            erase_content(connection, [row])
    if keep and prepared.content is not None:
        connection.execute(
            "INSERT OR REPLACE INTO invocation_content (invocation, body) VALUES (?, ?)", (row, prepared.content)
        )
    note_turn(connection, row, settlement)


def _mark_merged(connection: sqlite3.Connection, merged: str, holder: str) -> None:
    """Mark an invocation as part of another: it is considered, judged and counted in rates no more, and has no content of its own."""
    found = connection.execute(
        f"SELECT n, settled_at FROM invocations WHERE n = {row_of('?1')} AND merged_into IS NOT ?2",  # noqa: S608
        (text(merged), text(holder)),
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
    """See `Store.trace`. The invocations are those of its whole turn."""
    found = connection.execute(
        """SELECT t.settled_at, t.settled_by, t.segment, t.position, t.late_spans, s.body
           FROM traces t LEFT JOIN trace_spans s ON s.trace = t.n WHERE t.trace_id = ?""",
        (trace_id,),
    ).fetchone()
    if found is None:
        return None
    settled_at, settled_by, segment, position, late_spans, spans = found
    invocations = connection.execute(
        f"""SELECT {HEAD}, i.span_ids, i.digest, EXISTS (
                SELECT 1 FROM evaluations e LEFT JOIN verdicts v ON v.evaluation = e.n
                WHERE e.invocation = i.n AND (e.state <> 'pending' OR v.evaluation IS NOT NULL)
            ) {FROM_HEAD} WHERE i.trace IN ({OF_TURN}) AND i.merged_into IS NULL AND i.turns IS NULL ORDER BY i.n""",  # noqa: S608
        (trace_id,),
    )
    return StoredTrace(
        trace_id=trace_id,
        settled_at=settled_at,
        settled_by=settled_by,
        consumed=JournalPosition(segment, position),
        late_spans=late_spans,
        spans=None if spans is None else unpacked(spans),
        invocations=tuple(
            StoredInvocation(
                read_stored(head) if digest else read_head(head),
                unpacked_ids(span_ids),
                digest,
                bool(judged),
                bool(digest),
            )
            for *head, span_ids, digest, judged in invocations
        ),
    )


def stored_invocation(connection: sqlite3.Connection, invocation_id: str, assemble: AssembleLater) -> Invocation | None:
    """See `Store.invocation`. Chains of merges are followed; each step leads to an invocation that was stored earlier."""
    seen: set[str] = set()
    while invocation_id not in seen:
        seen.add(invocation_id)
        row = connection.execute(f"SELECT {HEAD} {FROM_HEAD} WHERE i.n = {row_of('?1')}", (invocation_id,)).fetchone()
        if row is None:
            return None
        merged_into = row[-3]
        if merged_into is None:
            return read_whole_or_bare(connection, row, assemble)[0]
        invocation_id = merged_into
    return None


def save_assembled(
    connection: sqlite3.Connection, assembled: Sequence[tuple[int, InvocationChange, bytes | None]]
) -> None:
    """Keep invocations (row, change, content) that were assembled since only their heads were read, unless they were revised or erased meanwhile."""
    for row, change, content in assembled:
        head = dict(zip(HEAD_COLUMNS, head_values(change.invocation), strict=True))
        kept = {name: head[name] for name in ("completeness", "tools", "model_calls", "input_tokens", "output_tokens")}
        values = {
            **kept,
            "digest": change.digest,
            "span_ids": packed_ids(change.span_ids),
            "row": row,
            "revision": change.invocation.revision,
        }
        found = connection.execute(
            """UPDATE invocations SET completeness = :completeness, tools = :tools, model_calls = :model_calls,
               input_tokens = :input_tokens, output_tokens = :output_tokens, digest = :digest, span_ids = :span_ids, assembled = 1
               WHERE n = :row AND assembled = 0 AND has_content = 1 AND revision = :revision""",
            values,
        )
        if found.rowcount:
            connection.execute(
                "INSERT OR REPLACE INTO invocation_content (invocation, body) VALUES (?, ?)", (row, content)
            )
