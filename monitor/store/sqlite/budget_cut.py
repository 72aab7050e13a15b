"""Ending a run early when its budget is spent."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import asdict

from monitor.model.run import Decision, Stratum
from monitor.model.tallies import TallyName
from monitor.model.verdict import NotSelected
from monitor.store.protocol import Recompute
from monitor.store.sqlite.tallies import Counting
from monitor.store.sqlite.turns import release_turns
from monitor.store.sqlite.values import compact

_TOUCHED = """
    SELECT invocation FROM evaluations WHERE monitor = :monitor AND invocation = :row
    AND (state <> 'pending' OR claimed = 1 OR attempts > 0 OR n IN (SELECT evaluation FROM verdicts)) LIMIT 1
"""


def cut(connection: sqlite3.Connection, monitor: str, tick: float, recompute: Recompute, now: float) -> int:
    """See `Store.cut_run`."""
    rows, drawn = _drawn(connection, monitor, tick)
    taken_up = {
        name
        for name, row in rows.items()
        if connection.execute(_TOUCHED, {"monitor": monitor, "row": row}).fetchone() is not None
    }
    given_up = rows.keys() - taken_up
    if not given_up:
        return 0
    strata, decisions = recompute(_strata(connection, monitor, tick), drawn, taken_up)
    _write(connection, monitor, tick, strata, decisions, rows)
    counting = Counting()
    labels = {"monitor": monitor, "reason": NotSelected.OVER_BUDGET.value}
    counting.add(TallyName.NOT_SELECTED, labels, now, amount=float(len(given_up)))
    counting.write(connection)
    return len(given_up)


def pending_ticks(connection: sqlite3.Connection, monitor: str) -> list[float]:
    """See `Store.pending_ticks`."""
    query = "SELECT DISTINCT tick FROM evaluations WHERE state = 'pending' AND monitor = ? ORDER BY tick"
    return [tick for (tick,) in connection.execute(query, (monitor,))]


def _drawn(connection: sqlite3.Connection, monitor: str, tick: float) -> tuple[dict[str, int], list[Decision]]:
    """The drawn of a run in the order of u: their rows by id, and their decisions."""
    found = connection.execute(
        """SELECT i.n, i.id, d.number, d.inclusion_probability, d.stratum, d.detail
           FROM decisions d JOIN invocations i ON i.n = d.invocation
           WHERE d.monitor = ? AND d.tick = ? AND d.drawn = 1 ORDER BY d.number, i.id""",
        (monitor, tick),
    ).fetchall()
    decisions = [
        Decision(name, True, None, number, probability, stratum, detail)
        for _, name, number, probability, stratum, detail in found
    ]
    return {name: row for row, name, *_ in found}, decisions


def _strata(connection: sqlite3.Connection, monitor: str, tick: float) -> tuple[Stratum, ...]:
    found = connection.execute("SELECT strata FROM runs WHERE monitor = ? AND tick = ?", (monitor, tick)).fetchone()
    return tuple(Stratum(**stratum) for stratum in json.loads(found[0])) if found and found[0] else ()


def _write(
    connection: sqlite3.Connection,
    monitor: str,
    tick: float,
    strata: Sequence[Stratum],
    decisions: Sequence[Decision],
    rows: Mapping[str, int],
) -> None:
    for decision in decisions:
        row = rows[decision.invocation_id]
        reason = None if decision.reason is None else decision.reason.value
        connection.execute(
            "UPDATE decisions SET drawn = ?, reason = ?, inclusion_probability = ? WHERE invocation = ? AND monitor = ?",
            (int(decision.drawn), reason, decision.inclusion_probability, row, monitor),
        )
        if decision.drawn:
            _reweigh(connection, monitor, row, decision.inclusion_probability)
        else:
            connection.execute("DELETE FROM evaluations WHERE invocation = ? AND monitor = ?", (row, monitor))
            connection.execute("UPDATE invocations SET drawn = drawn - 1 WHERE n = ?", (row,))
            release_turns(connection, [row])
    drawn = sum(decision.drawn for decision in decisions)
    connection.execute(
        "UPDATE runs SET strata = ?, evaluations = evaluations * ? / max(1, drawn), drawn = ? WHERE monitor = ? AND tick = ?",
        (compact([asdict(stratum) for stratum in strata]), drawn, drawn, monitor, tick),
    )


def _reweigh(connection: sqlite3.Connection, monitor: str, row: int, probability: float) -> None:
    connection.execute(
        "UPDATE evaluations SET inclusion_probability = ? WHERE invocation = ? AND monitor = ?",
        (probability, row, monitor),
    )
    connection.execute(
        """UPDATE verdicts SET inclusion_probability = ? WHERE evaluation IN (
               SELECT n FROM evaluations WHERE invocation = ? AND monitor = ?)""",
        (probability, row, monitor),
    )
