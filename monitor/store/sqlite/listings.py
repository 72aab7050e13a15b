"""Listings of the API, page by page, newest first."""

from __future__ import annotations

import base64
import binascii
import json
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from monitor.clock import rfc3339
from monitor.model.run import Page, Query
from monitor.model.wire import invocation_json, verdict_json
from monitor.store.protocol import InvalidCursor
from monitor.store.sqlite.heads import FROM_HEAD, HEAD, read_invocation
from monitor.store.sqlite.runs import read_run
from monitor.store.sqlite.verdicts import FROM_VERDICT, VERDICT, read_verdict

MAX_LIMIT = 1000


class _Conditions:
    """The WHERE of a listing: only given conditions, each with its values."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.values: list[Any] = []

    def add(self, condition: str, *values: Any) -> None:
        """Add a condition unless a value of it is None."""
        if None not in values:
            self.texts.append(condition)
            self.values.extend(values)

    def __str__(self) -> str:
        return " AND ".join(self.texts) or "1"


def _page(
    connection: sqlite3.Connection,
    query: Query,
    select: str,
    conditions: _Conditions,
    keys: Sequence[str],
    item: Callable[[Sequence[Any]], dict[str, Any]],
) -> Page:
    """A page by key set: the keys of the last row are the cursor, and the next page begins behind them."""
    if query.cursor is not None:
        conditions.add(f"({', '.join(keys)}) < ({', '.join('?' * len(keys))})", *_keys_of(query.cursor, len(keys)))
    limit = max(1, min(MAX_LIMIT, query.limit))
    order = ", ".join(f"{key} DESC" for key in keys)
    rows = connection.execute(
        f"SELECT {', '.join(keys)}, {select} WHERE {conditions} ORDER BY {order} LIMIT ?",
        (*conditions.values, limit + 1),
    ).fetchall()
    items = tuple(item(row[len(keys) :]) for row in rows[:limit])
    return Page(items, _cursor_of(rows[limit - 1][: len(keys)]) if len(rows) > limit else None)


def _cursor_of(keys: Sequence[Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(keys).encode()).decode().rstrip("=")


def _keys_of(cursor: str, count: int) -> list[Any]:
    try:
        keys = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    except (ValueError, binascii.Error):
        keys = None
    if not isinstance(keys, list) or len(keys) != count or not all(isinstance(key, (int, float, str)) for key in keys):
        raise InvalidCursor(
            "cursor: is none of this listing; use the next_cursor of its last page, with the same filters"
        )
    return keys


def invocations(connection: sqlite3.Connection, query: Query) -> Page:
    """See `Store.list_invocations`. Those that were merged into another are left out."""
    conditions = _Conditions()
    conditions.add("i.merged_into IS NULL")
    conditions.add("t.trace_id = ?", query.trace_id)
    conditions.add("p.agent = ?", query.agent)
    conditions.add("i.ended_at >= ?", None if query.since is None else round(query.since * 1e9))
    conditions.add("i.ended_at < ?", None if query.until is None else round(query.until * 1e9))
    return _page(
        connection, query, f"{HEAD} {FROM_HEAD}", conditions, ("i.ended_at", "i.n"),
        lambda row: invocation_json(read_invocation(row)),
    )  # fmt: skip


def verdicts(connection: sqlite3.Connection, query: Query) -> Page:
    """See `Store.list_verdicts`."""
    time = "v.judged_at" if query.by == "judged_at" else "v.window_at"
    conditions = _Conditions()
    conditions.add("v.counted = 1")
    conditions.add("v.monitor = ?", query.monitor)
    conditions.add("v.rubric = ?", query.rubric)
    conditions.add("v.verdict = ?", query.verdict)
    conditions.add("t.trace_id = ?", query.trace_id)
    conditions.add("p.agent = ?", query.agent)
    conditions.add(f"{time} >= ?", query.since)
    conditions.add(f"{time} < ?", query.until)
    return _page(
        connection, query, f"{VERDICT} {FROM_VERDICT}", conditions, (time, "v.evaluation"),
        lambda row: verdict_json(read_verdict(row)),
    )  # fmt: skip


_EVALUATION = """
    e.n, i.id, t.trace_id, e.monitor, e.rubric, e.rubric_version, e.judge, e.shadow, e.state, e.attempts, e.revision, e.tick,
    e.created_at, e.available_at, e.claimed, e.number, e.inclusion_probability, e.failure, v.verdict
    FROM evaluations e JOIN invocations i ON i.n = e.invocation JOIN traces t ON t.n = i.trace
    JOIN profiles p ON p.n = i.profile LEFT JOIN verdicts v ON v.evaluation = e.n
"""


def evaluations(connection: sqlite3.Connection, query: Query) -> Page:
    """See `Store.list_evaluations`: newest first by when they were made."""
    conditions = _Conditions()
    if query.state is not None and query.state != "done":
        conditions.add("e.state <> 'done'")  # lets the index of open evaluations be used
    conditions.add("e.state = ?", query.state)
    conditions.add("e.monitor = ?", query.monitor)
    conditions.add("e.rubric = ?", query.rubric)
    conditions.add("v.verdict = ?", query.verdict)
    conditions.add("t.trace_id = ?", query.trace_id)
    conditions.add("p.agent = ?", query.agent)
    conditions.add("i.window_at >= ?", query.since)
    conditions.add("i.window_at < ?", query.until)
    return _page(connection, query, _EVALUATION, conditions, ("e.n",), _evaluation_json)


def evaluation_items(connection: sqlite3.Connection, invocation: int, monitor: str) -> list[dict[str, Any]]:
    """The evaluations of an invocation (by its row) for a monitor, oldest first."""
    rows = connection.execute(
        f"SELECT {_EVALUATION} WHERE e.invocation = ? AND e.monitor = ? ORDER BY e.n",
        (invocation, monitor),
    )
    return [_evaluation_json(row) for row in rows]


def _evaluation_json(row: Sequence[Any]) -> dict[str, Any]:
    (number, invocation_id, trace_id, monitor, rubric, version, judge, shadow, state, attempts, revision, tick, created,
     available, claimed, u, probability, failure, verdict) = row  # fmt: skip
    failed = json.loads(failure) if failure else None
    return {
        "id": number,
        "invocation_id": invocation_id,
        "trace_id": trace_id,
        "monitor": monitor,
        "rubric": rubric,
        "rubric_version": version,
        "judge": judge or None,
        "shadow": bool(shadow),
        "state": state,
        "verdict": verdict,
        "error": failed["error"] if failed else None,
        "attempts": attempts,
        "revision": revision,
        "u": u,
        "inclusion_probability": probability,
        "tick": rfc3339(tick),
        "created_at": rfc3339(created),
        "claimed": bool(claimed),
        "not_before": rfc3339(available) if state == "pending" and available > 0 and not claimed else None,
        "failed": failed,
    }


def runs(connection: sqlite3.Connection, query: Query) -> Page:
    """See `Store.list_runs`. `since` and `until` go by the tick; `state` by the outcome."""
    conditions = _Conditions()
    conditions.add("monitor = ?", query.monitor)
    conditions.add("outcome = ?", query.state)
    conditions.add("tick >= ?", query.since)
    conditions.add("tick < ?", query.until)
    select = "monitor, tick, started_at, finished_at, outcome, considered, drawn, evaluations, carry, error, strata FROM runs"
    return _page(connection, query, select, conditions, ("tick", "monitor"), _run_json)


def _run_json(row: Sequence[Any]) -> dict[str, Any]:
    run = read_run(row)
    times = {"tick": rfc3339(run.tick), "started_at": rfc3339(run.started_at)}
    finished = None if run.finished_at is None else rfc3339(run.finished_at)
    return {**asdict(run), **times, "finished_at": finished, "strata": [asdict(stratum) for stratum in run.strata]}
