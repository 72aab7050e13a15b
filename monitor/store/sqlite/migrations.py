"""The schema, as the list of scripts that made it. A script once released is never edited: a change is one more script.

Who is judged (heads, decisions, evaluations, verdicts) is kept apart from what was said (the three tables of content at the end), so
that erasing content is a delete that leaves all figures alone. Times are seconds since 1970-01-01Z, those of invocations nanoseconds.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence

from monitor.store.protocol import StoreTooNew

MIGRATIONS = (
    """
    -- What many invocations have in common; `agent` is the label, an unknown version or environment is NULL.
    CREATE TABLE profiles (
        n INTEGER PRIMARY KEY, agent TEXT NOT NULL, agent_name TEXT, agent_version TEXT, environment TEXT, service TEXT,
        model TEXT, operation TEXT, convention TEXT NOT NULL, collector TEXT NOT NULL
    ) STRICT;
    CREATE INDEX profiles_by_value ON profiles (agent, agent_version, environment, model, operation);

    -- `segment` and `position`: up to where the journal was read for this trace.
    CREATE TABLE traces (
        n INTEGER PRIMARY KEY, trace_id TEXT NOT NULL UNIQUE, collector TEXT NOT NULL, settled_by TEXT NOT NULL,
        settled_at REAL NOT NULL, segment INTEGER NOT NULL, position INTEGER NOT NULL, span_count INTEGER NOT NULL,
        late_spans INTEGER NOT NULL, forgotten INTEGER NOT NULL DEFAULT 0, has_spans INTEGER NOT NULL DEFAULT 0
    ) STRICT;
    CREATE INDEX traces_by_settling ON traces (settled_at);
    CREATE INDEX traces_with_spans ON traces (settled_at) WHERE has_spans = 1;

    -- `window_at`: the end, never later than the settling. `unconsidered`: monitors that have yet to look. `drawn`: monitors that drew it.
    CREATE TABLE invocations (
        n INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, trace INTEGER NOT NULL, span_id TEXT NOT NULL, parent_id TEXT,
        conversation_id TEXT, profile INTEGER NOT NULL, started_at INTEGER NOT NULL, ended_at INTEGER NOT NULL,
        settled_at REAL NOT NULL, window_at REAL NOT NULL, settled_by TEXT NOT NULL, late_spans INTEGER NOT NULL,
        completeness TEXT, revision INTEGER NOT NULL, has_error INTEGER NOT NULL, tools TEXT, model_calls INTEGER NOT NULL,
        input_tokens INTEGER, output_tokens INTEGER, attributes TEXT, upstream_probability REAL NOT NULL,
        kept_below REAL NOT NULL, digest TEXT NOT NULL, span_ids BLOB NOT NULL, merged_into TEXT,
        unconsidered INTEGER NOT NULL, drawn INTEGER NOT NULL DEFAULT 0, has_content INTEGER NOT NULL,
        forgotten INTEGER NOT NULL DEFAULT 0
    ) STRICT;
    CREATE INDEX invocations_by_trace ON invocations (trace);
    CREATE INDEX invocations_by_end ON invocations (ended_at, n);
    CREATE INDEX invocations_by_settling ON invocations (settled_at);
    CREATE INDEX invocations_by_conversation ON invocations (conversation_id) WHERE conversation_id IS NOT NULL;
    CREATE INDEX invocations_with_content ON invocations (settled_at) WHERE has_content = 1;
    CREATE INDEX invocations_unwanted ON invocations (n) WHERE has_content = 1 AND unconsidered = 0 AND drawn = 0;

    -- Who has yet to be considered. A run takes rows out: what commits late is simply there at the next run.
    CREATE TABLE waiting (
        monitor TEXT NOT NULL, settled_at REAL NOT NULL, invocation INTEGER NOT NULL,
        PRIMARY KEY (monitor, settled_at, invocation)
    ) STRICT, WITHOUT ROWID;

    CREATE TABLE runs (
        monitor TEXT NOT NULL, tick REAL NOT NULL, started_at REAL NOT NULL, finished_at REAL, outcome TEXT NOT NULL,
        considered INTEGER NOT NULL, drawn INTEGER NOT NULL, evaluations INTEGER NOT NULL, carry REAL NOT NULL,
        error TEXT, strata TEXT, PRIMARY KEY (monitor, tick)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX runs_by_tick ON runs (tick, monitor);

    -- `eligible`: how many invocations this one stands for among the eligible, 1 / kept_below; 0 where filtered or incomplete.
    CREATE TABLE decisions (
        invocation INTEGER NOT NULL, monitor TEXT NOT NULL, tick REAL NOT NULL, drawn INTEGER NOT NULL, reason TEXT,
        number REAL NOT NULL, inclusion_probability REAL NOT NULL, stratum TEXT NOT NULL, detail TEXT NOT NULL,
        eligible REAL NOT NULL, profile INTEGER NOT NULL, window_at REAL NOT NULL, PRIMARY KEY (invocation, monitor)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX decisions_drawn ON decisions (monitor, tick) WHERE drawn = 1;
    CREATE INDEX decisions_eligible ON decisions (monitor, profile, window_at, eligible) WHERE eligible > 0;

    -- A pending evaluation with `available_at` 0 is free; else it is claimed or put off until then.
    CREATE TABLE evaluations (
        n INTEGER PRIMARY KEY AUTOINCREMENT, invocation INTEGER NOT NULL, monitor TEXT NOT NULL, rubric TEXT NOT NULL,
        rubric_version TEXT NOT NULL, judge TEXT NOT NULL, shadow INTEGER NOT NULL, tick REAL NOT NULL, number REAL NOT NULL,
        inclusion_probability REAL NOT NULL, revision INTEGER NOT NULL, state TEXT NOT NULL, attempts INTEGER NOT NULL,
        available_at REAL NOT NULL, claimed INTEGER NOT NULL, created_at REAL NOT NULL, failure TEXT,
        UNIQUE (invocation, monitor, rubric_version)
    ) STRICT;
    CREATE INDEX evaluations_free ON evaluations (judge, monitor, tick, number, n)
        WHERE state = 'pending' AND available_at = 0;
    CREATE INDEX evaluations_held ON evaluations (available_at) WHERE state = 'pending' AND available_at > 0;
    CREATE INDEX evaluations_open ON evaluations (monitor, state, created_at) WHERE state <> 'done';

    -- `counted` 0: its invocation was merged into another. `first_verdict` is the one that the tallies count.
    CREATE TABLE verdicts (
        evaluation INTEGER PRIMARY KEY, invocation INTEGER NOT NULL, monitor TEXT NOT NULL, rubric TEXT NOT NULL,
        rubric_version TEXT NOT NULL, judge TEXT, judge_model TEXT, verdict TEXT NOT NULL, first_verdict TEXT NOT NULL,
        score REAL, score_low REAL NOT NULL, score_high REAL NOT NULL, threshold REAL, unjudgeable_reason TEXT,
        criteria TEXT NOT NULL, inclusion_probability REAL NOT NULL, revision INTEGER NOT NULL,
        input_tokens INTEGER NOT NULL, output_tokens INTEGER NOT NULL, requests INTEGER NOT NULL, cost_usd REAL,
        judged_at REAL NOT NULL, window_at REAL NOT NULL, counted INTEGER NOT NULL DEFAULT 1
    ) STRICT;
    CREATE INDEX verdicts_by_monitor ON verdicts (monitor, window_at);
    CREATE INDEX verdicts_by_end ON verdicts (window_at, evaluation);
    CREATE INDEX verdicts_by_judging ON verdicts (judged_at, evaluation);

    CREATE TABLE rubric_versions (
        version TEXT PRIMARY KEY, definition TEXT NOT NULL, created_at REAL NOT NULL
    ) STRICT, WITHOUT ROWID;

    CREATE TABLE tallies (
        metric TEXT NOT NULL, labels TEXT NOT NULL, value REAL NOT NULL, created_at REAL NOT NULL, updated_at REAL NOT NULL,
        exemplar_trace TEXT, exemplar_at REAL, PRIMARY KEY (metric, labels)
    ) STRICT, WITHOUT ROWID;

    CREATE TABLE leases (
        name TEXT PRIMARY KEY, owner TEXT NOT NULL, expires_at REAL NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE state (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;

    -- Content: what people and models said.
    CREATE TABLE invocation_content (invocation INTEGER PRIMARY KEY, body BLOB NOT NULL) STRICT;
    CREATE TABLE verdict_content (evaluation INTEGER PRIMARY KEY, body BLOB NOT NULL) STRICT;
    CREATE TABLE trace_spans (trace INTEGER PRIMARY KEY, body BLOB NOT NULL) STRICT;
    """,
    """
    -- First verdicts, pass or fail, in the order in which they were stored: what regression detection reads once.
    CREATE TABLE verdict_log (
        seq INTEGER PRIMARY KEY AUTOINCREMENT, evaluation INTEGER NOT NULL UNIQUE, verdict TEXT NOT NULL
    ) STRICT;
    INSERT INTO verdict_log (evaluation, verdict)
        SELECT evaluation, first_verdict FROM verdicts WHERE first_verdict IN ('pass', 'fail') AND counted = 1
        ORDER BY judged_at, evaluation;
    CREATE TABLE regression_series (
        monitor TEXT NOT NULL, rubric TEXT NOT NULL, agent TEXT NOT NULL, environment TEXT NOT NULL, body TEXT NOT NULL,
        PRIMARY KEY (monitor, rubric, agent, environment)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE regressions (id TEXT PRIMARY KEY, opened_at REAL NOT NULL, body TEXT NOT NULL) STRICT, WITHOUT ROWID;
    CREATE INDEX regressions_by_opening ON regressions (opened_at, id);
    """,
    """
    -- Verdicts that did not pass are looked for among many that did; a query says `verdict <> 'pass'` to use it.
    CREATE INDEX verdicts_not_passed ON verdicts (verdict, window_at, evaluation) WHERE verdict <> 'pass';
    """,
    """
    -- What people are asked to label, what they said, and what judges said when asked again.
    CREATE TABLE label_draws (
        draw_id TEXT PRIMARY KEY, invocation_id TEXT NOT NULL, monitor TEXT NOT NULL, rubric TEXT NOT NULL,
        rubric_version TEXT NOT NULL, verdict TEXT NOT NULL, probability REAL NOT NULL, inclusion_probability REAL NOT NULL,
        created_at REAL NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE labels (
        n INTEGER PRIMARY KEY, draw_id TEXT, invocation INTEGER NOT NULL, rubric TEXT NOT NULL, label TEXT NOT NULL,
        labeler TEXT NOT NULL, labelled_at REAL NOT NULL, UNIQUE (invocation, rubric, labeler)
    ) STRICT;
    CREATE TABLE judge_checks (
        against TEXT NOT NULL, rubric TEXT NOT NULL, rubric_version TEXT NOT NULL, judge TEXT NOT NULL, key TEXT NOT NULL,
        expected TEXT NOT NULL, verdict TEXT NOT NULL, round REAL NOT NULL, checked_at REAL NOT NULL,
        PRIMARY KEY (against, rubric_version, key, round)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX judge_checks_by_time ON judge_checks (checked_at);
    -- Content: a comment may quote.
    CREATE TABLE label_comments (
        invocation INTEGER NOT NULL, rubric TEXT NOT NULL, labeler TEXT NOT NULL, comment TEXT NOT NULL,
        PRIMARY KEY (invocation, rubric, labeler)
    ) STRICT, WITHOUT ROWID;
    """,
    """
    -- How often the process ended while it had claimed an evaluation.
    ALTER TABLE evaluations ADD COLUMN crashes INTEGER NOT NULL DEFAULT 0;
    """,
    """
    -- Traces and conversations that were to be forgotten: what of them was still open then is stored without content.
    CREATE TABLE forgotten (
        kind TEXT NOT NULL, id TEXT NOT NULL, at REAL NOT NULL, PRIMARY KEY (kind, id)
    ) STRICT, WITHOUT ROWID;
    """,
    """
    -- Conversations. A complete one is a row of `invocations` too, which alone has `turns`; `changed_at` is NULL while nothing has come since.
    ALTER TABLE invocations ADD COLUMN conversation INTEGER;
    ALTER TABLE invocations ADD COLUMN turns INTEGER;
    ALTER TABLE invocations ADD COLUMN held INTEGER NOT NULL DEFAULT 0;
    CREATE INDEX invocations_of_conversation ON invocations (conversation, started_at) WHERE conversation IS NOT NULL;
    CREATE TABLE conversations (
        n INTEGER PRIMARY KEY, conversation_id TEXT NOT NULL, service TEXT NOT NULL, environment TEXT NOT NULL,
        changed_at REAL, completed_at REAL, monitors TEXT, UNIQUE (conversation_id, service, environment)
    ) STRICT;
    CREATE INDEX conversations_open ON conversations (changed_at) WHERE changed_at IS NOT NULL;
    """,
    """
    -- 0: only the head was read; while `has_content`, what was said is in the trace's spans.
    ALTER TABLE invocations ADD COLUMN assembled INTEGER NOT NULL DEFAULT 1;
    """,
    """
    -- Turns over several traces: `turn` is the row of the trace that a turn is named after. Keys are hashes; neither table has content.
    ALTER TABLE traces ADD COLUMN turn INTEGER;
    CREATE INDEX traces_by_turn ON traces (turn) WHERE turn IS NOT NULL;
    CREATE TABLE ties (
        trace INTEGER PRIMARY KEY, settled_at REAL NOT NULL, keys BLOB NOT NULL, pieces BLOB NOT NULL
    ) STRICT;
    CREATE INDEX ties_by_settling ON ties (settled_at);
    CREATE TABLE tie_keys (
        key INTEGER NOT NULL, at INTEGER NOT NULL, trace INTEGER NOT NULL, PRIMARY KEY (key, at, trace)
    ) STRICT, WITHOUT ROWID;
    """,
    """
    -- Content: invocations and verdicts as they were before late data made another revision.
    CREATE TABLE earlier_invocations (
        invocation INTEGER NOT NULL, revision INTEGER NOT NULL, body BLOB NOT NULL,
        PRIMARY KEY (invocation, revision)
    ) STRICT;
    CREATE TABLE earlier_verdicts (
        invocation INTEGER NOT NULL, revision INTEGER NOT NULL, evaluation INTEGER NOT NULL, body BLOB NOT NULL,
        PRIMARY KEY (invocation, revision, evaluation)
    ) STRICT;
    """,
    """
    -- Evaluations of a run that a budget cut short for some of its rubrics only: those are not judged later by another way in.
    CREATE TABLE given_up (
        invocation INTEGER NOT NULL, monitor TEXT NOT NULL, rubric_version TEXT NOT NULL, tick REAL NOT NULL,
        PRIMARY KEY (invocation, monitor, rubric_version)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX given_up_by_run ON given_up (monitor, tick);
    """,
    """
    -- When the first of a conversation's changes came that it has not been completed with.
    ALTER TABLE conversations ADD COLUMN opened_at REAL;
    UPDATE conversations SET opened_at = changed_at;
    CREATE INDEX conversations_by_opening ON conversations (opened_at) WHERE changed_at IS NOT NULL;
    """,
    """
    -- The row of a conversation is found without looking at its turns: there may be very many.
    CREATE INDEX conversation_rows ON invocations (conversation) WHERE turns IS NOT NULL;
    """,
    """
    -- 0: the trace that the id begins with is the invocation's own and leads to it (see `finding`); of before, when ids had an index, all have 1.
    ALTER TABLE invocations ADD COLUMN elsewhere INTEGER NOT NULL DEFAULT 1;
    """,
)

_NEW = (
    ("id TEXT NOT NULL UNIQUE, trace INTEGER", "id TEXT NOT NULL, trace INTEGER"),
    (
        "CREATE INDEX invocations_by_trace ON invocations (trace);",
        "CREATE UNIQUE INDEX invocations_by_trace ON invocations (trace, id);",
    ),
)
_NEW_ONLY = "CREATE UNIQUE INDEX invocations_elsewhere ON invocations (id) WHERE elsewhere = 1;"
"""A new database has no index of all invocations' ids; taking that of an old one away would mean writing all of the table anew."""


def migrate(connection: sqlite3.Connection) -> None:
    """Bring a database forward to this program's schema, in one transaction. Raises StoreTooNew for one of a later program."""
    found = _version(connection)
    if found > len(MIGRATIONS):
        raise StoreTooNew(
            f"its schema is version {found} and this rubricd knows versions up to {len(MIGRATIONS)}: "
            "run the newer rubricd again, or restore a backup"
        )
    if found == len(MIGRATIONS):
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        for script in _scripts(_version(connection)):  # looked at again: another process may have been first
            for statement in _statements(script):
                connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _scripts(version: int) -> Sequence[str]:
    if version:
        return MIGRATIONS[version:]
    first, *others = MIGRATIONS
    for before, instead in _NEW:
        first = first.replace(before, instead)
    return first, *others, _NEW_ONLY


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def _statements(script: str) -> Iterator[str]:
    """The statements of a script. `executescript` would commit between them."""
    collected = ""
    for line in script.splitlines():
        collected += line + "\n"
        if sqlite3.complete_statement(collected):
            yield collected
            collected = ""
