"""What the pages ask: answers by filter with their verdicts, what criteria scored, and what dialects lack."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from monitor.model.browsing import AnswerQuery, CriteriaCount, CriterionScore, DialectCount
from monitor.model.conversation import is_conversation
from monitor.model.invocation import Capture, Invocation
from monitor.model.labels import LabelDraw
from monitor.model.run import AssembleLater, Page
from monitor.store.sqlite.blobs import unpacked_json
from monitor.store.sqlite.content import opening
from monitor.store.sqlite.conversations import opening_of
from monitor.store.sqlite.finding import row_of
from monitor.store.sqlite.heads import FROM_HEAD, HEAD, read_or_bare
from monitor.store.sqlite.keyset import Conditions, keyset_page
from monitor.store.sqlite.ties import OF_TURN

EXCERPT = 400
"""Characters of a question, an answer or an explanation that a listing shows."""
READ_FOR_DIALECTS = 100
"""Invocations that are assembled to see what a dialect lacks, of those that were not assembled yet."""
BEST_OF_DIMENSIONS = 5.0
"""Criteria with a weight are dimensions, scored 1 to 5 (`rubrics.kinds.weighted`); others reach the top of the rubric's own scale."""

_HEAD = """
    i.n, i.id, t.trace_id, i.conversation_id, p.agent, p.agent_version, p.environment, i.started_at, i.ended_at, i.revision,
    i.has_error, i.tools, i.has_content, i.assembled, i.turns, c.body
"""
_FROM_INVOCATIONS = """
    FROM invocations i JOIN traces t ON t.n = i.trace JOIN profiles p ON p.n = i.profile
    LEFT JOIN invocation_content c ON c.invocation = i.n
"""
_FROM_VERDICTS = """
    , v.evaluation FROM verdicts v JOIN invocations i ON i.n = v.invocation JOIN traces t ON t.n = i.trace
    JOIN profiles p ON p.n = i.profile LEFT JOIN invocation_content c ON c.invocation = i.n
"""
_FELL_SHORT = """
    EXISTS (SELECT 1 FROM json_each(v.criteria) k WHERE json_extract(k.value, '$[0]') = ? AND json_extract(k.value, '$[2]')
            AND json_extract(k.value, '$[1]') < CASE WHEN json_extract(k.value, '$[3]') IS NULL THEN v.score_high ELSE ? END)
"""


def answers(connection: sqlite3.Connection, query: AnswerQuery, assemble: AssembleLater) -> Page:
    """See `Store.list_answers`."""
    profiles = _profiles(connection, query)
    if profiles is not None and not profiles:
        return Page(())
    conditions = Conditions()
    conditions.add("i.merged_into IS NULL")
    if profiles is not None:
        conditions.add(f"i.profile IN ({', '.join('?' * len(profiles))})", *profiles)
    conditions.add("i.conversation_id = ?", query.conversation_id)
    conditions.add(f"i.trace IN ({OF_TURN})", query.trace_id)
    time, from_, keys = "i.window_at", _FROM_INVOCATIONS, ("i.ended_at", "i.n")
    if not query.of_verdicts:
        conditions.add("i.turns IS NULL")
    else:
        time, from_, keys = "v.window_at", _FROM_VERDICTS, ("v.window_at", "v.evaluation")
        conditions.add("v.counted = 1")
        for column in ("monitor", "rubric", "rubric_version", "verdict"):
            conditions.add(f"v.{column} = ?", getattr(query, column))
        if query.verdict not in (None, "pass"):
            conditions.add("v.verdict <> 'pass'")  # lets the index of those be used
        if query.criterion is not None:
            conditions.add(_FELL_SHORT, query.criterion, BEST_OF_DIMENSIONS)
    conditions.add(f"{time} >= ?", query.since)
    conditions.add(f"{time} < ?", query.until)
    return keyset_page(
        connection, query.cursor, query.limit, _HEAD + from_, conditions, keys,
        lambda row: _answer(connection, row, assemble),
    )  # fmt: skip


def _profiles(connection: sqlite3.Connection, query: AnswerQuery) -> list[int] | None:
    """The few rows that labels stand in; None where no label is asked for. An agent that never was costs no scan."""
    conditions = Conditions()
    conditions.add("agent = ?", query.agent)
    conditions.add("agent_version = ?", query.agent_version)
    conditions.add("environment = ?", query.environment)
    if not conditions.texts:
        return None
    found = connection.execute(f"SELECT n FROM profiles WHERE {conditions}", conditions.values)  # noqa: S608
    return [row for (row,) in found]


def _answer(connection: sqlite3.Connection, row: Sequence[Any], assemble: AssembleLater) -> dict[str, Any]:
    (number, invocation_id, trace_id, conversation, agent, version, environment, started, ended, revision, has_error, tools,
     has_content, assembled, turns, body, *evaluation) = row  # fmt: skip
    question, answer = opening(body, EXCERPT) if body is not None else (None, None)
    if is_conversation(invocation_id):
        question, answer = opening_of(connection, number, EXCERPT)
    called = json.loads(tools) if tools else []
    late = None if assembled or not has_content else _assembled(connection, number, assemble)
    if late is not None:
        question, answer = ((said or "")[:EXCERPT] or None for said in (late.user_input, late.final_response))
        called = [call.name for call in late.tool_calls]
    verdicts = list(_verdicts(connection, number))
    matched = next((one for one in verdicts if evaluation and one["evaluation"] == evaluation[0]), None)
    return {
        "id": invocation_id,
        "trace_id": trace_id,
        "conversation_id": conversation,
        "agent": agent,
        "agent_version": version,
        "environment": environment,
        "started_at": started / 1e9,
        "ended_at": ended / 1e9,
        "revision": revision,
        "has_error": bool(has_error),
        "turns": turns,
        "tools": called,
        "has_content": bool(has_content),
        "user_input": question,
        "final_response": answer,
        "verdicts": verdicts,
        "matched": matched,
        "explanation": _explanation(connection, evaluation[0]) if evaluation else None,
    }


def _verdicts(connection: sqlite3.Connection, invocation: int) -> Iterator[dict[str, Any]]:
    """What became of the evaluations of an invocation, without what was said."""
    rows = connection.execute(
        """SELECT e.n, e.monitor, e.rubric, e.rubric_version, e.state, v.verdict, v.score, v.score_high, v.threshold,
                  v.unjudgeable_reason FROM evaluations e LEFT JOIN verdicts v ON v.evaluation = e.n
           WHERE e.invocation = ? ORDER BY e.monitor, e.rubric, e.n""",
        (invocation,),
    )
    names = (
        "evaluation",
        "monitor",
        "rubric",
        "rubric_version",
        "state",
        "verdict",
        "score",
        "score_high",
        "threshold",
    )
    for row in rows:
        yield dict(zip((*names, "unjudgeable_reason"), row, strict=True))


def _explanation(connection: sqlite3.Connection, evaluation: int) -> str | None:
    found = connection.execute("SELECT body FROM verdict_content WHERE evaluation = ?", (evaluation,)).fetchone()
    return None if found is None else str(unpacked_json(found[0])["explanation"])[:EXCERPT]


def criteria(
    connection: sqlite3.Connection, monitor: str, since: float, until: float, limit: int
) -> list[CriteriaCount]:
    """See `Store.criteria_counts`. Equal texts are counted together, so each is read once."""
    rows = connection.execute(
        """SELECT rubric, verdict, score_high, criteria, count(*) FROM (
               SELECT rubric, verdict, score_high, criteria FROM verdicts
               WHERE monitor = ? AND window_at >= ? AND window_at < ? AND counted = 1 ORDER BY window_at DESC LIMIT ?)
           WHERE criteria <> '[]' GROUP BY 1, 2, 3, 4""",
        (monitor, since, until, limit),
    )
    return [CriteriaCount(rubric, verdict, _scores(text, high), count) for rubric, verdict, high, text, count in rows]


def _scores(text: str, high: float) -> tuple[CriterionScore, ...]:
    return tuple(
        CriterionScore(name, score, applicable, weight, high if weight is None else BEST_OF_DIMENSIONS)
        for name, score, applicable, weight, _ in json.loads(text)
    )


def dialects(connection: sqlite3.Connection, limit: int, assemble: AssembleLater) -> list[DialectCount]:
    """See `Store.dialects`."""
    rows = connection.execute(
        """SELECT i.n, p.collector, p.agent, p.convention, i.completeness, i.assembled, i.has_content FROM invocations i
           JOIN profiles p ON p.n = i.profile WHERE i.merged_into IS NULL AND i.turns IS NULL ORDER BY i.ended_at DESC, i.n DESC LIMIT ?""",
        (limit,),
    ).fetchall()
    unread = [row for row, *_, assembled, has_content in rows if has_content and not assembled]
    looked_at = set(unread[:: max(1, len(unread) // READ_FOR_DIALECTS)][:READ_FOR_DIALECTS])
    found: dict[tuple[str, str, str], _Lacking] = {}
    for row, collector, agent, convention, gaps, assembled, _ in rows:
        one = found.setdefault((collector, agent, convention), _Lacking())
        one.count += 1
        if assembled:
            lacks = json.loads(gaps) if gaps else {"missing": (), "capture": {}}
            one.note(lacks["missing"], [Capture(reason) for reason in lacks["capture"].values()])
        elif row in looked_at:
            late = _assembled(connection, row, assemble)
            if late is not None:
                one.note(late.completeness.missing, late.completeness.capture.values())
    return [
        DialectCount(*key, one.count, dict(one.missing), dict(one.capture), one.read)
        for key, one in sorted(found.items(), key=lambda item: -item[1].count)
    ]


@dataclass(slots=True)
class _Lacking:
    """What the invocations of an agent in a dialect lack; `read` of them were looked at."""

    count: int = 0
    read: int = 0
    missing: Counter[str] = field(default_factory=Counter)
    capture: Counter[str] = field(default_factory=Counter)

    def note(self, missing: Iterable[str], reasons: Iterable[Capture]) -> None:
        """One more was looked at."""
        self.read += 1
        self.missing.update(set(missing))
        self.capture.update({reason.value for reason in reasons})


def _assembled(connection: sqlite3.Connection, row: int, assemble: AssembleLater) -> Invocation | None:
    """An invocation of which only the head was read, assembled now; None where it cannot be read."""
    found = connection.execute(f"SELECT {HEAD} {FROM_HEAD} WHERE i.n = ?", (row,)).fetchone()
    _, late, _ = read_or_bare(found, assemble)
    return late.invocation if late is not None else None


_DRAW = """
    d.draw_id, d.invocation_id, d.monitor, d.rubric, d.rubric_version, d.verdict, d.probability, d.inclusion_probability, d.created_at
    FROM label_draws d
"""


def open_draws(connection: sqlite3.Connection, labeler: str, since: float) -> list[LabelDraw]:
    """See `Store.open_draws`. Draws are numbered, so the shorter id comes first."""
    rows = connection.execute(
        f"""SELECT {_DRAW} JOIN invocations i ON i.n = {row_of("d.invocation_id")}
            LEFT JOIN labels l ON l.invocation = i.n AND l.rubric = d.rubric AND l.labeler = ?
            WHERE d.created_at >= ? AND l.n IS NULL AND i.has_content = 1
            ORDER BY d.created_at, length(d.draw_id), d.draw_id""",
        (labeler, since),
    )
    return [LabelDraw(*row) for row in rows]


def label_draw(connection: sqlite3.Connection, draw_id: str) -> LabelDraw | None:
    """See `Store.label_draw`."""
    row = connection.execute(f"SELECT {_DRAW} WHERE d.draw_id = ?", (draw_id,)).fetchone()
    return None if row is None else LabelDraw(*row)
