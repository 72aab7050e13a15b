"""Figures for estimation: verdicts one by one, and sums over windows."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from monitor.model.run import Judged
from monitor.model.totals import GroupEligible, GroupTotals, Totals, WindowFigures

_Group = tuple[str, str, str, str, str]
"""rubric, rubric version, agent, agent version, environment."""

_LABELS = "p.agent, coalesce(p.agent_version, ''), coalesce(p.environment, '')"


def judged(connection: sqlite3.Connection, monitor: str, since: float, until: float) -> list[Judged]:
    """See `Store.judged`."""
    rows = connection.execute(
        f"""SELECT v.rubric, v.rubric_version, {_LABELS}, v.verdict, v.inclusion_probability, v.window_at, i.conversation_id,
                   i.id, t.trace_id, v.score
            FROM verdicts v JOIN invocations i ON i.n = v.invocation JOIN traces t ON t.n = i.trace
            JOIN profiles p ON p.n = i.profile
            WHERE v.monitor = ? AND v.window_at >= ? AND v.window_at < ? AND v.counted = 1 ORDER BY v.window_at, v.evaluation""",  # noqa: S608
        (monitor, since, until),
    )
    return [Judged(*row) for row in rows]


def unscored(connection: sqlite3.Connection, monitor: str, since: float, until: float) -> list[Judged]:
    """See `Store.unscored`."""
    rows = connection.execute(
        f"""SELECT e.rubric, e.rubric_version, {_LABELS}, e.state, e.inclusion_probability, i.window_at, i.conversation_id,
                   i.id, t.trace_id
            FROM evaluations e JOIN invocations i ON i.n = e.invocation JOIN traces t ON t.n = i.trace
            JOIN profiles p ON p.n = i.profile LEFT JOIN verdicts v ON v.evaluation = e.n
            WHERE e.monitor = ? AND e.state <> 'done' AND v.evaluation IS NULL AND i.merged_into IS NULL
            AND i.window_at >= ? AND i.window_at < ? ORDER BY i.window_at, e.n""",  # noqa: S608
        (monitor, since, until),
    )
    return [Judged(*row) for row in rows]


def window_figures(connection: sqlite3.Connection, monitor: str, since: Sequence[float], until: float) -> WindowFigures:
    """See `Store.window_figures`. The windows overlap, so each band between two starts is summed once and added to all that contain it."""
    totals: dict[tuple[int, _Group], Totals] = {}
    eligible: dict[tuple[int, tuple[str, str, str]], float] = {}
    for start, end, windows in _bands(since, until):
        for group, part in _band_totals(connection, monitor, start, end):
            for window in windows:
                totals[window, group] = totals.get((window, group), Totals()) + part
        for labels, count in _band_eligible(connection, monitor, start, end):
            for window in windows:
                eligible[window, labels] = eligible.get((window, labels), 0.0) + count
    return WindowFigures(
        tuple(GroupTotals(window, *group, part) for (window, group), part in sorted(totals.items(), key=_first)),
        tuple(
            GroupEligible(window, *labels, count) for (window, labels), count in sorted(eligible.items(), key=_first)
        ),
    )


def _first(item: tuple[tuple[int, tuple[str, ...]], object]) -> tuple[int, tuple[str, ...]]:
    return item[0]


def _bands(since: Sequence[float], until: float) -> Iterator[tuple[float, float, list[int]]]:
    """(start, end, windows that contain it) between neighbouring starts."""
    edges = sorted({*(start for start in since if start < until), until})
    for start, end in pairwise(edges):
        yield start, end, [window for window, begin in enumerate(since) if begin <= start]


def _band_totals(
    connection: sqlite3.Connection, monitor: str, start: float, end: float
) -> Iterator[tuple[_Group, Totals]]:
    scored = connection.execute(
        f"""SELECT v.rubric, v.rubric_version, {_LABELS},
                   sum(v.verdict = 'pass'), sum(v.verdict = 'fail'), sum(v.verdict = 'not_applicable'),
                   sum(v.verdict = 'unjudgeable'), total(iif(v.verdict = 'pass', 1 / v.inclusion_probability, 0)),
                   total(iif(v.verdict = 'fail', 1 / v.inclusion_probability, 0)),
                   total(iif(v.verdict = 'unjudgeable', 1 / v.inclusion_probability, 0)),
                   total(iif(v.verdict IN ('pass', 'fail'), 1 / (v.inclusion_probability * v.inclusion_probability), 0))
            FROM verdicts v JOIN invocations i ON i.n = v.invocation JOIN profiles p ON p.n = i.profile
            WHERE v.monitor = ? AND v.window_at >= ? AND v.window_at < ? AND v.counted = 1 GROUP BY 1, 2, 3, 4, 5""",  # noqa: S608
        (monitor, start, end),
    )
    for *group, passed, failed, not_applicable, unjudgeable, p_weight, f_weight, u_weight, squared in scored:
        totals = Totals(passed, failed, not_applicable, unjudgeable, p_weight, f_weight, u_weight, squared)
        yield _group(group), totals
    errors = connection.execute(
        f"""SELECT e.rubric, e.rubric_version, {_LABELS}, count(*), total(1 / e.inclusion_probability)
            FROM evaluations e JOIN invocations i ON i.n = e.invocation JOIN profiles p ON p.n = i.profile
            LEFT JOIN verdicts v ON v.evaluation = e.n
            WHERE e.monitor = ? AND e.state <> 'done' AND e.state = 'error' AND v.evaluation IS NULL AND i.merged_into IS NULL
            AND i.window_at >= ? AND i.window_at < ? GROUP BY 1, 2, 3, 4, 5""",  # noqa: S608
        (monitor, start, end),
    )
    for *group, count, weight in errors:
        yield _group(group), Totals(unscored=count, unscored_weight=weight)


def _group(values: Iterable[str]) -> _Group:
    rubric, version, agent, agent_version, environment = values
    return rubric, version, agent, agent_version, environment


def _band_eligible(
    connection: sqlite3.Connection, monitor: str, start: float, end: float
) -> Iterator[tuple[tuple[str, str, str], float]]:
    """Eligible invocations by labels: a range of an index for each profile, which is far cheaper than to group rows."""
    for profile in _profiles(connection, monitor):
        count = connection.execute(
            """SELECT total(eligible) FROM decisions
               WHERE monitor = ? AND profile = ? AND window_at >= ? AND window_at < ? AND eligible > 0""",
            (monitor, profile, start, end),
        ).fetchone()[0]
        if count:
            agent, agent_version, environment = connection.execute(
                f"SELECT {_LABELS} FROM profiles p WHERE n = ?",  # noqa: S608
                (profile,),
            ).fetchone()
            yield (agent, agent_version, environment), count


def _profiles(connection: sqlite3.Connection, monitor: str) -> Iterator[int]:
    query = "SELECT min(profile) FROM decisions WHERE monitor = ? AND profile > ? AND eligible > 0"
    profile = connection.execute(query, (monitor, 0)).fetchone()[0]
    while profile is not None:
        yield profile
        profile = connection.execute(query, (monitor, profile)).fetchone()[0]
