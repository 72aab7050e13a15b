"""Listings of the API, page by page, newest first."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from monitor.clock import rfc3339
from monitor.model.run import AssembleLater, Level, Page, Query
from monitor.model.wire import invocation_json, verdict_json
from monitor.store.sqlite.conversations import read_whole_or_bare
from monitor.store.sqlite.heads import FROM_HEAD, HEAD
from monitor.store.sqlite.keyset import Conditions, keyset_page
from monitor.store.sqlite.runs import read_run
from monitor.store.sqlite.ties import OF_TURN
from monitor.store.sqlite.verdicts import FROM_VERDICT, VERDICT, read_verdict


def invocations(connection: sqlite3.Connection, query: Query, assemble: AssembleLater) -> Page:
    """See `Store.list_invocations`. Those that were merged into another are left out."""
    conditions = Conditions()
    conditions.add("i.merged_into IS NULL")
    conditions.add("i.turns IS NOT NULL" if query.level == Level.CONVERSATION else "i.turns IS NULL")
    conditions.add("i.conversation_id = ?", query.conversation_id)
    conditions.add(f"i.trace IN ({OF_TURN})", query.trace_id)
    conditions.add("p.agent = ?", query.agent)
    conditions.add("i.ended_at >= ?", None if query.since is None else round(query.since * 1e9))
    conditions.add("i.ended_at < ?", None if query.until is None else round(query.until * 1e9))
    return keyset_page(
        connection, query.cursor, query.limit, f"{HEAD} {FROM_HEAD}", conditions, ("i.ended_at", "i.n"),
        lambda row: invocation_json(read_whole_or_bare(connection, row, assemble)[0]),
    )  # fmt: skip


_OF_TRACE = f"""
    SELECT e.n FROM evaluations e WHERE e.invocation IN (
        SELECT j.n FROM invocations j WHERE j.trace IN ({OF_TURN}) AND j.turns IS NULL
        UNION ALL SELECT k.n FROM invocations j JOIN invocations k ON k.conversation = j.conversation AND k.turns IS NOT NULL
            WHERE j.trace IN ({OF_TURN}) AND j.turns IS NULL)
"""  # noqa: S608
"""The evaluations of a trace: of its invocations, and of the conversations that these are turns of."""


def verdicts(connection: sqlite3.Connection, query: Query) -> Page:
    """See `Store.list_verdicts`."""
    time = "v.judged_at" if query.by == "judged_at" else "v.window_at"
    conditions = Conditions()
    conditions.add("v.counted = 1")
    conditions.add("v.monitor = ?", query.monitor)
    conditions.add("v.rubric = ?", query.rubric)
    conditions.add("v.verdict = ?", query.verdict)
    if query.trace_id is not None:
        conditions.add(
            f"v.evaluation IN ({_OF_TRACE})", query.trace_id, query.trace_id
        )  # else all verdicts would be looked through
    conditions.add("p.agent = ?", query.agent)
    conditions.add(f"{time} >= ?", query.since)
    conditions.add(f"{time} < ?", query.until)
    return keyset_page(
        connection, query.cursor, query.limit, f"{VERDICT} {FROM_VERDICT}", conditions, (time, "v.evaluation"),
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
    conditions = Conditions()
    if query.state is not None and query.state != "done":
        conditions.add("e.state <> 'done'")  # lets the index of open evaluations be used
    conditions.add("e.state = ?", query.state)
    conditions.add("e.monitor = ?", query.monitor)
    conditions.add("e.rubric = ?", query.rubric)
    conditions.add("v.verdict = ?", query.verdict)
    if query.trace_id is not None:
        conditions.add(f"e.n IN ({_OF_TRACE})", query.trace_id, query.trace_id)
    conditions.add("p.agent = ?", query.agent)
    conditions.add("i.window_at >= ?", query.since)
    conditions.add("i.window_at < ?", query.until)
    return keyset_page(connection, query.cursor, query.limit, _EVALUATION, conditions, ("e.n",), _evaluation_json)


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
    conditions = Conditions()
    conditions.add("monitor = ?", query.monitor)
    conditions.add("outcome = ?", query.state)
    conditions.add("tick >= ?", query.since)
    conditions.add("tick < ?", query.until)
    select = "monitor, tick, started_at, finished_at, outcome, considered, drawn, evaluations, carry, error, strata FROM runs"
    return keyset_page(connection, query.cursor, query.limit, select, conditions, ("tick", "monitor"), _run_json)


def _run_json(row: Sequence[Any]) -> dict[str, Any]:
    run = read_run(row)
    times = {"tick": rfc3339(run.tick), "started_at": rfc3339(run.started_at)}
    finished = None if run.finished_at is None else rfc3339(run.finished_at)
    return {**asdict(run), **times, "finished_at": finished, "strata": [asdict(stratum) for stratum in run.strata]}
