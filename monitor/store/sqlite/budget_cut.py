"""Ending a run early when its budget is spent."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass

from monitor.model.run import Decision, Stratum
from monitor.model.tallies import TallyName
from monitor.model.verdict import NotSelected
from monitor.store.protocol import Recompute
from monitor.store.sqlite.tallies import Counting
from monitor.store.sqlite.turns import release_turns
from monitor.store.sqlite.values import compact

_GROUP = """
    SELECT n, rubric, rubric_version,
           state <> 'pending' OR claimed = 1 OR attempts > 0 OR n IN (SELECT evaluation FROM verdicts)
    FROM evaluations WHERE invocation = ? AND monitor = ? AND tick = ? AND judge <> ''
"""


@dataclass(frozen=True, slots=True)
class _Judged:
    """A judged evaluation of a run; `touched`: somebody has begun with it."""

    row: int
    rubric: str
    version: str
    touched: bool


@dataclass(frozen=True, slots=True)
class _Run:
    """What a run has drawn: rows of invocations by id, their decisions in the order of u, and the evaluations that are to be cut."""

    monitor: str
    tick: float
    rows: Mapping[str, int]
    drawn: Sequence[Decision]
    judged: Mapping[str, Sequence[_Judged]]


def cut(
    connection: sqlite3.Connection,
    monitor: str,
    tick: float,
    recompute: Recompute,
    now: float,
    judges: Collection[str] | None = None,
) -> int:
    """See `Store.cut_run`."""
    rows, drawn = _drawn(connection, monitor, tick)
    found = {name: _judged(connection, monitor, tick, row, judges) for name, row in rows.items()}
    run = _Run(monitor, tick, rows, drawn, {name: judged for name, judged in found.items() if judged})
    taken_up = {name for name, judged in run.judged.items() if any(one.touched for one in judged)}
    given_up = run.judged.keys() - taken_up
    if not given_up:
        return 0
    strata, decisions = recompute(_strata(connection, monitor, tick), drawn, taken_up)
    if _is_all(connection, run):
        _write(connection, monitor, tick, strata, decisions, rows)
    else:
        _write_part(connection, run, decisions)
    counting = Counting()
    labels = {"monitor": monitor, "reason": NotSelected.OVER_BUDGET.value}
    counting.add(TallyName.NOT_SELECTED, labels, now, amount=float(len(given_up)))
    counting.write(connection)
    return len(given_up)


def _judged(
    connection: sqlite3.Connection, monitor: str, tick: float, row: int, judges: Collection[str] | None
) -> list[_Judged]:
    """The evaluations of an invocation that these judges, or any, are asked for."""
    query, values = _GROUP, [row, monitor, tick]
    if judges is not None:
        query += f" AND judge IN ({', '.join('?' * len(judges))})"
        values += judges
    return [
        _Judged(n, rubric, version, bool(touched)) for n, rubric, version, touched in connection.execute(query, values)
    ]


def _is_all(connection: sqlite3.Connection, run: _Run) -> bool:
    """Whether the run drew for nothing but what is cut, so that its draw is the smaller one for every rubric."""
    cut_before = connection.execute(
        "SELECT 1 FROM given_up WHERE monitor = ? AND tick = ? LIMIT 1", (run.monitor, run.tick)
    ).fetchone()
    if cut_before is not None:
        return False
    query = "SELECT count(*) FROM evaluations WHERE invocation = ? AND monitor = ?"
    return all(
        connection.execute(query, (row, run.monitor)).fetchone()[0] == len(run.judged.get(name, ()))
        for name, row in run.rows.items()
    )


def pending_ticks(connection: sqlite3.Connection, monitor: str) -> list[float]:
    """See `Store.pending_ticks`."""
    query = """SELECT DISTINCT e.tick FROM evaluations e JOIN runs r ON r.monitor = e.monitor AND r.tick = e.tick
               WHERE e.state <> 'done' AND e.state = 'pending' AND e.monitor = ? ORDER BY e.tick"""
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


def _write_part(connection: sqlite3.Connection, run: _Run, decisions: Sequence[Decision]) -> None:
    """Cut some rubrics of a run: the others go on with the draw that they had. So the decisions stay as they are, and what was cut has
    probabilities of its own; an invocation of which nothing is left was not drawn after all.
    """
    dropped = nothing_left = 0
    for decision in decisions:
        row, judged = run.rows[decision.invocation_id], run.judged.get(decision.invocation_id, ())
        if decision.drawn:
            for one in judged:
                _reweigh_one(connection, one.row, decision.inclusion_probability)
        elif judged:
            dropped += len(judged)
            nothing_left += _give_up(connection, run, row, judged)
    connection.execute(
        "UPDATE runs SET evaluations = evaluations - ?, drawn = drawn - ? WHERE monitor = ? AND tick = ?",
        (dropped, nothing_left, run.monitor, run.tick),
    )


def _give_up(connection: sqlite3.Connection, run: _Run, row: int, judged: Sequence[_Judged]) -> bool:
    """Drop evaluations of an invocation and remember it. Whether nothing is left of it."""
    connection.executemany(
        "INSERT OR IGNORE INTO given_up (invocation, monitor, tick, rubric_version) VALUES (?, ?, ?, ?)",
        ((row, run.monitor, run.tick, one.version) for one in judged),
    )
    connection.executemany("DELETE FROM evaluations WHERE n = ?", ((one.row,) for one in judged))
    here = (row, run.monitor)
    if connection.execute("SELECT 1 FROM evaluations WHERE invocation = ? AND monitor = ?", here).fetchone() is None:
        connection.execute(
            "UPDATE decisions SET drawn = 0, reason = ? WHERE invocation = ? AND monitor = ?",
            (NotSelected.OVER_BUDGET.value, *here),
        )
        connection.execute("UPDATE invocations SET drawn = drawn - 1 WHERE n = ?", (row,))
        release_turns(connection, [row])
        return True
    said = f"given up, {NotSelected.OVER_BUDGET.value}: {', '.join(sorted(one.rubric for one in judged))}"
    connection.execute(
        "UPDATE decisions SET detail = CASE detail WHEN '' THEN ?1 ELSE detail || '; ' || ?1 END WHERE invocation = ?2 AND monitor = ?3",
        (said, *here),
    )
    return False


def _reweigh_one(connection: sqlite3.Connection, evaluation: int, probability: float) -> None:
    connection.execute("UPDATE evaluations SET inclusion_probability = ? WHERE n = ?", (probability, evaluation))
    connection.execute("UPDATE verdicts SET inclusion_probability = ? WHERE evaluation = ?", (probability, evaluation))


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
