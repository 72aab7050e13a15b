"""Figures for estimation: verdicts one by one, and sums over windows."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

from monitor.model.run import Judged
from monitor.model.totals import GroupEligible, GroupTotals, Totals, WindowFigures

_Group = tuple[str, str, str, str, str]
"""rubric, rubric version, agent, agent version, environment."""

_Labels = tuple[str, str, str]
"""agent, agent version, environment."""

_WEIGHTS = """
    SELECT v.rubric, v.rubric_version, p.agent, coalesce(p.agent_version, '') AS agent_version,
           coalesce(p.environment, '') AS environment, i.conversation_id, v.verdict = 'pass' AS passed,
           v.verdict = 'fail' AS failed, v.verdict = 'not_applicable' AS not_applicable, v.verdict = 'unjudgeable' AS unjudgeable,
           1 / v.inclusion_probability AS weight
    FROM verdicts v JOIN invocations i ON i.n = v.invocation JOIN profiles p ON p.n = i.profile
    WHERE v.monitor = ? AND v.window_at >= ? AND v.window_at < ? AND v.counted = 1
"""
_LONE_TOTALS = f"""
    SELECT rubric, rubric_version, agent, agent_version, environment, sum(passed), sum(failed), sum(not_applicable),
           sum(unjudgeable), total(passed * weight), total(failed * weight), total(unjudgeable * weight),
           total((passed + failed) * weight * weight), sum(passed + failed), max((passed + failed) * weight),
           total((passed + failed) * weight * weight), total(passed * weight * weight), total(passed * weight * weight),
           total(passed * weight * weight)
    FROM ({_WEIGHTS} AND i.conversation_id IS NULL) GROUP BY 1, 2, 3, 4, 5
"""  # noqa: S608
"""Sums over invocations that belong to no conversation, in the order of the fields of `Totals`."""

_CONVERSATION_TOTALS = f"""
    SELECT rubric, rubric_version, agent, agent_version, environment, sum(passed), sum(failed), sum(not_applicable),
           sum(unjudgeable), total(p), total(w - p), total(u), total(squared), sum(w > 0), max(w), total(w * w), total(w * p),
           total(p * p), total(passed_squared)
    FROM (SELECT rubric, rubric_version, agent, agent_version, environment, sum(passed) AS passed, sum(failed) AS failed,
                 sum(not_applicable) AS not_applicable, sum(unjudgeable) AS unjudgeable, total(passed * weight) AS p,
                 total((passed + failed) * weight) AS w, total(unjudgeable * weight) AS u,
                 total((passed + failed) * weight * weight) AS squared, total(passed * weight * weight) AS passed_squared
          FROM ({_WEIGHTS} AND i.conversation_id IS NOT NULL) GROUP BY 1, 2, 3, 4, 5, conversation_id)
    GROUP BY 1, 2, 3, 4, 5
"""  # noqa: S608
"""The same over conversations."""

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


def stratum_verdicts(
    connection: sqlite3.Connection, monitor: str, since: float, until: float
) -> dict[str, tuple[int, int]]:
    """See `Store.stratum_verdicts`."""
    rows = connection.execute(
        """SELECT d.stratum, sum(v.verdict = 'pass'), sum(v.verdict = 'fail') FROM verdicts v
           JOIN decisions d ON d.invocation = v.invocation AND d.monitor = v.monitor
           WHERE v.monitor = ? AND v.window_at >= ? AND v.window_at < ? AND v.counted = 1 GROUP BY 1""",
        (monitor, since, until),
    )
    return {stratum: (passed, failed) for stratum, passed, failed in rows if passed or failed}


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
    """See `Store.window_figures`. The windows overlap, so each band between two starts is summed once and added to all that contain it.

    Conversations are summed for each window as a whole: one that lies on both sides of a start is one there.
    """
    totals: list[dict[_Group, Totals]] = [{} for _ in since]
    eligible: list[dict[_Labels, float]] = [{} for _ in since]
    profiles = _profiles(connection, monitor)
    for start, end, windows in _bands(since, until):
        for group, part in _band_totals(connection, monitor, start, end):
            for window in windows:
                _add(totals[window], group, part)
        for labels, count in _band_eligible(connection, monitor, profiles, start, end):
            for window in windows:
                eligible[window][labels] = eligible[window].get(labels, 0.0) + count
    for start in sorted({start for start in since if start < until}):
        for group, part in _totals(connection, _CONVERSATION_TOTALS, monitor, start, until):
            for window in (window for window, begin in enumerate(since) if begin == start):
                _add(totals[window], group, part)
    return WindowFigures(
        tuple([GroupTotals(window, *group, part) for window, found in enumerate(totals) for group, part in sorted(found.items(), key=_first)]),
        tuple([
            GroupEligible(window, *labels, count) for window, found in enumerate(eligible) for labels, count in sorted(found.items(), key=_first)
        ]),
    )  # fmt: skip


def _add(totals: dict[_Group, Totals], group: _Group, part: Totals) -> None:
    known = totals.get(group)
    totals[group] = part if known is None else known + part


def _first(item: tuple[tuple[str, ...], object]) -> tuple[str, ...]:
    return item[0]


def _bands(since: Sequence[float], until: float) -> Iterator[tuple[float, float, list[int]]]:
    """(start, end, windows that contain it) between neighbouring starts."""
    edges = sorted({*(start for start in since if start < until), until})
    for start, end in pairwise(edges):
        yield start, end, [window for window, begin in enumerate(since) if begin <= start]


def _band_totals(
    connection: sqlite3.Connection, monitor: str, start: float, end: float
) -> Iterator[tuple[_Group, Totals]]:
    yield from _totals(connection, _LONE_TOTALS, monitor, start, end)
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


def _totals(
    connection: sqlite3.Connection, query: str, monitor: str, start: float, end: float
) -> Iterator[tuple[_Group, Totals]]:
    for row in connection.execute(query, (monitor, start, end)):
        yield _group(row[:5]), Totals(*row[5:])


def _group(values: Iterable[str]) -> _Group:
    rubric, version, agent, agent_version, environment = values
    return rubric, version, agent, agent_version, environment


def _band_eligible(
    connection: sqlite3.Connection, monitor: str, profiles: Mapping[int, _Labels], start: float, end: float
) -> Iterator[tuple[_Labels, float]]:
    """Eligible invocations by labels: a range of an index for each profile, which is far cheaper than to group rows."""
    for profile, labels in profiles.items():
        count = connection.execute(
            """SELECT total(eligible) FROM decisions
               WHERE monitor = ? AND profile = ? AND window_at >= ? AND window_at < ? AND eligible > 0""",
            (monitor, profile, start, end),
        ).fetchone()[0]
        if count:
            yield labels, count


def _profiles(connection: sqlite3.Connection, monitor: str) -> dict[int, _Labels]:
    """Profiles with anything eligible, a step through the index for each, with their labels."""
    rows = connection.execute(
        f"""WITH RECURSIVE steps (n) AS (
                SELECT min(profile) FROM decisions WHERE monitor = :monitor AND eligible > 0
                UNION ALL
                SELECT (SELECT min(profile) FROM decisions WHERE monitor = :monitor AND profile > steps.n AND eligible > 0)
                FROM steps WHERE steps.n IS NOT NULL
            )
            SELECT p.n, {_LABELS} FROM steps JOIN profiles p ON p.n = steps.n""",  # noqa: S608
        {"monitor": monitor},
    )
    return {profile: (agent, version, environment) for profile, agent, version, environment in rows}
