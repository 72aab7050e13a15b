"""The log of first verdicts, and what regression detection has made of it."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any

from monitor.model.backfill import BACKFILL_TICK
from monitor.model.evidence import CriterionScores, LoggedVerdict, RegressionState, SeriesKey
from monitor.store.sqlite.small_tables import read_state, write_state
from monitor.store.sqlite.values import compact

_STATE = "regression"
_LOGGED = ("pass", "fail")


def log_first(connection: sqlite3.Connection, evaluation: int, verdict: str) -> None:
    """Put a first verdict at the end of the log; one that says neither pass nor fail is no evidence, nor is history that was backfilled."""
    if verdict in _LOGGED:
        connection.execute(
            """INSERT OR IGNORE INTO verdict_log (evaluation, verdict)
               SELECT n, ? FROM evaluations WHERE n = ? AND tick < ?""",
            (verdict, evaluation, BACKFILL_TICK),
        )


def read_log(connection: sqlite3.Connection, after: int, limit: int) -> list[LoggedVerdict]:
    """See `Store.verdict_log`."""
    rows = connection.execute(
        """SELECT l.seq, v.monitor, v.rubric, v.rubric_version, p.agent, coalesce(p.agent_version, ''),
                  coalesce(p.environment, ''), l.verdict = 'pass', v.inclusion_probability, i.id, t.trace_id, v.window_at,
                  v.judged_at, e.tick, i.conversation_id
           FROM verdict_log l JOIN verdicts v ON v.evaluation = l.evaluation JOIN evaluations e ON e.n = l.evaluation
           JOIN invocations i ON i.n = v.invocation JOIN traces t ON t.n = i.trace JOIN profiles p ON p.n = i.profile
           WHERE l.seq > ? ORDER BY l.seq LIMIT ?""",
        (after, limit),
    )
    weights: dict[tuple[str, float, str], dict[tuple[str, str], float]] = {}
    found = []
    for (seq, monitor, rubric, version, agent, agent_version, environment, passed, probability, invocation, trace, ended,
         judged, tick, conversation) in rows:  # fmt: skip
        key = (monitor, tick, version if _is_cut(connection, monitor, tick) else "")
        if key not in weights:
            weights[key] = _heaviest(connection, *key)
        heaviest = max(1.0 / probability, weights[key].get((agent, environment), 0.0))
        turn = 1 if conversation is None else _turn(connection, conversation, monitor, version, seq)
        found.append(
            LoggedVerdict(
                seq=seq,
                monitor=monitor,
                rubric=rubric,
                rubric_version=version,
                agent=agent,
                agent_version=agent_version,
                environment=environment,
                passed=bool(passed),
                inclusion_probability=probability,
                heaviest=heaviest,
                turn=turn,
                invocation_id=invocation,
                trace_id=trace,
                ended_at=ended,
                judged_at=judged,
            )
        )
    return found


def _is_cut(connection: sqlite3.Connection, monitor: str, tick: float) -> bool:
    """Whether a budget cut the run short for some of its rubrics, which then have weights of their own."""
    query = "SELECT 1 FROM given_up WHERE monitor = ? AND tick = ? LIMIT 1"
    return connection.execute(query, (monitor, tick)).fetchone() is not None


def _heaviest(connection: sqlite3.Connection, monitor: str, tick: float, version: str) -> dict[tuple[str, str], float]:
    """The largest weight that a run drew, by agent and environment; that of a rubric version's evaluations where one is given."""
    weight, of_rubric = "d.inclusion_probability", ""
    values: tuple[Any, ...] = (monitor, tick)
    if version:
        weight = "e.inclusion_probability"
        of_rubric = (
            "JOIN evaluations e ON e.invocation = d.invocation AND e.monitor = d.monitor AND e.rubric_version = ?"
        )
        values = (version, monitor, tick)
    rows = connection.execute(
        f"""SELECT p.agent, coalesce(p.environment, ''), max(1 / {weight}) FROM decisions d {of_rubric}
            JOIN profiles p ON p.n = d.profile WHERE d.monitor = ? AND d.tick = ? AND d.drawn = 1 GROUP BY 1, 2""",  # noqa: S608
        values,
    )
    return {(agent, environment): weight for agent, environment, weight in rows}


def _turn(connection: sqlite3.Connection, conversation: str, monitor: str, version: str, seq: int) -> int:
    """The how many-th logged verdict of its conversation."""
    count = connection.execute(
        """SELECT count(*) FROM invocations i JOIN evaluations e ON e.invocation = i.n
           JOIN verdict_log l ON l.evaluation = e.n
           WHERE i.conversation_id = ? AND e.monitor = ? AND e.rubric_version = ? AND l.seq <= ?""",
        (conversation, monitor, version, seq),
    ).fetchone()[0]
    return max(1, int(count))


def criterion_scores(
    connection: sqlite3.Connection, series: SeriesKey, rubric_version: str, since: float, until: float, limit: int
) -> list[CriterionScores]:
    """See `Store.criterion_scores`."""
    rows = connection.execute(
        """SELECT v.window_at, v.criteria FROM verdicts v JOIN invocations i ON i.n = v.invocation
           JOIN profiles p ON p.n = i.profile
           WHERE v.monitor = ? AND v.window_at >= ? AND v.window_at < ? AND v.rubric = ? AND v.rubric_version = ?
           AND v.counted = 1 AND v.verdict IN ('pass', 'fail') AND p.agent = ? AND coalesce(p.environment, '') = ?
           ORDER BY v.window_at DESC LIMIT ?""",
        (series.monitor, since, until, series.rubric, rubric_version, series.agent, series.environment, limit),
    )
    return [
        CriterionScores(
            ended_at,
            tuple(
                (name, score, weight)
                for name, score, applicable, weight, _ in json.loads(criteria)
                if applicable and score is not None
            ),
        )
        for ended_at, criteria in rows
    ]


def read_regression_state(connection: sqlite3.Connection) -> RegressionState:
    """See `Store.regression_state`."""
    kept = read_state(connection, _STATE) or {"cursor": 0, "monitors": {}}
    series = connection.execute("SELECT monitor, rubric, agent, environment, body FROM regression_series").fetchall()
    return RegressionState(
        kept["cursor"], kept["monitors"], {SeriesKey(*key): json.loads(body) for *key, body in series}
    )


def save_regression_state(
    connection: sqlite3.Connection, read_from: int, state: RegressionState, alarms: Mapping[str, Mapping[str, Any]]
) -> bool:
    """See `Store.save_regression_state`."""
    kept = read_state(connection, _STATE) or {"cursor": 0}
    if kept["cursor"] != read_from:
        return False
    write_state(connection, _STATE, {"cursor": state.cursor, "monitors": dict(state.monitors)})
    connection.executemany(
        "INSERT OR REPLACE INTO regression_series (monitor, rubric, agent, environment, body) VALUES (?, ?, ?, ?, ?)",
        ((*key, compact(body)) for key, body in state.series.items()),
    )
    connection.executemany(
        "INSERT OR REPLACE INTO regressions (id, opened_at, body) VALUES (?, ?, ?)",
        ((name, alarm["opened_at"], compact(dict(alarm))) for name, alarm in alarms.items()),
    )
    return True


def read_regressions(connection: sqlite3.Connection, limit: int) -> Sequence[Mapping[str, Any]]:
    """See `Store.regressions`."""
    rows = connection.execute("SELECT body FROM regressions ORDER BY opened_at DESC, id LIMIT ?", (limit,))
    return [json.loads(body) for (body,) in rows]
