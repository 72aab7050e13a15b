"""Many invocations in a real store, quickly: a few hundred come through the store's own methods, the rest are copies of their rows."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from monitor.model.invocation import Invocation
from monitor.model.run import RubricRef
from monitor.model.verdict import Criterion, Judgement, Outcome
from monitor.store.protocol import Store
from monitor.store.sqlite import SqliteStore
from monitor.store.sqlite.store import DATABASE
from tests.contracts.store_material import T0, invocation, request, settlement, take_all, verdict_with

RUBRICS = (RubricRef("booking", "aaaaaaaaaaaa", "default"), RubricRef("tone", "bbbbbbbbbbbb", None))
AGENTS = ("restaurant-bot", "order-support", "travel-desk")
FIRST = 500
_COLUMNS_OF_INVOCATION = (
    "trace, span_id, parent_id, conversation_id, profile, started_at, ended_at, settled_at, window_at, settled_by, late_spans, "
    "completeness, revision, has_error, tools, model_calls, input_tokens, output_tokens, attributes, upstream_probability, "
    "kept_below, digest, span_ids, merged_into, unconsidered, drawn, has_content, forgotten"
)
_COLUMNS_OF_TRACE = "collector, settled_by, settled_at, segment, position, span_count, late_spans, forgotten, has_spans"
_COLUMNS_OF_VERDICT = (
    "monitor, rubric, rubric_version, judge, judge_model, verdict, first_verdict, score, score_low, score_high, threshold, "
    "unjudgeable_reason, criteria, inclusion_probability, revision, input_tokens, output_tokens, requests, cost_usd, judged_at"
)


def an_invocation(number: int, span_seconds: float) -> Invocation:
    """One of many: three agents, two versions, spread over the time."""
    ended = T0 + span_seconds * number / FIRST
    return invocation(
        f"many-{number}",
        agent_name=AGENTS[number % 3],
        agent_version="1.4" if number % 2 else "1.5",
        conversation_id=None,
        started_at=int((ended - 3) * 1e9),
        ended_at=int(ended * 1e9),
        user_input=f"Question {number}: a table for {2 + number % 9}, please",
        final_response=f"Answer {number}: booked.",
    )


def judge_all(store: Store, ended: float) -> None:
    """Judge everything that waits: one in twenty fails."""
    dice = random.Random(7)
    while claimed := store.claim_evaluations(500, ended, 60):
        results = []
        for evaluation in claimed:
            failed = dice.random() < 0.05
            criteria = tuple(
                Criterion(name, 2 if failed else 5, True, weight, "as seen", ("booked",))
                for name, weight in (("policy_enforcement", 9), ("general_quality", 5))
            )
            judged = Judgement(
                Outcome.FAIL if failed else Outcome.PASS, 0.4 if failed else 1.0, threshold=0.6, criteria=criteria,
                explanation="Held down by policy_enforcement" if failed else "Carried by policy_enforcement",
            )  # fmt: skip
            results.append((evaluation, verdict_with(evaluation, judged, ended)))
        store.finish_evaluations(results)


def populate(
    store: Store, span_seconds: float = 86_400.0, count: int = FIRST, rubrics: Sequence[RubricRef] = RUBRICS
) -> None:
    """Store and judge the first few hundred, for the monitor `m`."""
    many = [an_invocation(number, span_seconds) for number in range(count)]
    store.save_traces([replace(settlement(one), settled_at=one.ended_at / 1e9 + 30, spans=None) for one in many])
    tick = T0 + span_seconds + 60
    store.execute_run(request(tick=tick, rubrics=rubrics), take_all)
    judge_all(store, tick + 1)


def multiply(folder: Path, copies: int, span_seconds: float) -> None:
    """Copy the rows of a populated, closed store so often, each copy a span later."""
    nanoseconds = int(span_seconds * 1e9)
    connection = sqlite3.connect(folder / DATABASE)
    connection.execute("PRAGMA synchronous = OFF")
    connection.execute("PRAGMA cache_size = -200000")
    with connection:
        connection.execute("CREATE TEMP TABLE c (k INTEGER PRIMARY KEY)")
        connection.executemany("INSERT INTO c VALUES (?)", ((k,) for k in range(1, copies)))
        top = connection.execute("SELECT max(n) FROM invocations").fetchone()[0]
        verdicts = connection.execute("SELECT max(evaluation) FROM verdicts").fetchone()[0]
        traces = connection.execute("SELECT max(n) FROM traces").fetchone()[0]
        connection.execute(
            f"""INSERT INTO traces (n, trace_id, {_COLUMNS_OF_TRACE})
                SELECT n + c.k * {traces}, printf('%08x', c.k) || substr(trace_id, 9), {_COLUMNS_OF_TRACE}
                FROM c CROSS JOIN traces"""
        )
        moved = {
            "trace": f"trace + c.k * {traces}",
            "started_at": f"started_at + c.k * {nanoseconds}",
            "ended_at": f"ended_at + c.k * {nanoseconds}",
            "window_at": f"window_at + c.k * {span_seconds}",
        }
        columns = ", ".join(moved.get(name, name) for name in _COLUMNS_OF_INVOCATION.split(", "))
        connection.execute(
            f"""INSERT INTO invocations (n, id, {_COLUMNS_OF_INVOCATION})
                SELECT n + c.k * {top}, printf('%08x', c.k) || substr(id, 9), {columns} FROM c CROSS JOIN invocations"""
        )
        connection.execute(
            f"INSERT INTO invocation_content SELECT invocation + c.k * {top}, body FROM c CROSS JOIN invocation_content"
        )
        connection.execute(
            f"""INSERT INTO verdicts (evaluation, invocation, window_at, counted, {_COLUMNS_OF_VERDICT})
                SELECT evaluation + c.k * {verdicts}, invocation + c.k * {top}, window_at + c.k * {span_seconds}, counted,
                       {_COLUMNS_OF_VERDICT} FROM c CROSS JOIN verdicts"""
        )
        connection.execute(
            f"INSERT INTO verdict_content SELECT evaluation + c.k * {verdicts}, body FROM c CROSS JOIN verdict_content"
        )
        connection.execute(
            f"""INSERT INTO decisions SELECT invocation + c.k * {top}, monitor, tick, drawn, reason, number, inclusion_probability,
                stratum, detail, eligible, profile, window_at + c.k * {span_seconds} FROM c CROSS JOIN decisions"""
        )
        connection.execute(
            f"""INSERT INTO evaluations (n, invocation, monitor, rubric, rubric_version, judge, shadow, tick, number,
                inclusion_probability, revision, state, attempts, available_at, claimed, created_at, failure)
                SELECT n + c.k * {verdicts}, invocation + c.k * {top}, monitor, rubric, rubric_version, judge, shadow, tick, number,
                inclusion_probability, revision, state, attempts, available_at, claimed, created_at, failure FROM c CROSS JOIN evaluations"""
        )
    connection.close()


def large_store(folder: Path, copies: int = 200, span_seconds: float = 86_400.0) -> SqliteStore:
    """A store of `FIRST` times `copies` judged invocations, evenly over a time from T0 on."""
    store, part = SqliteStore(folder), span_seconds / copies
    populate(store, part)
    store.close()
    multiply(folder, copies, part)
    return SqliteStore(folder)
