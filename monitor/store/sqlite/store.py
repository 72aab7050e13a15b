"""The SQLite store: the protocol's methods, each a function of a connection run by the writer or in a read snapshot.

Longer than other modules because the protocol has that many methods: each is here, in its order, with two or three lines.
"""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from monitor.model.backfill import BackfillPage, BackfillUse, Position
from monitor.model.browsing import AnswerQuery, CriteriaCount, DialectCount, EarlierRevision
from monitor.model.conversation import ConversationKey
from monitor.model.evidence import CriterionScores, LoggedVerdict, RegressionState, SeriesKey
from monitor.model.invocation import Invocation
from monitor.model.labels import HumanLabel, JudgeCheck, LabelDraw, Labelled
from monitor.model.run import (
    AssembleLater,
    Candidate,
    Evaluation,
    InvocationChange,
    JournalPosition,
    Judged,
    Page,
    PendingCount,
    Query,
    Run,
    RunPlan,
    RunRequest,
    StoredTrace,
    Tally,
    TiedTrace,
    TraceSettlement,
)
from monitor.model.totals import WindowFigures
from monitor.model.verdict import Verdict
from monitor.store.protocol import Recompute
from monitor.store.sqlite import (
    backfilling,
    browsing,
    budget_cut,
    conversations,
    earlier,
    erasure,
    evaluations,
    explanations,
    figures,
    forgetting,
    fresh_traces,
    labels,
    listings,
    runs,
    small_tables,
    ties,
    traces,
    verdict_log,
    verdicts,
    waiting,
)
from monitor.store.sqlite.connections import ReadPool
from monitor.store.sqlite.space import checkpoint, empty_log, give_back, used_bytes
from monitor.store.sqlite.tallies import Counting, read_tallies
from monitor.store.sqlite.writer import Writer

DATABASE = "rubricd.db"
Names = Collection[str]
_FOR_EVER = 1e18
_BATCH, _SMALL_BATCH = 500, 50
"""Invocations that one transaction of a retention erases: others wait for it. The small one goes by size, not further than needed."""


def unread(_spans: bytes, _head: Invocation) -> InvocationChange:
    """For stores that are given whole invocations only. Raises ValueError."""
    raise ValueError("only the head of this invocation was stored, and nothing here reads the rest")


class SqliteStore:
    """Everything rubricd remembers, in one file of a folder. See `monitor.store.protocol.Store` for what each method promises.

    `assemble` reads invocations of which only the head was stored, whenever their content is asked for. Opening creates or migrates the database. Raises StoreUnwritable, StoreTooNew.
    """

    def __init__(self, folder: Path, assemble: AssembleLater = unread) -> None:
        path = folder.absolute() / DATABASE
        self._writer = Writer(path)
        self._reads = ReadPool(path)
        self._assemble = assemble
        self._turns = itertools.count()
        self._log_holds_erased = True  # an earlier process may have erased something
        self._tallies: dict[tuple[str, str], Tally] = {}

    # -- traces and invocations
    def save_traces(self, settlements: Sequence[TraceSettlement]) -> None:
        """Store settled traces; they are compressed in the caller's thread."""
        prepared = [traces.prepare(settlement) for settlement in settlements]
        if prepared:
            self._writer.call(lambda c: traces.save(c, prepared))

    def trace(self, trace_id: str) -> StoredTrace | None:
        """A settled trace with its invocations, or None."""
        with self._reads.snapshot() as connection:
            return traces.stored_trace(connection, trace_id)

    def consumed_positions(self, trace_ids: Collection[str]) -> Mapping[str, JournalPosition]:
        """For those of the traces that have settled: up to where the journal has been read for them."""
        with self._reads.snapshot() as connection:
            return fresh_traces.positions(connection, trace_ids)

    def tied_traces(
        self, trace_ids: Collection[str], keys: Collection[int], windows: Collection[tuple[int, int, int]], limit: int
    ) -> Sequence[TiedTrace]:
        """Traces that may make one turn with others."""
        with self._reads.snapshot() as connection:
            return ties.tied_traces(connection, trace_ids, keys, windows, limit)

    def invocation(self, invocation_id: str) -> Invocation | None:
        """An invocation by its id."""
        with self._reads.snapshot() as connection:
            return traces.stored_invocation(connection, invocation_id, self._assemble)

    def complete_conversations(self, silent_since: float, monitors: Sequence[str], now: float, limit: int = 100) -> int:
        """Complete conversations that have been silent since a time; asks the writer only where there is one."""
        with self._reads.snapshot() as connection:
            if not conversations.any_due(connection, silent_since, monitors, now):
                return 0
        return self._writer.call(lambda c: conversations.complete(c, silent_since, monitors, now, limit))

    def earlier_revisions(self, invocation_id: str) -> Sequence[EarlierRevision]:
        """What is kept of an invocation's earlier revisions."""
        with self._reads.snapshot() as connection:
            return earlier.earlier_revisions(connection, invocation_id)

    # -- runs
    def last_run(self, monitor: str, *, completed: bool = False) -> Run | None:
        """The monitor's newest run by tick, or None."""
        with self._reads.snapshot() as connection:
            return runs.last_run(connection, monitor, completed=completed)

    def oldest_waiting(self, monitor: str) -> float | None:
        """When the oldest invocation settled that the monitor has not yet considered, or None."""
        with self._reads.snapshot() as connection:
            return waiting.oldest_waiting(connection, monitor)

    def execute_run(self, request: RunRequest, decide: Callable[[Sequence[Candidate], float], RunPlan]) -> Run | None:
        """One tick; `decide` is called in the writer's thread and holds up all other writing."""
        return self._writer.call(lambda c: runs.execute(c, request, decide, self._assemble))

    def miss_run(self, request: RunRequest) -> Run | None:
        """Record a tick that is not caught up."""
        return self._writer.call(lambda c: runs.miss(c, request))

    def fail_run(self, request: RunRequest, error: str) -> None:
        """Record that a tick failed."""
        self._writer.call(lambda c: runs.fail(c, request, error))

    def cut_run(
        self, monitor: str, tick: float, recompute: Recompute, now: float, judges: Collection[str] | None = None
    ) -> int:
        """End a run early because its budget is spent."""
        return self._writer.call(lambda c: budget_cut.cut(c, monitor, tick, recompute, now, judges))

    def pending_ticks(self, monitor: str) -> Sequence[float]:
        """The runs of a monitor that have left evaluations which are not finished."""
        return self._writer.call(lambda c: budget_cut.pending_ticks(c, monitor), durable=False)

    def retire_monitors(self, active: Collection[str]) -> int:
        """Drop what waits for monitors that are not among the active ones."""
        return self._writer.call(lambda c: waiting.retire(c, active))

    def release_waiting(self, monitor: str) -> int:
        """Drop what waits for one monitor or backfill."""
        return self._writer.call(lambda c: waiting.release(c, monitor))

    # -- backfills
    def backfill_look(
        self, request: RunRequest, span: tuple[float, float], after: Position | None, limit: int,
        decide: Callable[[Sequence[Candidate]], RunPlan],
    ) -> BackfillPage:  # fmt: skip
        """What `backfill_step` would do."""
        with self._reads.snapshot() as connection:
            return backfilling.look(connection, request, span, after, limit, decide, self._assemble)

    def backfill_step(
        self, request: RunRequest, span: tuple[float, float], after: Position | None, limit: int,
        decide: Callable[[Sequence[Candidate]], RunPlan],
    ) -> BackfillPage:  # fmt: skip
        """One step of a backfill."""
        return self._writer.call(lambda c: backfilling.step(c, request, span, after, limit, decide, self._assemble))

    def backfill_errors(self, request: RunRequest, span: tuple[float, float], *, count_only: bool = False) -> int:
        """Let failed evaluations be judged once more, or count them."""
        if count_only:
            with self._reads.snapshot() as connection:
                return backfilling.failed(connection, request.monitor, span)
        return self._writer.call(lambda c: backfilling.again(c, request, span))

    def backfill_use(self, monitor: str, tick: float, rows: tuple[int, int]) -> BackfillUse:
        """What evaluations of a backfill came to."""
        with self._reads.snapshot() as connection:
            return backfilling.use(connection, monitor, tick, rows)

    def mean_use(self, rubric_version: str) -> tuple[float, float | None] | None:
        """Tokens and USD of one verdict on average."""
        with self._reads.snapshot() as connection:
            return backfilling.mean_tokens(connection, rubric_version)

    # -- evaluations
    def claim_evaluations(
        self, limit: int, now: float, lease_seconds: float, paused_judges: Names = (), paused_monitors: Names = ()
    ) -> Sequence[Evaluation]:
        """Take up to `limit` pending evaluations that are due; their invocations are read in the caller's thread."""
        turn = next(self._turns)
        paused = evaluations.Paused(paused_judges, paused_monitors)
        claims = self._writer.call(
            lambda c: evaluations.claim(c, limit, now, lease_seconds, paused, turn), durable=False
        )
        if not claims:
            return ()
        with self._reads.snapshot() as connection:
            read, assembled = evaluations.read_claims(connection, claims, self._assemble)
        if assembled:
            ready = [(row, change, traces.content_of(change)) for row, change in assembled]
            self._writer.call(lambda c: traces.save_assembled(c, ready), durable=False)
        return read

    def finish_evaluations(self, results: Sequence[tuple[Evaluation, Verdict]]) -> None:
        """Store verdicts and failed evaluations."""
        if results:
            self._writer.call(lambda c: verdicts.finish(c, results))

    def postpone_evaluation(self, evaluation: Evaluation, until: float) -> None:
        """Give a claim back for later, with one attempt more."""
        self._writer.call(lambda c: evaluations.postpone(c, evaluation, until), durable=False)

    def release_evaluations(self, claimed: Sequence[Evaluation]) -> None:
        """Give claims back as they were."""
        self._writer.call(lambda c: evaluations.release(c, claimed), durable=False)

    def release_all_claims(self) -> int:
        """Give back all claims of a process that is no more."""
        return self._writer.call(evaluations.release_all)

    def pending(self, now: float) -> Sequence[PendingCount]:
        """Waiting and claimed evaluations by monitor."""
        with self._reads.snapshot() as connection:
            return evaluations.pending(connection)

    # -- rubric versions
    def remember_rubric(self, version: str, definition: Mapping[str, Any], now: float) -> None:
        """Keep the full definition of a rubric version; the first definition stays."""
        self._writer.call(lambda c: small_tables.remember_rubric(c, version, definition, now))

    def rubric_definition(self, version: str) -> Mapping[str, Any] | None:
        """The definition of a rubric version, or None."""
        with self._reads.snapshot() as connection:
            return small_tables.rubric_definition(connection, version)

    # -- figures
    def tallies(self) -> Sequence[Tally]:
        """All tallies."""
        with self._reads.snapshot() as connection:
            return read_tallies(connection, self._tallies)

    def add_tally(self, metric: str, labels: Mapping[str, str], amount: float, now: float) -> None:
        """Count something that no other method counts."""
        counting = Counting()
        counting.add(metric, labels, now, amount)
        self._writer.call(counting.write, durable=False)

    def judged(self, monitor: str, since: float, until: float) -> Sequence[Judged]:
        """The counted verdicts of invocations that ended in [since, until)."""
        with self._reads.snapshot() as connection:
            return figures.judged(connection, monitor, since, until)

    def stratum_verdicts(self, monitor: str, since: float, until: float) -> Mapping[str, tuple[int, int]]:
        """Passed and failed by stratum."""
        with self._reads.snapshot() as connection:
            return figures.stratum_verdicts(connection, monitor, since, until)

    def unscored(self, monitor: str, since: float, until: float) -> Sequence[Judged]:
        """Evaluations of invocations that ended in [since, until) which have no verdict."""
        with self._reads.snapshot() as connection:
            return figures.unscored(connection, monitor, since, until)

    def window_figures(self, monitor: str, since: Sequence[float], until: float) -> WindowFigures:
        """Sums over the evaluations of windows, by group."""
        with self._reads.snapshot() as connection:
            return figures.window_figures(connection, monitor, since, until)

    # -- regressions
    def verdict_log(self, after: int, limit: int) -> Sequence[LoggedVerdict]:
        """First verdicts in the order in which they were stored."""
        with self._reads.snapshot() as connection:
            return verdict_log.read_log(connection, after, limit)

    def criterion_scores(
        self, series: SeriesKey, rubric_version: str, since: float, until: float, limit: int = 2000
    ) -> Sequence[CriterionScores]:
        """Scores of single criteria, newest first."""
        with self._reads.snapshot() as connection:
            return verdict_log.criterion_scores(connection, series, rubric_version, since, until, limit)

    def regression_state(self) -> RegressionState:
        """What detection has kept."""
        with self._reads.snapshot() as connection:
            return verdict_log.read_regression_state(connection)

    def save_regression_state(
        self, read_from: int, state: RegressionState, alarms: Mapping[str, Mapping[str, Any]]
    ) -> bool:
        """Keep what detection has made of the log."""
        return self._writer.call(lambda c: verdict_log.save_regression_state(c, read_from, state, alarms))

    def regressions(self, limit: int = 1000) -> Sequence[Mapping[str, Any]]:
        """Alarms, newest first."""
        with self._reads.snapshot() as connection:
            return verdict_log.read_regressions(connection, limit)

    # -- judge trust
    def save_label_draws(self, draws: Sequence[LabelDraw]) -> None:
        """Keep what people are asked to label."""
        self._writer.call(lambda c: labels.save_draws(c, draws))

    def save_labels(self, given: Sequence[HumanLabel], now: float) -> Sequence[int]:
        """Keep labels; the places of those that are about nothing that is known."""
        return self._writer.call(lambda c: labels.save_labels(c, given, now))

    def open_draws(self, labeler: str, since: float) -> Sequence[LabelDraw]:
        """Draws made since a time that this person has not labelled."""
        with self._reads.snapshot() as connection:
            return browsing.open_draws(connection, labeler, since)

    def label_draw(self, draw_id: str) -> LabelDraw | None:
        """A draw by its id, or None."""
        with self._reads.snapshot() as connection:
            return browsing.label_draw(connection, draw_id)

    def labelled(self, since: float) -> Sequence[Labelled]:
        """Labels beside verdicts."""
        with self._reads.snapshot() as connection:
            return labels.labelled(connection, since)

    def add_judge_checks(self, checks: Sequence[JudgeCheck]) -> None:
        """Keep repeated judgements."""
        self._writer.call(lambda c: labels.add_checks(c, checks))

    def judge_checks(self, since: float) -> Sequence[JudgeCheck]:
        """Repeated judgements, oldest first."""
        with self._reads.snapshot() as connection:
            return labels.read_checks(connection, since)

    # -- listings
    def list_invocations(self, query: Query) -> Page:
        """Invocations as JSON, newest first."""
        with self._reads.snapshot() as connection:
            return listings.invocations(connection, query, self._assemble)

    def list_verdicts(self, query: Query) -> Page:
        """Verdicts as JSON, newest first."""
        with self._reads.snapshot() as connection:
            return listings.verdicts(connection, query)

    def list_evaluations(self, query: Query) -> Page:
        """Evaluations by state, newest first."""
        with self._reads.snapshot() as connection:
            return listings.evaluations(connection, query)

    def list_runs(self, query: Query) -> Page:
        """Runs, newest first."""
        with self._reads.snapshot() as connection:
            return listings.runs(connection, query)

    def decisions(self, trace_id: str) -> Sequence[Mapping[str, Any]]:
        """Per invocation of the trace and monitor: what was decided and why, and the evaluations that came of it."""
        with self._reads.snapshot() as connection:
            return explanations.decisions(connection, trace_id)

    def list_answers(self, query: AnswerQuery) -> Page:
        """Invocations or verdicts as the pages show them, newest first."""
        with self._reads.snapshot() as connection:
            return browsing.answers(connection, query, self._assemble)

    def criteria_counts(self, monitor: str, since: float, until: float, limit: int) -> Sequence[CriteriaCount]:
        """What the criteria scored in the newest verdicts of a time."""
        with self._reads.snapshot() as connection:
            return browsing.criteria(connection, monitor, since, until, limit)

    def dialects(self, limit: int) -> Sequence[DialectCount]:
        """In which dialects the newest invocations came and what they lacked."""
        with self._reads.snapshot() as connection:
            return browsing.dialects(connection, limit, self._assemble)

    # -- erasing
    def conversations_named(
        self, conversation_id: str, service: str | None = None, environment: str | None = None
    ) -> Sequence[tuple[ConversationKey, int]]:
        """Which conversations `forget` would erase."""
        which = forgetting.WhichConversations(conversation_id, service, environment)
        with self._reads.snapshot() as connection:
            return forgetting.conversations_named(connection, which)

    def forget(
        self, *, trace_id: str | None = None, conversation_id: str | None = None, service: str | None = None,
        environment: str | None = None, now: float = _FOR_EVER,
    ) -> int:  # fmt: skip
        """Erase the content of a trace or of conversations, from the write-ahead log as well."""
        if (trace_id is None) == (conversation_id is None):
            raise ValueError("give trace_id or conversation_id, one of them")
        if trace_id is not None:
            touched = self._writer.call(lambda c: forgetting.forget_trace(c, trace_id, now))
        else:
            which = forgetting.WhichConversations(conversation_id or "", service, environment)
            touched = self._writer.call(lambda c: forgetting.forget_conversations(c, which, now))
        self._tidy_log(erased=True)
        return touched

    def drop_unwanted_content(self, limit: int = 1000, *, judged_too: bool = False) -> int:
        """Erase content of invocations that every monitor has considered and none has drawn; returns of how many."""
        dropped = self._writer.call(lambda c: erasure.drop_unwanted(c, limit, judged_too), durable=False)
        self._log_holds_erased = self._log_holds_erased or dropped > 0
        return dropped

    def expire(self, now: float, content_seconds: float, verdict_seconds: float, max_bytes: int | None) -> None:
        """Apply the retention, a batch per transaction."""
        erased = self._until_none(lambda c: erasure.expire_content(c, now - content_seconds, _BATCH))
        erased = self._until_none(lambda c: erasure.expire_rows(c, now - verdict_seconds, _BATCH)) or erased
        self._writer.call(lambda c: erasure.expire_runs(c, now - verdict_seconds))
        self._writer.call(lambda c: forgetting.expire_forgotten(c, now - verdict_seconds))
        self._writer.call(lambda c: labels.expire_checks(c, now - verdict_seconds))
        while max_bytes is not None and self._writer.call(used_bytes) > max_bytes:
            if not self._writer.call(lambda c: erasure.expire_content(c, float("inf"), _SMALL_BATCH)):
                break
            erased = True
        while self._writer.outside(give_back):
            pass
        self._tidy_log(erased=erased)

    def _until_none(self, erase: Callable[[sqlite3.Connection], int]) -> bool:
        """Erase batch by batch; whether there was anything."""
        erased = False
        while self._writer.call(erase):
            erased = True
        return erased

    def _tidy_log(self, *, erased: bool) -> None:
        """Empty the log when it holds what was erased, at the latest the next time that no reader is in the way; else only checkpoint it."""
        if not erased and not self._log_holds_erased:
            self._writer.outside(checkpoint)
            return
        self._log_holds_erased = False  # before: what others erase meanwhile says so again
        if not self._writer.outside(empty_log):
            self._log_holds_erased = True

    # -- leases and state
    def state(self, key: str) -> Any:
        """A JSON value kept under a key, or None."""
        with self._reads.snapshot() as connection:
            return small_tables.read_state(connection, key)

    def set_state(self, key: str, value: Any) -> None:
        """Keep a JSON value under a key."""
        self._writer.call(lambda c: small_tables.write_state(c, key, value))

    def acquire_lease(self, name: str, owner: str, now: float, ttl_seconds: float) -> bool:
        """Take or renew a lease; False while another owner holds it."""
        return self._writer.call(lambda c: small_tables.acquire_lease(c, name, owner, now, ttl_seconds), durable=False)

    def release_lease(self, name: str, owner: str) -> None:
        """Give a lease up."""
        self._writer.call(lambda c: small_tables.release_lease(c, name, owner), durable=False)

    def check_writable(self) -> None:
        """Raise StoreUnwritable when nothing can be stored: a value is written and committed."""
        self._writer.call(lambda c: small_tables.write_state(c, "writable", True))

    def close(self) -> None:
        """Finish what is under way and close; may be called twice."""
        self._writer.close()
        self._reads.close()
