"""The queue of evaluations: claims, leases, and what is waiting."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from monitor.model.invocation import Invocation
from monitor.model.run import MAX_CRASHES, AssembleLater, Evaluation, InvocationChange, PendingCount, RubricRef
from monitor.store.sqlite.conversations import read_whole_or_bare
from monitor.store.sqlite.heads import FROM_HEAD, HEAD

_FREE = "state = 'pending' AND available_at = 0"
_SUSPECT_CRASHES = 2
_Place = tuple[float, float, int]
"""(tick, u, row): the order within a monitor."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A claimed row, before its invocation is read."""

    row: int
    invocation: int
    monitor: str
    rubric: RubricRef
    inclusion_probability: float
    number: float
    revision: int
    attempts: int
    created_at: float
    crashes: int


@dataclass(frozen=True, slots=True)
class Paused:
    """Whose evaluations are not taken up: of these judges, and of these monitors where they need a judge."""

    judges: Collection[str] = ()
    monitors: Collection[str] = ()


def claim(
    connection: sqlite3.Connection, limit: int, now: float, lease_seconds: float, paused: Paused, turn: int
) -> list[Claim]:
    """Take free evaluations; see `Store.claim_evaluations`. `turn` says which monitor is first: a different one each time."""
    _free_expired(connection, now)
    queues = _queues(connection, limit, paused)
    rows = _suspect_alone(connection, _round_robin(queues, limit, turn))
    connection.executemany(
        "UPDATE evaluations SET claimed = 1, available_at = ? WHERE n = ?", ((now + lease_seconds, row) for row in rows)
    )
    return [_claimed(connection, row) for row in rows]


def _free_expired(connection: sqlite3.Connection, now: float) -> None:
    """What was put off until now, or claimed by somebody who did not come back, is free again; the latter was an attempt."""
    connection.execute(
        """UPDATE evaluations SET available_at = 0, attempts = attempts + claimed, claimed = 0
           WHERE state = 'pending' AND available_at > 0 AND available_at <= ?""",
        (now,),
    )


def _queues(connection: sqlite3.Connection, limit: int, paused: Paused) -> dict[str, list[_Place]]:
    """The first `limit` free evaluations of each monitor, whatever their judge, in order."""
    queues: dict[str, list[_Place]] = {}
    for judge, monitor in _pairs(connection):
        if judge and (judge in paused.judges or monitor in paused.monitors):
            continue
        found = connection.execute(
            f"SELECT tick, number, n FROM evaluations WHERE {_FREE} AND judge = ? AND monitor = ? "  # noqa: S608
            "ORDER BY tick, number, n LIMIT ?",
            (judge, monitor, limit),
        )
        queues.setdefault(monitor, []).extend(found)
    return {monitor: sorted(queue)[:limit] for monitor, queue in sorted(queues.items())}


def _pairs(connection: sqlite3.Connection) -> Iterable[tuple[str, str]]:
    """The pairs of judge and monitor with free evaluations, a step through the index for each."""
    query = (
        f"SELECT judge, monitor FROM evaluations WHERE {_FREE} AND (judge, monitor) > (?, ?) "  # noqa: S608
        "ORDER BY judge, monitor LIMIT 1"
    )
    found = connection.execute(query, ("", "")).fetchone()
    while found is not None:
        yield found
        found = connection.execute(query, found).fetchone()


def _round_robin(queues: dict[str, list[_Place]], limit: int, turn: int) -> list[int]:
    """One of each monitor in turn, until there are enough."""
    names = list(queues)
    names = names[turn % len(names) :] + names[: turn % len(names)] if names else []
    rows: list[int] = []
    for depth in range(limit):
        level = [queues[name][depth][2] for name in names if depth < len(queues[name])]
        rows += level[: limit - len(rows)]
        if not level or len(rows) == limit:
            break
    return rows


def _suspect_alone(connection: sqlite3.Connection, rows: list[int]) -> list[int]:
    """All rows, or one alone that was claimed when the process ended more than once: if it is the cause, no others count as suspects with it."""
    for row in rows:
        crashes = connection.execute("SELECT crashes FROM evaluations WHERE n = ?", (row,)).fetchone()[0]
        if _SUSPECT_CRASHES <= crashes < MAX_CRASHES:
            return [row]
    return rows


def _claimed(connection: sqlite3.Connection, row: int) -> Claim:
    (invocation, monitor, rubric, version, judge, shadow, probability, number, revision, attempts, created, crashes) = connection.execute(
        """SELECT invocation, monitor, rubric, rubric_version, judge, shadow, inclusion_probability, number, revision,
           attempts, created_at, crashes FROM evaluations WHERE n = ?""",
        (row,),
    ).fetchone()  # fmt: skip
    ref = RubricRef(rubric, version, judge or None, bool(shadow))
    return Claim(row, invocation, monitor, ref, probability, number, revision, attempts, created, crashes)


def read_claims(
    connection: sqlite3.Connection, claims: Sequence[Claim], assemble: AssembleLater
) -> tuple[list[Evaluation], list[tuple[int, InvocationChange]]]:
    """The claims with their invocations; those of one invocation share it. What was deleted meanwhile is left out. And what was assembled for
    that, by row: it is worth keeping, because it may be asked for again, and its figures outlive its content.

    One that cannot be read is given without content and marked, so that it fails instead of stopping all later claims.
    """
    invocations: dict[int, tuple[Invocation, bool] | None] = {}
    assembled: list[tuple[int, InvocationChange]] = []
    evaluations = []
    for found in claims:
        if found.invocation not in invocations:
            row = connection.execute(f"SELECT {HEAD} {FROM_HEAD} WHERE i.n = ?", (found.invocation,)).fetchone()
            invocations[found.invocation] = None
            if row is not None:
                invocation, late, unreadable = read_whole_or_bare(connection, row, assemble)
                invocations[found.invocation] = invocation, unreadable
                assembled += late
        read = invocations[found.invocation]
        if read is not None:
            evaluations.append(_evaluation(found, *read))
    return evaluations, assembled


def _evaluation(found: Claim, invocation: Invocation, unreadable: bool) -> Evaluation:
    return Evaluation(
        id=found.row,
        monitor=found.monitor,
        rubric=found.rubric,
        invocation=invocation,
        inclusion_probability=found.inclusion_probability,
        number=found.number,
        revision=found.revision,
        attempts=found.attempts,
        created_at=found.created_at,
        unreadable=unreadable,
        crashes=found.crashes,
    )


_MINE = "n = ? AND state = 'pending' AND claimed = 1 AND attempts = ? AND revision = ?"
"""The claim is still held: a lost lease has one attempt more, a revised invocation another revision."""


def postpone(connection: sqlite3.Connection, evaluation: Evaluation, until: float) -> None:
    """See `Store.postpone_evaluation`."""
    connection.execute(
        f"UPDATE evaluations SET claimed = 0, available_at = max(0, ?), attempts = attempts + 1 WHERE {_MINE}",  # noqa: S608
        (until, evaluation.id, evaluation.attempts, evaluation.revision),
    )


def release(connection: sqlite3.Connection, evaluations: Iterable[Evaluation]) -> None:
    """See `Store.release_evaluations`."""
    connection.executemany(
        f"UPDATE evaluations SET claimed = 0, available_at = 0 WHERE {_MINE}",  # noqa: S608
        ((evaluation.id, evaluation.attempts, evaluation.revision) for evaluation in evaluations),
    )


def release_all(connection: sqlite3.Connection) -> int:
    """See `Store.release_all_claims`."""
    return connection.execute(
        """UPDATE evaluations SET claimed = 0, available_at = 0, attempts = attempts + 1, crashes = crashes + 1
           WHERE state = 'pending' AND claimed = 1"""
    ).rowcount


def pending(connection: sqlite3.Connection) -> list[PendingCount]:
    """See `Store.pending`."""
    rows = connection.execute(
        """SELECT monitor, count(*), min(created_at) FROM evaluations
           WHERE state <> 'done' AND state = 'pending' GROUP BY monitor ORDER BY monitor"""
    )
    return [PendingCount(*row) for row in rows]
