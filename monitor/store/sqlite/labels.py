"""Labels, their draws, and repeated judgements."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import astuple

from monitor.model.labels import Against, HumanLabel, JudgeCheck, Label, LabelDraw, Labelled
from monitor.store.sqlite.finding import row_of
from monitor.store.sqlite.values import text


def save_draws(connection: sqlite3.Connection, draws: Sequence[LabelDraw]) -> None:
    """See `Store.save_label_draws`."""
    connection.executemany(
        """INSERT OR IGNORE INTO label_draws (draw_id, invocation_id, monitor, rubric, rubric_version, verdict, probability,
           inclusion_probability, created_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)""",
        map(astuple, draws),
    )


def save_labels(connection: sqlite3.Connection, labels: Sequence[HumanLabel], now: float) -> list[int]:
    """See `Store.save_labels`."""
    refused = []
    for place, label in enumerate(labels):
        found = connection.execute(f"SELECT {row_of('?1')}", (label.invocation_id,)).fetchone()
        if found[0] is None or not _drawn_as_said(connection, label):
            refused.append(place)
            continue
        connection.execute(
            """INSERT INTO labels (draw_id, invocation, rubric, label, labeler, labelled_at) VALUES (?, ?, ?, ?, ?, ?)
               ON CONFLICT (invocation, rubric, labeler) DO UPDATE SET
               draw_id = coalesce(excluded.draw_id, draw_id), label = excluded.label, labelled_at = excluded.labelled_at""",
            (label.draw_id, found[0], text(label.rubric), label.label.value, text(label.labeler), now),
        )
        if label.comment:
            connection.execute(
                "INSERT INTO label_comments (invocation, rubric, labeler, comment) VALUES (?, ?, ?, ?) "
                "ON CONFLICT DO UPDATE SET comment = excluded.comment",
                (found[0], text(label.rubric), text(label.labeler), text(label.comment)),
            )
    return refused


def _drawn_as_said(connection: sqlite3.Connection, label: HumanLabel) -> bool:
    """Whether the draw, where one is named, drew this invocation for this rubric."""
    if label.draw_id is None:
        return True
    found = connection.execute(
        "SELECT 1 FROM label_draws WHERE draw_id = ? AND invocation_id = ? AND rubric = ?",
        (label.draw_id, label.invocation_id, label.rubric),
    )
    return found.fetchone() is not None


def labelled(connection: sqlite3.Connection, since: float) -> list[Labelled]:
    """See `Store.labelled`."""
    rows = connection.execute(
        """SELECT i.id, coalesce(d.monitor, v.monitor), l.rubric, coalesce(d.rubric_version, v.rubric_version),
                  coalesce(d.verdict, v.verdict), l.label, l.labeler, d.probability * d.inclusion_probability,
                  coalesce(c.comment, '')
           FROM labels l JOIN invocations i ON i.n = l.invocation LEFT JOIN label_draws d ON d.draw_id = l.draw_id
           LEFT JOIN label_comments c ON c.invocation = l.invocation AND c.rubric = l.rubric AND c.labeler = l.labeler
           LEFT JOIN verdicts v ON d.draw_id IS NULL AND v.evaluation = (
               SELECT w.evaluation FROM verdicts w JOIN evaluations e ON e.n = w.evaluation
               WHERE e.invocation = l.invocation AND w.rubric = l.rubric ORDER BY w.judged_at DESC LIMIT 1)
           WHERE l.labelled_at >= ? AND coalesce(d.verdict, v.verdict) IS NOT NULL ORDER BY l.n""",
        (since,),
    )
    return [
        Labelled(invocation, monitor, rubric, version, verdict, Label(label), labeler, probability, comment)
        for invocation, monitor, rubric, version, verdict, label, labeler, probability, comment in rows
    ]


def add_checks(connection: sqlite3.Connection, checks: Sequence[JudgeCheck]) -> None:
    """See `Store.add_judge_checks`."""
    connection.executemany(
        """INSERT OR REPLACE INTO judge_checks (against, rubric, rubric_version, judge, key, expected, verdict, round,
           checked_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)""",
        map(astuple, checks),
    )


def read_checks(connection: sqlite3.Connection, since: float) -> list[JudgeCheck]:
    """See `Store.judge_checks`."""
    rows = connection.execute(
        """SELECT against, rubric, rubric_version, judge, key, expected, verdict, round, checked_at FROM judge_checks
           WHERE checked_at >= ? ORDER BY checked_at, key""",
        (since,),
    )
    return [JudgeCheck(Against(row[0]), *row[1:]) for row in rows]


def expire_checks(connection: sqlite3.Connection, before: float) -> None:
    """Delete repeated judgements, labels and draws of before a time."""
    connection.execute("DELETE FROM judge_checks WHERE checked_at < ?", (before,))
    connection.execute("DELETE FROM labels WHERE labelled_at < ?", (before,))
    connection.execute("DELETE FROM label_draws WHERE created_at < ?", (before,))
