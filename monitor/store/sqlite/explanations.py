"""Why a trace was or was not judged."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from typing import Any

from monitor.clock import rfc3339
from monitor.model.conversation import PREFIX
from monitor.model.origin import shown_waiting
from monitor.store.sqlite.listings import evaluation_items
from monitor.store.sqlite.ties import OF_TURN
from monitor.store.sqlite.waiting import waiting_monitors

_NOTHING: dict[str, Any] = dict.fromkeys(("reason", "u", "inclusion_probability", "stratum", "tick"))


def decisions(connection: sqlite3.Connection, trace_id: str) -> list[dict[str, Any]]:
    """See `Store.decisions`. `decision` is drawn, not_selected or waiting: not yet considered by that monitor."""
    found = connection.execute(
        f"""SELECT i.n, i.id, i.settled_at, i.unconsidered, i.merged_into, i.settled_by FROM invocations i
            WHERE i.trace IN ({OF_TURN}) AND i.turns IS NULL ORDER BY i.n""",  # noqa: S608
        (trace_id,),
    ).fetchall()
    found += connection.execute(
        """SELECT i.n, i.id, i.settled_at, i.unconsidered, nullif(i.merged_into, ''), i.settled_by FROM invocations i
           WHERE i.turns IS NOT NULL AND i.conversation IN (
               SELECT j.conversation FROM invocations j JOIN traces t ON t.n = j.trace WHERE t.trace_id = ?) ORDER BY i.n""",
        (trace_id,),
    ).fetchall()
    explained: list[dict[str, Any]] = list(_open_conversations(connection, trace_id))
    for row, invocation_id, settled_at, unconsidered, merged_into, settled_by in found:
        common = {"invocation_id": invocation_id, "settled_by": settled_by, "merged_into": merged_into}
        explained += [{**common, **decided} for decided in _decided(connection, row)]
        if unconsidered:
            explained += [{**common, **waiting} for waiting in _waiting(connection, row, settled_at)]
    return explained


def _open_conversations(connection: sqlite3.Connection, trace_id: str) -> Iterator[dict[str, Any]]:
    """Conversations with a turn in the trace that are not complete (again) yet: they wait for silence, by monitor."""
    rows = connection.execute(
        """SELECT DISTINCT c.conversation_id, c.monitors, c.completed_at,
                  (SELECT count(*) FROM invocations k WHERE k.conversation = c.n AND k.turns IS NULL AND k.merged_into IS NULL)
           FROM invocations i JOIN traces t ON t.n = i.trace JOIN conversations c ON c.n = i.conversation
           WHERE t.trace_id = ? AND i.turns IS NULL AND c.changed_at IS NOT NULL""",
        (trace_id,),
    ).fetchall()
    for conversation_id, monitors, completed_at, turns in rows:
        again = "" if completed_at is None else " again"
        detail = f"the conversation is not complete{again} yet: {turns} turn{'s' if turns != 1 else ''} so far"
        for monitor in json.loads(monitors or "[]"):
            common = {"invocation_id": f"{PREFIX}{conversation_id}", "settled_by": None, "merged_into": None}
            yield {**common, "monitor": monitor, "decision": "waiting", **_NOTHING, "detail": detail, "evaluations": []}


def _decided(connection: sqlite3.Connection, row: int) -> list[dict[str, Any]]:
    found = connection.execute(
        """SELECT monitor, drawn, reason, number, inclusion_probability, stratum, tick, detail FROM decisions
           WHERE invocation = ? ORDER BY monitor""",
        (row,),
    ).fetchall()
    return [_decision_json(decision, evaluation_items(connection, row, decision[0])) for decision in found]


def _decision_json(decision: Sequence[Any], evaluations: list[dict[str, Any]]) -> dict[str, Any]:
    monitor, drawn, reason, number, probability, stratum, tick, detail = decision
    return {
        "monitor": monitor,
        "decision": "drawn" if drawn else "not_selected",
        "reason": reason,
        "detail": detail,
        "u": number,
        "inclusion_probability": probability,
        "stratum": stratum,
        "tick": rfc3339(tick),
        "evaluations": evaluations,
    }


def _waiting(connection: sqlite3.Connection, row: int, settled_at: float) -> list[dict[str, Any]]:
    query = "SELECT 1 FROM waiting WHERE monitor = ? AND settled_at = ? AND invocation = ?"
    return [
        {"monitor": shown_waiting(monitor), "decision": "waiting", **_NOTHING, "detail": "", "evaluations": []}
        for monitor in waiting_monitors(connection)
        if connection.execute(query, (monitor, settled_at, row)).fetchone() is not None
    ]
