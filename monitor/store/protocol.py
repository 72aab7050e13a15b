"""The contract of the store: the only state besides the journal. `tests/contracts/store_contract.py` proves it of any store.

All methods block and may be called from any thread; each is one transaction: it happened wholly or not at all, also
when the process dies in the middle (`expire` and `forget` are several, each complete in itself, and go on where they were when called
again). Times are seconds since 1970-01-01Z and always arguments.

Longer than 400 lines on purpose: one contract, read from one place.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Protocol

from monitor.model.backfill import BackfillPage, BackfillUse, Position
from monitor.model.browsing import AnswerQuery, CriteriaCount, DialectCount, EarlierRevision
from monitor.model.conversation import ConversationKey
from monitor.model.evidence import CriterionScores, LoggedVerdict, RegressionState, SeriesKey
from monitor.model.invocation import Invocation
from monitor.model.labels import HumanLabel, JudgeCheck, LabelDraw, Labelled
from monitor.model.run import (
    Candidate,
    Decision,
    Evaluation,
    JournalPosition,
    Judged,
    Page,
    PendingCount,
    Query,
    Run,
    RunPlan,
    RunRequest,
    StoredTrace,
    Stratum,
    Tally,
    TiedTrace,
    TraceSettlement,
)
from monitor.model.totals import WindowFigures
from monitor.model.verdict import Verdict


class StoreUnwritable(Exception):
    """The store cannot be written (disk full, read-only, damaged): nothing was stored. The message says which and where."""


class StoreTooNew(Exception):
    """The database was written by a newer rubricd; the message names both schema versions."""


class InvalidCursor(ValueError):
    """A `Query.cursor` that did not come from a page of the same listing."""


Recompute = Callable[
    [Sequence[Stratum], Sequence[Decision], Collection[str]], tuple[Sequence[Stratum], Sequence[Decision]]
]
"""(strata, drawn decisions, ids taken up) of a run -> both as they are after the run was cut: `sampling.recompute_over_budget`."""


class Store(Protocol):
    """Everything rubricd remembers."""

    # -- traces and invocations ------------------------------------------------------------------------------------
    def save_traces(self, settlements: Sequence[TraceSettlement]) -> None:
        """Store settled traces. New invocations wait for each of the settlement's monitors; an invocation that exists is replaced
        by its revision, keeps its decisions, and with `rejudge` gets new pending evaluations for the rubric versions it
        was drawn for and has been judged by, as found in this transaction. Counts `invocations_total` once per id. Saving the same settlement twice changes nothing.
        """
        ...

    def trace(self, trace_id: str) -> StoredTrace | None:
        """A settled trace with its invocations, which are those of its turn where that lies in several traces; or None."""
        ...

    def consumed_positions(self, trace_ids: Collection[str]) -> Mapping[str, JournalPosition]:
        """For those of the traces that have settled: up to where the journal has been read for them."""
        ...

    def tied_traces(
        self, trace_ids: Collection[str], keys: Collection[int], windows: Collection[tuple[int, int, int]], limit: int
    ) -> Sequence[TiedTrace]:
        """Traces with a tie that are named, have a key, or have the key of a window at a time in it; with all of their turns (`TiedTrace`)."""
        ...

    def invocation(self, invocation_id: str) -> Invocation | None:
        """An invocation by its id. Once its content was erased, `completeness.capture` says `redacted` of what is gone and tool calls have
        their names only. The id of an invocation that was merged into another gives that other one.
        """
        ...

    def complete_conversations(self, silent_since: float, monitors: Sequence[str], now: float, limit: int = 100) -> int:
        """Complete up to `limit` conversations of which no turn was stored or revised after `silent_since`: each becomes something to be considered
        by each of `monitors`, once, under the id `conversation:<id>`. One that was complete before and has changed gets a new revision, which keeps
        its decisions and is judged again where it has been judged. One that has not been silent for a day is completed too, settled by `max_age`. The content of its turns is kept until every monitor has considered it, and as long
        as one has drawn it. Without monitors nothing becomes complete any more, and what was kept for it is let go. Returns how many were looked at.
        """
        ...

    def earlier_revisions(self, invocation_id: str) -> Sequence[EarlierRevision]:
        """Revisions of an invocation before its newest that are still kept, with the verdicts that they had, newest first. They are content."""
        ...

    # -- runs --------------------------------------------------------------------------------------------------------
    def last_run(self, monitor: str, *, completed: bool = False) -> Run | None:
        """The monitor's newest run by tick, or None. With `completed`, failed runs, whose ticks are still to be run, are passed over."""
        ...

    def oldest_waiting(self, monitor: str) -> float | None:
        """When the oldest invocation settled that the monitor has not yet considered, or None. A monitor without a run starts from there."""
        ...

    def execute_run(self, request: RunRequest, decide: Callable[[Sequence[Candidate], float], RunPlan]) -> Run | None:
        """One tick: `decide(candidates, carry)` gets the invocations that settled before `settled_before` and that this monitor has
        not yet considered, ordered by (settled_at, id), and the carry of the last run. Its decisions, the marks, the pending
        evaluations and the run are stored together. A candidate without a decision stays unconsidered. Returns None and changes
        nothing when that tick was already run; a tick that failed may be run again.
        """
        ...

    def miss_run(self, request: RunRequest) -> Run | None:
        """Record a tick that is not caught up: what it would have taken is counted not selected, reason `missed`. The carry stays what it
        was. Returns None and changes nothing when that tick was already run.
        """
        ...

    def fail_run(self, request: RunRequest, error: str) -> None:
        """Record that a tick failed; its candidates stay unconsidered, and the tick may be run again."""
        ...

    def cut_run(
        self, monitor: str, tick: float, recompute: Recompute, now: float, judges: Collection[str] | None = None
    ) -> int:
        """End a run early because its budget is spent: for the rubrics that these judges, or any, are asked for. Invocations of which none of those
        evaluations was ever claimed are given up: those evaluations go, and they count as not selected, reason `over_budget` (besides `selected_total`,
        which never goes back). The evaluations and verdicts that are left by those rubrics get the probabilities that `recompute` returns.
        Rubrics without a judge, and of other judges, keep all that was drawn with its probability, and so does the run's decision; where there are none
        it, too, is that of the smaller draw. Returns how many were given up.
        """
        ...

    def pending_ticks(self, monitor: str) -> Sequence[float]:
        """The runs of a monitor that have left evaluations which are not finished, by tick; a backfill is no run."""
        ...

    def retire_monitors(self, active: Collection[str]) -> int:
        """Drop what waits for monitors that are not among the active ones, so that content is not kept for them. Returns how many
        considerations were dropped. Their pending evaluations stay and are judged.
        """
        ...

    def release_waiting(self, monitor: str) -> int:
        """Drop what waits for one monitor, or for one backfill (`monitor.model.origin.waits_as`), which `retire_monitors` leaves alone. Returns how
        many considerations were dropped.
        """
        ...

    # -- backfills -----------------------------------------------------------------------------------------------------
    def backfill_look(
        self,
        request: RunRequest,
        span: tuple[float, float],
        after: Position | None,
        limit: int,
        decide: Callable[[Sequence[Candidate]], RunPlan],
    ) -> BackfillPage:
        """What `backfill_step` would do, without doing it."""
        ...  # fmt: skip

    def backfill_step(
        self,
        request: RunRequest,
        span: tuple[float, float],
        after: Position | None,
        limit: int,
        decide: Callable[[Sequence[Candidate]], RunPlan],
    ) -> BackfillPage:
        """The next `limit` invocations that ended in [since, until), after a position, in one transaction. Those that the monitor has not
        considered, or whose tick was missed, are drawn from by `decide`; those that an earlier run drew get evaluations for the rubric
        versions that they lack, but for those that it gave up, with the draw and probability that they had. What waits for a run is left to it. Evaluations get
        `request.tick`, which lies behind every tick of a schedule.
        """
        ...  # fmt: skip

    def backfill_errors(self, request: RunRequest, span: tuple[float, float], *, count_only: bool = False) -> int:
        """Let failed evaluations of invocations that ended in [since, until) be judged once more (or only count them); how many."""
        ...

    def backfill_use(self, monitor: str, tick: float, rows: tuple[int, int]) -> BackfillUse:
        """What the evaluations of that monitor and tick among those rows came to; while any is pending only how many are."""
        ...

    def mean_use(self, rubric_version: str) -> tuple[float, float | None] | None:
        """(tokens, USD) of one judged verdict of a rubric version on average, lately; None without any, USD None without prices."""
        ...

    # -- evaluations ---------------------------------------------------------------------------------------------------
    def claim_evaluations(
        self,
        limit: int,
        now: float,
        lease_seconds: float,
        paused_judges: Collection[str] = (),
        paused_monitors: Collection[str] = (),
    ) -> Sequence[Evaluation]:
        """Take up to `limit` pending evaluations that are due, oldest run first and within a run in the order of u, round-robin over monitors.
        A claim that is neither finished nor postponed within its lease may be claimed again, with one attempt more. Evaluations of
        `paused_judges` stay, and those of `paused_monitors` that need a judge. One whose invocation cannot be read is marked `unreadable` and holds up no other.
        """
        ...

    def finish_evaluations(self, results: Sequence[tuple[Evaluation, Verdict]]) -> None:
        """Store verdicts and failed evaluations. The first verdict of (invocation, monitor, rubric version) counts in the tallies; that of
        a later revision replaces it and counts as revised. A result of an older revision than what is stored or wanted changes
        nothing, nor does a second one of the same revision. A failed evaluation is counted in `evaluation_errors_total` and leaves an
        earlier verdict as it is; a later success is the first verdict. Explanations are kept only while the invocation's content is.
        """
        ...

    def postpone_evaluation(self, evaluation: Evaluation, until: float) -> None:
        """Give a claim back for later, with one attempt more. Changes nothing when the claim was lost meanwhile."""
        ...

    def release_evaluations(self, evaluations: Sequence[Evaluation]) -> None:
        """Give claims back as they were (drain)."""
        ...

    def release_all_claims(self) -> int:
        """Give back every claim, whoever holds it, with one attempt and one crash more, and say how many there were. For the start of a process that
        knows to be the only one on this store: what an earlier one was judging when it was killed need not wait for its lease.
        """
        ...

    def pending(self, now: float) -> Sequence[PendingCount]:
        """Waiting and claimed evaluations by monitor."""
        ...

    # -- rubric versions -----------------------------------------------------------------------------------------------
    def remember_rubric(self, version: str, definition: Mapping[str, Any], now: float) -> None:
        """Keep the full definition of a rubric version; the first definition stays."""
        ...

    def rubric_definition(self, version: str) -> Mapping[str, Any] | None:
        """The definition of a rubric version, or None."""
        ...

    # -- figures -------------------------------------------------------------------------------------------------------
    def tallies(self) -> Sequence[Tally]:
        """All tallies; names, labels and buckets as in `monitor.model.tallies`. Cheap: a scrape calls it. The label sets of `verdicts_total`
        appear, with 0 for every verdict, when their first invocation is drawn.
        """
        ...

    def add_tally(self, metric: str, labels: Mapping[str, str], amount: float, now: float) -> None:
        """Count something that no other method counts."""
        ...

    def judged(self, monitor: str, since: float, until: float) -> Sequence[Judged]:
        """The counted verdicts of invocations that ended in [since, until), for estimation. An invocation that says that it ended after it
        had settled ended when it settled; one that was merged into another has none.
        """
        ...

    def stratum_verdicts(self, monitor: str, since: float, until: float) -> Mapping[str, tuple[int, int]]:
        """(passed, failed) counted verdicts of invocations that ended in [since, until), by the stratum that they were drawn from."""
        ...

    def unscored(self, monitor: str, since: float, until: float) -> Sequence[Judged]:
        """Evaluations of invocations that ended in [since, until) which have no verdict: `outcome` is their state, error or pending."""
        ...

    def window_figures(self, monitor: str, since: Sequence[float], until: float) -> WindowFigures:
        """For each start in `since`: sums over the evaluations of invocations that ended in [start, until), by rubric, rubric version, agent,
        agent version and environment, and how many invocations were eligible. Counted verdicts enter by their latest
        revision, failed evaluations as unscored, pending ones not at all. Aggregated in the store: a scrape calls it.
        """
        ...

    # -- regressions ---------------------------------------------------------------------------------------------------
    def verdict_log(self, after: int, limit: int) -> Sequence[LoggedVerdict]:
        """First verdicts, pass or fail, with a number above `after`, in the order in which they were stored. Each (invocation, monitor, rubric
        version) is in it once at most, whatever is judged again, replayed or restarted; it stays until its verdict's retention is over.
        """
        ...

    def criterion_scores(
        self, series: SeriesKey, rubric_version: str, since: float, until: float, limit: int = 2000
    ) -> Sequence[CriterionScores]:
        """The scores of single criteria of a series' counted verdicts of invocations that ended in [since, until), newest first."""
        ...

    def regression_state(self) -> RegressionState:
        """What regression detection has kept; cursor 0 and nothing else at first."""
        ...

    def save_regression_state(
        self, read_from: int, state: RegressionState, alarms: Mapping[str, Mapping[str, Any]]
    ) -> bool:
        """Keep the cursor, what was counted of monitors, those series and those alarms (JSON with `opened_at`, by id), together. Other series and
        alarms stay. False, and nothing is kept, when the cursor is no longer `read_from`: somebody else has read on.
        """
        ...

    def regressions(self, limit: int = 1000) -> Sequence[Mapping[str, Any]]:
        """Alarms as they were saved, newest first."""
        ...

    # -- judge trust ---------------------------------------------------------------------------------------------------
    def save_label_draws(self, draws: Sequence[LabelDraw]) -> None:
        """Keep what people are asked to label. A draw id that is there stays as it is."""
        ...

    def save_labels(self, given: Sequence[HumanLabel], now: float) -> Sequence[int]:
        """Keep labels; a person's later label of the same invocation and rubric replaces the earlier. Returns the places in `given` of labels about an
        invocation that is not stored, or that name a draw which did not draw it for that rubric: those are not kept. Comments are content.
        """
        ...

    def open_draws(self, labeler: str, since: float) -> Sequence[LabelDraw]:
        """Draws made since a time that this person has not labelled and whose content is there, in the order in which they were drawn."""
        ...

    def label_draw(self, draw_id: str) -> LabelDraw | None:
        """A draw by its id, or None."""
        ...

    def labelled(self, since: float) -> Sequence[Labelled]:
        """Labels given since a time, each beside the verdict that it is about; those without a verdict are left out."""
        ...

    def add_judge_checks(self, checks: Sequence[JudgeCheck]) -> None:
        """Keep repeated judgements; one of the same key and round replaces the earlier."""
        ...

    def judge_checks(self, since: float) -> Sequence[JudgeCheck]:
        """Repeated judgements since a time, oldest first."""
        ...

    # -- listings ------------------------------------------------------------------------------------------------------
    def list_invocations(self, query: Query) -> Page:
        """Invocations as JSON (contract section 3), newest first."""
        ...

    def list_verdicts(self, query: Query) -> Page:
        """Verdicts as JSON (contract section 4), newest first."""
        ...

    def list_evaluations(self, query: Query) -> Page:
        """Evaluations by state; those in error carry the failed evaluation as JSON."""
        ...

    def list_runs(self, query: Query) -> Page:
        """Runs, newest first."""
        ...

    def decisions(self, trace_id: str) -> Sequence[Mapping[str, Any]]:
        """Per invocation of the trace and monitor: what was decided, why, with which u and probability; and the evaluations that came of it."""
        ...

    def list_answers(self, query: AnswerQuery) -> Page:
        """Invocations, or their verdicts, with what the pages show of them, newest first by the end. An item has `id`, `trace_id`,
        `conversation_id`, `agent`, `agent_version`, `environment`, `started_at` and `ended_at` (seconds), `revision`, `has_error`, `turns` (of a conversation), `tools`,
        `has_content`, the beginnings of `user_input` and `final_response`, `verdicts` (every evaluation, without explanations), and in a
        listing of verdicts the `matched` one and the beginning of its `explanation`.
        """
        ...

    def criteria_counts(self, monitor: str, since: float, until: float, limit: int) -> Sequence[CriteriaCount]:
        """What the criteria scored in the newest `limit` verdicts of invocations that ended in [since, until), equal ones counted together."""
        ...

    def dialects(self, limit: int) -> Sequence[DialectCount]:
        """By collector, agent and dialect: how many of the newest `limit` invocations, and what they lacked; most frequent first."""
        ...

    # -- erasing -------------------------------------------------------------------------------------------------------
    def conversations_named(
        self, conversation_id: str, service: str | None = None, environment: str | None = None
    ) -> Sequence[tuple[ConversationKey, int]]:
        """Which stored conversations `forget` would erase, with how many turns each, by key; also where no monitor is about conversations."""
        ...

    def forget(
        self, *, trace_id: str | None = None, conversation_id: str | None = None, service: str | None = None,
        environment: str | None = None, now: float = 1e18,
    ) -> int:  # fmt: skip
        """Erase the content of a trace or of conversations, verdicts' explanations included; numbers, ids and tallies stay.

        `conversation_id` means the conversations of that id of all services and environments, or those of one; or, where no such id is stored,
        the one of that full name (`conversation:ID@suffix`, `ID@suffix`).
        Returns how many stored invocations it touched. What is still open, of the trace or of invocations of the conversation that began
        until `now`, will be stored without content when it settles.
        """
        ...

    def drop_unwanted_content(self, limit: int = 1000, *, judged_too: bool = False) -> int:
        """Erase content of invocations that every monitor has considered and none has drawn (`store_content: selected`); with `judged_too`
        also of those whose evaluations have all ended (`store_content: none`). Returns how many it touched, `limit` at most.
        """
        ...

    def expire(self, now: float, content_seconds: float, verdict_seconds: float, max_bytes: int | None) -> None:
        """Apply the retention: content, then verdicts and runs by age, oldest content first while larger than `max_bytes`. Tallies, rubric
        definitions and each monitor's newest run stay.
        """
        ...

    # -- leases and state ----------------------------------------------------------------------------------------------
    def state(self, key: str) -> Any:
        """A JSON value kept under a key (what budgets have spent, say), or None."""
        ...

    def set_state(self, key: str, value: Any) -> None:
        """Keep a JSON value under a key."""
        ...

    def acquire_lease(self, name: str, owner: str, now: float, ttl_seconds: float) -> bool:
        """Take or renew a lease; False while another owner holds it."""
        ...

    def release_lease(self, name: str, owner: str) -> None:
        """Give a lease up."""
        ...

    def check_writable(self) -> None:
        """Raise StoreUnwritable when nothing can be stored."""
        ...

    def close(self) -> None:
        """Finish what is under way and close; may be called twice."""
        ...
