"""Results of evaluations: verdicts, failures, and what they count."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from monitor.model.run import Evaluation
from monitor.model.tallies import DIMENSION_BOUNDS, SCORE_BOUNDS, TallyName, bucket, rescaled
from monitor.model.verdict import Criterion, ErrorType, Judgement, Outcome, Usage, Verdict
from monitor.model.wire import verdict_json
from monitor.store.sqlite.blobs import packed_json, unpacked_json
from monitor.store.sqlite.earlier import keep_verdict
from monitor.store.sqlite.tallies import Counting
from monitor.store.sqlite.values import compact, integer, text
from monitor.store.sqlite.verdict_log import log_first

VERDICT = """
    i.id, t.trace_id, i.span_id, i.conversation_id, p.agent_name, p.agent_version, p.environment, v.window_at, v.monitor,
    v.rubric, v.rubric_version, v.judge, v.inclusion_probability, v.revision, v.judged_at, p.agent, v.verdict, v.score,
    v.score_low, v.score_high, v.threshold, v.unjudgeable_reason, v.criteria, v.requests, v.input_tokens, v.output_tokens,
    v.cost_usd, v.judge_model, x.body
"""
"""The columns that `read_verdict` takes, in its order."""

FROM_VERDICT = """
    FROM verdicts v JOIN invocations i ON i.n = v.invocation JOIN traces t ON t.n = i.trace JOIN profiles p ON p.n = i.profile
    LEFT JOIN verdict_content x ON x.evaluation = v.evaluation
"""


@dataclass(frozen=True, slots=True)
class _Standing:
    """What is stored for an evaluation when its result comes."""

    state: str
    revision: int
    invocation: int
    inclusion_probability: float
    has_content: bool
    window_at: float
    verdict: str | None
    verdict_revision: int | None


def finish(connection: sqlite3.Connection, results: Sequence[tuple[Evaluation, Verdict]]) -> None:
    """See `Store.finish_evaluations`."""
    counting = Counting()
    for evaluation, verdict in results:
        standing = _standing(connection, evaluation)
        if standing is None or standing.revision > evaluation.revision:
            continue
        if verdict.judgement.outcome is None:
            _finish_failed(connection, evaluation, verdict, standing, counting)
        else:
            _finish_judged(connection, evaluation, verdict, standing, counting)
    counting.write(connection)


def _standing(connection: sqlite3.Connection, evaluation: Evaluation) -> _Standing | None:
    row = connection.execute(
        """SELECT e.state, e.revision, e.invocation, e.inclusion_probability, i.has_content, i.window_at, v.verdict, v.revision
           FROM evaluations e JOIN invocations i ON i.n = e.invocation LEFT JOIN verdicts v ON v.evaluation = e.n
           WHERE e.n = ? AND e.monitor = ? AND e.rubric_version = ? AND i.id = ?""",
        (evaluation.id, evaluation.monitor, evaluation.rubric.version, evaluation.invocation.id),
    ).fetchone()
    return None if row is None else _Standing(*row)


def _finish_failed(
    connection: sqlite3.Connection, evaluation: Evaluation, verdict: Verdict, standing: _Standing, counting: Counting
) -> None:
    """Keep a failure, without what it might quote. One that comes after a result of the same revision is a repeat."""
    if standing.state != "pending":
        return
    bare = replace(verdict.judgement, explanation="", criteria=(), details={})
    kept = verdict_json(
        replace(
            verdict, judgement=bare, inclusion_probability=standing.inclusion_probability, revision=evaluation.revision
        )
    )
    connection.execute(
        "UPDATE evaluations SET state = 'error', claimed = 0, available_at = 0, failure = ? WHERE n = ?",
        (json.dumps(kept), evaluation.id),
    )
    failure = verdict.judgement.failure
    reason = failure.type if failure else ErrorType.EVALUATOR_FAILED
    labels = {"monitor": evaluation.monitor, "rubric": evaluation.rubric.rubric, "reason": reason.value}
    counting.add(TallyName.EVALUATION_ERRORS, labels, verdict.judged_at)


def _finish_judged(
    connection: sqlite3.Connection, evaluation: Evaluation, verdict: Verdict, standing: _Standing, counting: Counting
) -> None:
    outcome = verdict.judgement.outcome
    assert outcome is not None
    if standing.verdict_revision is None:
        _insert_verdict(connection, evaluation, verdict, standing, first=outcome.value)
        log_first(connection, evaluation.id, outcome.value)
        _count_first(counting, evaluation, verdict, outcome)
    elif standing.verdict_revision < evaluation.revision:
        *earlier, first = connection.execute(
            f"SELECT {VERDICT}, v.first_verdict {FROM_VERDICT} WHERE v.evaluation = ?",
            (evaluation.id,),
        ).fetchone()
        if standing.has_content:
            keep_verdict(connection, standing.invocation, evaluation.id, read_verdict(earlier))
        _insert_verdict(connection, evaluation, verdict, standing, first=first)
        labels = {"monitor": evaluation.monitor, "rubric": evaluation.rubric.rubric}
        revised = {**labels, "from": str(standing.verdict), "to": outcome.value}
        counting.add(TallyName.VERDICTS_REVISED, revised, verdict.judged_at)
    connection.execute(
        "UPDATE evaluations SET state = 'done', claimed = 0, available_at = 0, failure = NULL WHERE n = ?",
        (evaluation.id,),
    )


def _insert_verdict(
    connection: sqlite3.Connection, evaluation: Evaluation, verdict: Verdict, standing: _Standing, *, first: str
) -> None:
    judged = verdict.judgement
    low, high = judged.score_range
    connection.execute(
        """INSERT OR REPLACE INTO verdicts (evaluation, invocation, monitor, rubric, rubric_version, judge, judge_model,
           verdict, first_verdict, score, score_low, score_high, threshold, unjudgeable_reason, criteria,
           inclusion_probability, revision, input_tokens, output_tokens, requests, cost_usd, judged_at, window_at)
           VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)""",
        (
            evaluation.id, standing.invocation, evaluation.monitor, evaluation.rubric.rubric, evaluation.rubric.version,
            verdict.judge, text(judged.judge_model), judged.outcome, first, judged.score, low, high, judged.threshold,
            text(judged.unjudgeable_reason), _figures(judged.criteria), standing.inclusion_probability, evaluation.revision,
            integer(judged.usage.input_tokens), integer(judged.usage.output_tokens), judged.usage.requests,
            judged.usage.cost_usd, verdict.judged_at, standing.window_at,
        ),
    )  # fmt: skip
    connection.execute("DELETE FROM verdict_content WHERE evaluation = ?", (evaluation.id,))
    if standing.has_content:
        connection.execute(
            "INSERT INTO verdict_content (evaluation, body) VALUES (?, ?)", (evaluation.id, _said(judged))
        )


def _figures(criteria: Sequence[Criterion]) -> str:
    """The criteria without what was said of them: [id, score, applicable, weight, votes]."""
    return compact(
        [[c.id, c.score, c.applicable, c.weight, dict(c.votes) if c.votes is not None else None] for c in criteria]
    )


def _said(judged: Judgement) -> bytes:
    """What a judge said, packed."""
    return packed_json(
        {
            "explanation": judged.explanation,
            "criteria": [[c.explanation, list(c.evidence)] for c in judged.criteria],
            "details": dict(judged.details),
        }
    )


def _count_first(counting: Counting, evaluation: Evaluation, verdict: Verdict, outcome: Outcome) -> None:
    judged, invocation, now = verdict.judgement, evaluation.invocation, verdict.judged_at
    rubric = {"monitor": evaluation.monitor, "rubric": evaluation.rubric.rubric}
    agent = {**rubric, "agent": invocation.label_agent}
    labels = {
        **agent,
        "rubric_version": evaluation.rubric.version,
        "agent_version": invocation.agent_version or "",
        "environment": invocation.environment or "",
        "verdict": outcome.value,
    }
    exemplar = (invocation.trace_id, now) if outcome is Outcome.FAIL else None
    counting.add(TallyName.VERDICTS, labels, now, exemplar=exemplar)
    if outcome is Outcome.UNJUDGEABLE:
        counting.add(TallyName.UNJUDGEABLE, {**agent, "reason": judged.unjudgeable_reason or "unknown"}, now)
    if judged.score is not None:
        value = rescaled(judged.score, judged.score_range)
        counting.add(TallyName.SCORE_BUCKET, {**agent, "le": bucket(value, SCORE_BOUNDS)}, now)
        counting.add(TallyName.SCORE_SUM, agent, now, amount=value)
    for criterion in judged.criteria:
        _count_dimension(counting, agent, criterion, now)


def _count_dimension(counting: Counting, agent: Mapping[str, str], criterion: Criterion, now: float) -> None:
    """Dimensions are the criteria that have a weight: properties and expectations are answered yes or no."""
    if criterion.weight is None or criterion.score is None or not criterion.applicable:
        return
    labels = {**agent, "dimension": criterion.id}
    counting.add(TallyName.DIMENSION_SCORE_BUCKET, {**labels, "le": bucket(criterion.score, DIMENSION_BOUNDS)}, now)
    counting.add(TallyName.DIMENSION_SCORE_SUM, labels, now, amount=criterion.score)


def read_verdict(row: Sequence[Any]) -> Verdict:
    """A verdict from a row of VERDICT; without explanations once they were erased."""
    *head, body = row
    (invocation_id, trace_id, span_id, conversation_id, agent_name, agent_version, environment, ended_at, monitor, rubric,
     version, judge, probability, revision, judged_at, agent, outcome, score, low, high, threshold, reason, figures, requests,
     input_tokens, output_tokens, cost, model) = head  # fmt: skip
    plain = json.loads(figures)
    said: Any = (
        {"explanation": "", "criteria": [["", []]] * len(plain), "details": {}} if body is None else unpacked_json(body)
    )
    criteria = tuple(
        Criterion(name, grade, applicable, weight, explanation, tuple(evidence), votes)
        for (name, grade, applicable, weight, votes), (explanation, evidence) in zip(
            plain, said["criteria"], strict=True
        )
    )
    judgement = Judgement(
        outcome=Outcome(outcome), score=score, score_range=(low, high), threshold=threshold, explanation=said["explanation"],
        unjudgeable_reason=reason, criteria=criteria, usage=Usage(requests, input_tokens, output_tokens, cost),
        judge_model=model, details=said["details"],
    )  # fmt: skip
    return Verdict(
        invocation_id, trace_id, span_id, conversation_id, agent_name, agent_version, environment, ended_at, monitor, rubric,
        version, judge, judgement, probability, revision, judged_at, agent,
    )  # fmt: skip
