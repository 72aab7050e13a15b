"""Backfills: invocations of the past that a monitor has not considered, or that lack one of its rubric versions."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from monitor.model.backfill import BackfillPage, BackfillUse, Position
from monitor.model.run import AssembleLater, Candidate, Decision, Level, RunPlan, RunRequest
from monitor.model.verdict import NotSelected
from monitor.store.sqlite.heads import CANDIDATE, read_candidate, with_tools
from monitor.store.sqlite.runs import _count_decisions, _decision_values, _expect_verdicts, _start_evaluations, _Waiting

Decide = Callable[[Sequence[Candidate]], RunPlan]
_NANOS = 10**9
_LOWEST: Position = (-(2**63), -1)


@dataclass(frozen=True, slots=True)
class _Found:
    """An invocation of the past with what the monitor decided about it earlier."""

    waiting: _Waiting
    end: Position
    decision: Decision | None
    has_content: bool

    @property
    def is_fresh(self) -> bool:
        """Nobody has looked at it: never considered, or its tick was missed."""
        return self.decision is None or self.decision.reason is NotSelected.MISSED


def look(
    connection: sqlite3.Connection, request: RunRequest, span: tuple[float, float], after: Position | None, limit: int,
    decide: Decide, assemble: AssembleLater,
) -> BackfillPage:  # fmt: skip
    """What a step would do, without doing it."""
    found = list(_found(connection, request, span, after, limit, assemble))
    _, plan, lacking = _sorted(connection, request, found, decide)
    drawn = sum(decision.drawn for decision in plan.decisions)
    return BackfillPage(
        looked_at=len(found),
        fresh=sum(decision.reason not in (NotSelected.FILTERED, NotSelected.INCOMPLETE) for decision in plan.decisions),
        drawn=drawn + len(lacking),
        evaluations=drawn * len(request.rubrics) + sum(missing for _, missing in lacking),
        without_content=sum(not one.has_content for one in found),
        position=found[-1].end if len(found) == limit else None,
    )


def step(
    connection: sqlite3.Connection, request: RunRequest, span: tuple[float, float], after: Position | None, limit: int,
    decide: Decide, assemble: AssembleLater,
) -> BackfillPage:  # fmt: skip
    """Draw among the next invocations and leave their pending evaluations; see `Store.backfill_step`."""
    page = look(connection, request, span, after, limit, decide, assemble)
    found = list(_found(connection, request, span, after, limit, assemble))
    fresh, plan, lacking = _sorted(connection, request, found, decide)
    decided = [(decision, fresh[decision.invocation_id]) for decision in plan.decisions]
    connection.executemany(
        "UPDATE invocations SET drawn = drawn + ? WHERE n = ?", ((int(d.drawn), one.row) for d, one in decided)
    )
    connection.executemany(
        """INSERT OR REPLACE INTO decisions (invocation, monitor, tick, drawn, reason, number, inclusion_probability,
           stratum, detail, eligible, profile, window_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)""",
        (
            _decision_values(request, replace(decision, detail=decision.detail or "backfill"), one)
            for decision, one in decided
        ),
    )
    before = _last_row(connection)
    drawn = [(decision, one) for decision, one in decided if decision.drawn]
    drawn += [(one.decision, one.waiting) for one, _ in lacking if one.decision is not None]
    evaluations = _start_evaluations(connection, request, drawn) - _drop_given_up(connection, request, before)
    counting = _count_decisions(request, plan.decisions)
    _expect_verdicts(counting, request, drawn)
    counting.write(connection)
    return replace(page, evaluations=evaluations, first_row=before + 1, last_row=_last_row(connection))


def _drop_given_up(connection: sqlite3.Connection, request: RunRequest, after: int) -> int:
    """Take back what a budget had cut out of its run: its probability is that of the smaller draw."""
    return connection.execute(
        """DELETE FROM evaluations WHERE n > ? AND monitor = ? AND EXISTS (
               SELECT 1 FROM given_up g WHERE g.invocation = evaluations.invocation AND g.monitor = evaluations.monitor
               AND g.rubric_version = evaluations.rubric_version)""",
        (after, request.monitor),
    ).rowcount


def again(connection: sqlite3.Connection, request: RunRequest, span: tuple[float, float]) -> int:
    """Let failed evaluations of invocations that ended in [since, until) be judged once more; how many."""
    since, until = span
    return connection.execute(
        """UPDATE evaluations SET state = 'pending', attempts = 0, crashes = 0, available_at = 0, claimed = 0, tick = ?, created_at = ?
           WHERE monitor = ? AND state = 'error' AND invocation IN (
               SELECT n FROM invocations WHERE ended_at >= ? AND ended_at < ? AND has_content = 1)""",
        (request.tick, request.started_at, request.monitor, int(since * _NANOS), int(until * _NANOS)),
    ).rowcount


def failed(connection: sqlite3.Connection, monitor: str, span: tuple[float, float]) -> int:
    """How many failed evaluations `again` would take up."""
    since, until = span
    found = connection.execute(
        """SELECT count(*) FROM evaluations WHERE monitor = ? AND state = 'error' AND invocation IN (
               SELECT n FROM invocations WHERE ended_at >= ? AND ended_at < ? AND has_content = 1)""",
        (monitor, int(since * _NANOS), int(until * _NANOS)),
    ).fetchone()
    return int(found[0])


def use(connection: sqlite3.Connection, monitor: str, tick: float, rows: tuple[int, int]) -> BackfillUse:
    """What the evaluations of a backfill among those rows came to; while any is pending only how many, which an index knows."""
    (pending,) = connection.execute(
        "SELECT count(*) FROM evaluations WHERE state <> 'done' AND monitor = ? AND state = 'pending' AND tick = ?",
        (monitor, tick),
    ).fetchone()
    if pending:
        return BackfillUse(pending)
    states = dict(
        connection.execute(
            "SELECT state, count(*) FROM evaluations WHERE n BETWEEN ? AND ? AND tick = ? GROUP BY state", (*rows, tick)
        ).fetchall()
    )
    tokens, usd = connection.execute(
        """SELECT coalesce(sum(v.input_tokens + v.output_tokens), 0), coalesce(sum(v.cost_usd), 0) FROM verdicts v
           JOIN evaluations e ON e.n = v.evaluation WHERE e.n BETWEEN ? AND ? AND e.tick = ?""",
        (*rows, tick),
    ).fetchone()
    return BackfillUse(0, states.get("done", 0), states.get("error", 0), int(tokens), float(usd))


def mean_tokens(connection: sqlite3.Connection, version: str) -> tuple[float, float | None] | None:
    """(tokens, USD) of one verdict of a rubric version on average over its newest ones, or None where there are none."""
    found = connection.execute(
        """SELECT avg(input_tokens + output_tokens), avg(cost_usd), count(*) FROM (
               SELECT input_tokens, output_tokens, cost_usd FROM verdicts WHERE rubric_version = ? AND requests > 0
               ORDER BY evaluation DESC LIMIT 200)""",
        (version,),
    ).fetchone()
    return None if not found[2] else (float(found[0]), None if found[1] is None else float(found[1]))


def _last_row(connection: sqlite3.Connection) -> int:
    found = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'evaluations'").fetchone()
    return 0 if found is None else int(found[0])


def _found(
    connection: sqlite3.Connection, request: RunRequest, span: tuple[float, float], after: Position | None, limit: int,
    assemble: AssembleLater,
) -> Iterable[_Found]:  # fmt: skip
    (since, until), monitor = span, request.monitor
    level = request.level is Level.CONVERSATION
    rows = connection.execute(
        f"""SELECT {CANDIDATE}, i.profile, i.ended_at, i.has_content, d.drawn, d.reason, d.number, d.inclusion_probability,
                   d.stratum, d.detail
            FROM invocations i JOIN traces t ON t.n = i.trace JOIN profiles p ON p.n = i.profile
            LEFT JOIN decisions d ON d.invocation = i.n AND d.monitor = ?
            WHERE i.ended_at >= ? AND i.ended_at < ? AND (i.ended_at, i.n) > (?, ?) AND i.merged_into IS NULL
              AND (i.turns IS NOT NULL) = ?
              AND NOT EXISTS (SELECT 1 FROM waiting w WHERE w.monitor = ? AND w.settled_at = i.settled_at AND w.invocation = i.n)
            ORDER BY i.ended_at, i.n LIMIT ?""",  # noqa: S608
        (monitor, int(since * _NANOS), int(until * _NANOS), *(after or _LOWEST), level, monitor, limit),
    )
    for *head, profile, ended_at, has_content, drawn, reason, number, probability, stratum, detail in rows:
        candidate = read_candidate(head)
        if request.by_tools:
            candidate = with_tools(connection, head[0], candidate, assemble)
        earlier = None
        if drawn is not None:
            why = None if reason is None else NotSelected(reason)
            earlier = Decision(candidate.invocation_id, bool(drawn), why, number, probability, stratum, detail)
        yield _Found(_Waiting(head[0], profile, candidate), (ended_at, head[0]), earlier, bool(has_content))


def _sorted(
    connection: sqlite3.Connection, request: RunRequest, found: Sequence[_Found], decide: Decide
) -> tuple[dict[str, _Waiting], RunPlan, list[tuple[_Found, int]]]:
    """Those to be drawn from, the draw, and those drawn earlier with how many of the rubric versions they lack."""
    usable = [one for one in found if one.has_content]
    fresh = {one.waiting.candidate.invocation_id: one.waiting for one in usable if one.is_fresh}
    plan = decide([one.candidate for one in fresh.values()])
    lacking = []
    for one in usable:
        if one.decision is not None and one.decision.drawn:
            missing = _missing(connection, one.waiting.row, request)
            if missing:
                lacking.append((one, missing))
    return fresh, plan, lacking


def _missing(connection: sqlite3.Connection, row: int, request: RunRequest) -> int:
    there = {
        version
        for (version,) in connection.execute(
            """SELECT rubric_version FROM evaluations WHERE invocation = ?1 AND monitor = ?2
               UNION SELECT rubric_version FROM given_up WHERE invocation = ?1 AND monitor = ?2""",
            (row, request.monitor),
        )
    }
    return sum(rubric.version not in there for rubric in request.rubrics)
