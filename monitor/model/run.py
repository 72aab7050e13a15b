"""Runs, their candidates and decisions, and the evaluations they leave behind (contract section 2)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from collectors.immutable import immutable
from monitor.model.invocation import Invocation
from monitor.model.verdict import NotSelected


class Level(StrEnum):
    """What a monitor judges."""

    INVOCATION = "invocation"
    CONVERSATION = "conversation"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A settled invocation, or a complete conversation, that a monitor has not yet considered: the figures that selection and sampling look at.

    Of a conversation they are its last turn's; `tools` are those of all turns, `has_error` says that any of them failed, `attributes` are those
    of all turns, the later one counts, and `upstream_probability` is that of its least likely turn. `ended_at` and `settled_at` are seconds since 1970-01-01Z; `kept_below` is the largest rate of an early drop at intake, 1.0 when
    every span was kept.
    """

    invocation_id: str
    trace_id: str
    conversation_id: str | None
    agent_name: str | None
    agent_version: str | None
    environment: str | None
    service: str | None
    model: str | None
    operation: str | None
    collector: str
    settled_by: str
    tools: tuple[str, ...]
    has_error: bool
    attributes: Mapping[str, Any]
    ended_at: float
    settled_at: float
    upstream_probability: float = 1.0
    kept_below: float = 1.0
    revision: int = 1
    turns: int = 0
    """How many turns a conversation has; 0 for an invocation."""

    @property
    def sampling_key(self) -> str:
        """What decides its sampling number: the trace id, of a conversation its id (contract section 2)."""
        return self.conversation_id if self.turns and self.conversation_id is not None else self.trace_id


@dataclass(frozen=True, slots=True)
class Decision:
    """What a run decided about one candidate: drawn, or the reason why not. `number` is the sampling number u."""

    invocation_id: str
    drawn: bool
    reason: NotSelected | None
    number: float
    inclusion_probability: float
    stratum: str = ""
    detail: str = ""
    """For people: which key of `select` did not match, and so on. Never content."""


@dataclass(frozen=True, slots=True)
class RubricRef:
    """A rubric of a monitor as it is drawn for: name, version and the judge's name (None without a judge)."""

    rubric: str
    version: str
    judge: str | None = None
    shadow: bool = False


@dataclass(frozen=True, slots=True)
class RunRequest:
    """One tick of one monitor; `tick` is seconds since 1970-01-01Z. Candidates settled before `settled_before`.

    `by_tools`: the monitor looks at `Candidate.tools`; else they may be left out where only assembly would tell.
    """

    monitor: str
    tick: float
    settled_before: float
    rubrics: tuple[RubricRef, ...]
    started_at: float
    level: Level = Level.INVOCATION
    by_tools: bool = True


@dataclass(frozen=True, slots=True)
class Stratum:
    """A stratum of a run as it was drawn from, for people and for recomputing probabilities.

    `size` invocations were eligible, each drawn below `rate`, at most `cap` of them (None: no cap). `drawn` is how many were;
    `probability` is the inclusion probability that this gave each of them, without the upstream probability.
    """

    name: str
    size: int
    rate: float
    cap: int | None
    drawn: int
    probability: float
    kept_below: float = 1.0


@dataclass(frozen=True, slots=True)
class RunPlan:
    """What the draw of a run decided, and the part of the cap it did not use, for the next run.

    A candidate without a decision stays unconsidered and comes back in the next run. `decided_at` is when the draw was done
    (seconds since 1970-01-01Z); None where nobody looked at a clock.
    """

    decisions: tuple[Decision, ...]
    carry: float = 0.0
    strata: tuple[Stratum, ...] = ()
    decided_at: float | None = None


@dataclass(frozen=True, slots=True)
class Run:
    """A run as recorded. `outcome` is done, failed or missed."""

    monitor: str
    tick: float
    started_at: float
    finished_at: float | None
    outcome: str
    considered: int = 0
    drawn: int = 0
    evaluations: int = 0
    carry: float = 0.0
    error: str | None = None
    strata: tuple[Stratum, ...] = ()


class EvaluationState(StrEnum):
    """Where an evaluation stands."""

    PENDING = "pending"
    DONE = "done"
    ERROR = "error"


MAX_CRASHES = 5
"""So often may a process end while it judges an invocation before that is taken to be the cause."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """A claimed piece of work: judge this invocation by this rubric version. `id` is the store's row key.

    `unreadable`: what is stored of the invocation is damaged; `invocation` has its ids and times only, and the evaluation is to fail.
    `crashes`: how often a process ended while it held the claim; from MAX_CRASHES on the evaluation is to fail, too.
    """

    id: int
    monitor: str
    rubric: RubricRef
    invocation: Invocation
    inclusion_probability: float
    number: float
    revision: int
    attempts: int
    created_at: float
    unreadable: bool = False
    crashes: int = 0


@dataclass(frozen=True, slots=True)
class PendingCount:
    """Evaluations of a monitor that wait, and since when the oldest does (seconds since 1970-01-01Z)."""

    monitor: str
    count: int
    oldest: float | None


@dataclass(frozen=True, slots=True)
class Tally:
    """A counted figure that outlives restarts and retention: metric name without prefix, labels, value.

    `created_at` is when the label set first appeared, `updated_at` when it last counted (seconds since 1970-01-01Z).
    `exemplar` is (trace id, time) of the newest failing verdict, where the metric carries exemplars.
    """

    metric: str
    labels: Mapping[str, str]
    value: float
    created_at: float
    updated_at: float
    exemplar: tuple[str, float] | None = None


@dataclass(frozen=True, slots=True)
class Judged:
    """A counted verdict as estimation reads it; one per (invocation, monitor, rubric version), the latest revision."""

    rubric: str
    rubric_version: str
    agent: str
    agent_version: str
    environment: str
    outcome: str
    inclusion_probability: float
    ended_at: float
    conversation_id: str | None = None
    invocation_id: str = ""
    trace_id: str = ""
    score: float | None = None


@dataclass(frozen=True, slots=True)
class Page:
    """A page of a listing: JSON objects, and the cursor of the next page or None."""

    items: tuple[dict[str, Any], ...]
    next_cursor: str | None = None


@dataclass(frozen=True, slots=True)
class Query:
    """What a listing is filtered by; a None matches all. Times are seconds since 1970-01-01Z."""

    trace_id: str | None = None
    agent: str | None = None
    monitor: str | None = None
    rubric: str | None = None
    verdict: str | None = None
    state: str | None = None
    since: float | None = None
    until: float | None = None
    by: str = "ended_at"
    cursor: str | None = None
    limit: int = 100
    conversation_id: str | None = None
    level: str | None = None
    """`conversation` lists conversations in place of invocations."""


@immutable(frozen=True, slots=True)
class JournalPosition:
    """A place in the journal: segment number and byte offset of a frame. Ordered."""

    segment: int
    offset: int

    def __lt__(self, other: JournalPosition) -> bool:
        return (self.segment, self.offset) < (other.segment, other.offset)


NOT_READ = JournalPosition(0, 0)
"""How far the journal counts as read for a trace of which invocations are stored while it is still open."""


@immutable(frozen=True, slots=True)
class InvocationChange:
    """One invocation of a settled trace as it is to be stored.

    `invocation.revision` is already right. `rejudge` asks for new evaluations where it has been judged by the time
    that the store puts the revision in place. `span_ids` are its
    member spans, `digest` a hash of its meaning (equal digests: nothing changed).

    Not `assembled` is a new one of which only the head was read: its content is in the settlement's spans and read when somebody asks.
    It has no digest yet.
    """

    invocation: Invocation
    span_ids: frozenset[str]
    digest: str
    rejudge: bool = False
    assembled: bool = True


AssembleLater = Callable[[bytes, Invocation], InvocationChange]
"""(raw spans, head) -> an invocation of which only the head was read, as it would have been stored at its settling: same id, revision and
kept attributes. Raises ValueError when the spans cannot be read."""


@dataclass(frozen=True, slots=True)
class TurnTie:
    """By what a trace may hang together with others: what is kept of it to join turns over several traces.

    `turn` is the id of the trace that the turn is named after, None while it is the only one. `keys` are pairs of a key (64 bits, signed)
    and a time in whole seconds; `pieces` is opaque to the store.
    """

    turn: str | None
    keys: tuple[tuple[int, int], ...]
    pieces: bytes


@dataclass(frozen=True, slots=True)
class TiedTrace:
    """A stored trace that was found by its tie. `turn` is its own id while it is alone.

    A store finds the newest `limit` of each key. Windows are (key, since, until), in whole seconds, both inclusive. It may forget a tie a
    day after its trace settled; one without pieces only when a newer one has its keys.
    """

    trace_id: str
    turn: str
    pieces: bytes


@immutable(frozen=True, slots=True)
class TraceSettlement:
    """A settled trace with all that one transaction stores of it.

    `spans` are its raw spans and log records, kept for late data, or None where content is not stored. `consumed` is the position behind
    the last journal frame that this settlement has read: a replay skips what lies before. `monitors` are the names
    of the monitors that are to consider its new invocations. `merged` maps ids that are no longer to the id that holds them now.
    With a `tie` the trace is found by `Store.tied_traces`.
    """

    trace_id: str
    collector: str
    settled_by: str
    settled_at: float
    consumed: JournalPosition
    span_count: int
    late_spans: int
    changes: tuple[InvocationChange, ...]
    monitors: tuple[str, ...]
    spans: bytes | None = None
    merged: Mapping[str, str] = field(default_factory=dict)
    kept_below: float = 1.0
    conversation_monitors: tuple[str, ...] = ()
    """Monitors of level conversation: while there are any, invocations are kept as turns of their conversations until those are considered."""
    late_turns: bool = True
    """Whether a turn that comes after its conversation was complete makes a new revision of it (`late_spans: rejudge`)."""
    tie: TurnTie | None = None


@dataclass(frozen=True, slots=True)
class StoredInvocation:
    """What the store knows of an invocation of a trace when more data for the trace comes. Not `assembled`: only its head, without digest."""

    invocation: Invocation
    span_ids: frozenset[str]
    digest: str
    judged: bool
    assembled: bool = True


@dataclass(frozen=True, slots=True)
class StoredTrace:
    """A settled trace as stored: its raw spans (None once erased), and its invocations."""

    trace_id: str
    settled_at: float
    settled_by: str
    consumed: JournalPosition
    late_spans: int
    spans: bytes | None
    invocations: tuple[StoredInvocation, ...]
