"""Runs: who is considered, what was decided, and the evaluations that come of it."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from monitor.model.run import AssembleLater, Candidate, Decision, Level, Run, RunPlan, RunRequest, Stratum
from monitor.model.tallies import TallyName
from monitor.model.verdict import NotSelected, Outcome
from monitor.store.sqlite.heads import CANDIDATE, read_candidate, with_tools
from monitor.store.sqlite.tallies import Counting, set_tally
from monitor.store.sqlite.turns import release_turns
from monitor.store.sqlite.values import compact, text
from monitor.store.sqlite.waiting import take

DONE, FAILED, MISSED = "done", "failed", "missed"
_NOT_ELIGIBLE = frozenset({NotSelected.FILTERED, NotSelected.INCOMPLETE})
_COLUMNS = "monitor, tick, started_at, finished_at, outcome, considered, drawn, evaluations, carry, error, strata"
_HIGHEST = 1e300
"""Above every tick."""


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A candidate with what ties it to its rows."""

    row: int
    profile: int
    candidate: Candidate


def read_run(row: Sequence[Any]) -> Run:
    """A run from a row of its columns."""
    strata = json.loads(row[-1]) if row[-1] else ()
    return replace(Run(*row[:-1]), strata=tuple(Stratum(**stratum) for stratum in strata))


def last_run(connection: sqlite3.Connection, monitor: str, *, completed: bool, before: float = _HIGHEST) -> Run | None:
    """See `Store.last_run`; only runs of ticks before a time."""
    row = connection.execute(
        f"""SELECT {_COLUMNS} FROM runs WHERE monitor = ? AND tick < ? AND (outcome <> 'failed' OR NOT ?)
            ORDER BY tick DESC LIMIT 1""",  # noqa: S608
        (monitor, before, completed),
    ).fetchone()
    return None if row is None else read_run(row)


def execute(
    connection: sqlite3.Connection,
    request: RunRequest,
    decide: Callable[[Sequence[Candidate], float], RunPlan],
    assemble: AssembleLater,
) -> Run | None:
    """See `Store.execute_run`. Raises ValueError for a decision about somebody who was no candidate."""
    if _was_run(connection, request):
        return None
    waiting = {found.candidate.invocation_id: found for found in _candidates(connection, request)}
    if request.by_tools:
        waiting = {
            key: replace(one, candidate=with_tools(connection, one.row, one.candidate, assemble))
            for key, one in waiting.items()
        }
    plan = decide([found.candidate for found in waiting.values()], _carry(connection, request))
    strangers = [decision for decision in plan.decisions if decision.invocation_id not in waiting]
    if strangers:
        raise ValueError(
            f"monitor {request.monitor}: {len(strangers)} decisions about invocations that are no candidates"
        )
    _consider(connection, request, plan.decisions, waiting)
    drawn = [(decision, waiting[decision.invocation_id]) for decision in plan.decisions if decision.drawn]
    evaluations = _start_evaluations(connection, request, drawn)
    finished = request.started_at if plan.decided_at is None else plan.decided_at
    run = Run(
        monitor=request.monitor,
        tick=request.tick,
        started_at=request.started_at,
        finished_at=finished,
        outcome=DONE,
        considered=len(plan.decisions),
        drawn=len(drawn),
        evaluations=evaluations,
        carry=plan.carry,
        strata=plan.strata,
    )
    _record(connection, run)
    counting = _count_decisions(request, plan.decisions)
    _expect_verdicts(counting, request, drawn)
    counting.add(TallyName.RUNS, {"monitor": request.monitor, "outcome": DONE}, finished)
    counting.write(connection)
    set_tally(connection, TallyName.RUN_LAST_SUCCESS, {"monitor": request.monitor}, finished, finished)
    return run


def miss(connection: sqlite3.Connection, request: RunRequest) -> Run | None:
    """See `Store.miss_run`. The numbers of what was missed were never looked at, so they are 0."""
    if _was_run(connection, request):
        return None
    waiting = {found.candidate.invocation_id: found for found in _candidates(connection, request)}
    decisions = [Decision(invocation_id, False, NotSelected.MISSED, 0.0, 0.0) for invocation_id in waiting]
    _consider(connection, request, decisions, waiting)
    run = Run(
        monitor=request.monitor,
        tick=request.tick,
        started_at=request.started_at,
        finished_at=request.started_at,
        outcome=MISSED,
        considered=len(decisions),
        carry=_carry(connection, request),
    )
    _record(connection, run)
    counting = _count_decisions(request, decisions)
    counting.add(TallyName.RUNS, {"monitor": request.monitor, "outcome": MISSED}, request.started_at)
    counting.write(connection)
    return run


def fail(connection: sqlite3.Connection, request: RunRequest, error: str) -> None:
    """See `Store.fail_run`. A tick that was run after all stays run."""
    if _was_run(connection, request):
        return
    run = Run(
        request.monitor,
        request.tick,
        request.started_at,
        None,
        FAILED,
        carry=_carry(connection, request),
        error=text(error),
    )
    _record(connection, run)
    counting = Counting()
    _expect_run_tallies(counting, request)
    counting.add(TallyName.RUNS, {"monitor": request.monitor, "outcome": FAILED}, request.started_at)
    counting.write(connection)


def _was_run(connection: sqlite3.Connection, request: RunRequest) -> bool:
    found = connection.execute(
        "SELECT outcome FROM runs WHERE monitor = ? AND tick = ?", (request.monitor, request.tick)
    ).fetchone()
    return found is not None and found[0] != FAILED


def _carry(connection: sqlite3.Connection, request: RunRequest) -> float:
    previous = last_run(connection, request.monitor, completed=True, before=request.tick)
    return 0.0 if previous is None else previous.carry


def _candidates(connection: sqlite3.Connection, request: RunRequest) -> Iterable[_Waiting]:
    rows = connection.execute(
        f"""SELECT {CANDIDATE}, i.profile FROM waiting w JOIN invocations i ON i.n = w.invocation
            JOIN traces t ON t.n = i.trace JOIN profiles p ON p.n = i.profile
            WHERE w.monitor = ? AND w.settled_at < ? ORDER BY w.settled_at, i.id""",  # noqa: S608
        (request.monitor, request.settled_before),
    )
    strangers: list[tuple[float, int]] = []
    for *row, profile in rows.fetchall():
        candidate = read_candidate(row)
        if (candidate.turns > 0) is (request.level is Level.CONVERSATION):
            yield _Waiting(row[0], profile, candidate)
        else:
            strangers.append((candidate.settled_at, row[0]))
    _pass_over(connection, request.monitor, strangers)


def _pass_over(connection: sqlite3.Connection, monitor: str, waiting: Sequence[tuple[float, int]]) -> None:
    """Let go what waits for a monitor from before its level was changed while nothing ran."""
    take(connection, monitor, waiting)
    rows = [(row,) for _, row in waiting]
    connection.executemany("UPDATE invocations SET unconsidered = unconsidered - 1 WHERE n = ?", rows)
    release_turns(connection, (row for (row,) in rows))


def _consider(
    connection: sqlite3.Connection, request: RunRequest, decisions: Sequence[Decision], waiting: Mapping[str, _Waiting]
) -> None:
    """Mark who was decided about as considered by this monitor, and keep what was decided."""
    decided = [(decision, waiting[decision.invocation_id]) for decision in decisions]
    take(connection, request.monitor, ((found.candidate.settled_at, found.row) for _, found in decided))
    connection.executemany(
        "UPDATE invocations SET unconsidered = unconsidered - 1, drawn = drawn + ? WHERE n = ?",
        ((int(decision.drawn), found.row) for decision, found in decided),
    )
    if request.level is Level.CONVERSATION:
        release_turns(connection, (found.row for _, found in decided))
    connection.executemany(
        """INSERT OR REPLACE INTO decisions (invocation, monitor, tick, drawn, reason, number, inclusion_probability,
           stratum, detail, eligible, profile, window_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)""",
        (_decision_values(request, decision, found) for decision, found in decided),
    )


def _decision_values(request: RunRequest, decision: Decision, found: _Waiting) -> tuple[Any, ...]:
    reason = None if decision.reason is None else decision.reason.value
    eligible = 0.0 if decision.reason in _NOT_ELIGIBLE else 1.0 / found.candidate.kept_below
    return (
        found.row, request.monitor, request.tick, int(decision.drawn), reason, decision.number,
        decision.inclusion_probability, text(decision.stratum), text(decision.detail), eligible, found.profile,
        found.candidate.ended_at,
    )  # fmt: skip


def _start_evaluations(
    connection: sqlite3.Connection, request: RunRequest, drawn: Sequence[tuple[Decision, _Waiting]]
) -> int:
    before = connection.total_changes
    connection.executemany(
        """INSERT OR IGNORE INTO evaluations (invocation, monitor, rubric, rubric_version, judge, shadow, tick, number,
           inclusion_probability, revision, state, attempts, available_at, claimed, created_at)
           VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'pending', 0, 0, 0, ?)""",
        (
            (found.row, request.monitor, rubric.rubric, rubric.version, rubric.judge or "", int(rubric.shadow), request.tick,
             decision.number, decision.inclusion_probability, found.candidate.revision, request.started_at)
            for decision, found in drawn
            for rubric in request.rubrics
        ),
    )  # fmt: skip
    return connection.total_changes - before


def _record(connection: sqlite3.Connection, run: Run) -> None:
    connection.execute(
        f"INSERT OR REPLACE INTO runs ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",  # noqa: S608
        (run.monitor, run.tick, run.started_at, run.finished_at, run.outcome, run.considered, run.drawn, run.evaluations,
         run.carry, run.error, compact([asdict(stratum) for stratum in run.strata]) if run.strata else None),
    )  # fmt: skip


def _expect_run_tallies(counting: Counting, request: RunRequest) -> None:
    """All outcomes and reasons of a monitor appear at 0, so that the first of each is seen by `increase`."""
    monitor, now = {"monitor": request.monitor}, request.started_at
    for outcome in (DONE, FAILED, MISSED):
        counting.expect(TallyName.RUNS, {**monitor, "outcome": outcome}, now)
    counting.expect(TallyName.SELECTED, monitor, now)
    for reason in NotSelected:
        counting.expect(TallyName.NOT_SELECTED, {**monitor, "reason": reason.value}, now)


def _count_decisions(request: RunRequest, decisions: Sequence[Decision]) -> Counting:
    counting = Counting()
    _expect_run_tallies(counting, request)
    reasons = Counter(None if decision.drawn else decision.reason for decision in decisions)
    for reason, count in reasons.items():
        labels = {"monitor": request.monitor}
        if reason is None:
            counting.add(TallyName.SELECTED, labels, request.started_at, amount=count)
        else:
            counting.add(TallyName.NOT_SELECTED, {**labels, "reason": reason.value}, request.started_at, amount=count)
    return counting


def _expect_verdicts(counting: Counting, request: RunRequest, drawn: Sequence[tuple[Decision, _Waiting]]) -> None:
    """The label sets of what was drawn appear at 0 for every verdict; those that are there are told to be alive."""
    labels = {
        (c.agent_name or c.service or "unknown", c.agent_version or "", c.environment or "")
        for c in (found.candidate for _, found in drawn)
    }
    for agent, agent_version, environment in sorted(labels):
        for rubric in request.rubrics:
            whole = {
                "monitor": request.monitor,
                "rubric": rubric.rubric,
                "rubric_version": rubric.version,
                "agent": agent,
                "agent_version": agent_version,
                "environment": environment,
            }
            for outcome in Outcome:
                counting.add(TallyName.VERDICTS, {**whole, "verdict": outcome.value}, request.started_at, amount=0.0)
