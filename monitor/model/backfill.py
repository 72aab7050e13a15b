"""Backfills: scoring of stored history, beside the runs of schedules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from monitor.clock import rfc3339

BACKFILL_TICK = 4_102_444_800.0
"""Ticks from here on (2100-01-01Z, seconds since 1970-01-01Z) are numbers of backfills: behind every tick of a schedule, so that what is
drawn live is judged first.
"""

Position = tuple[int, int]
"""(end in nanoseconds, row): how far a backfill has looked."""


class BackfillStatus(StrEnum):
    """Where a backfill stands; only RUNNING ones go on, also after a restart."""

    RUNNING = "running"
    DONE = "done"
    OVER_BUDGET = "over_budget"
    FAILED = "failed"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class BackfillAsked:
    """What a backfill is asked to do: score what ended in [since, until), or with `errors` only evaluations that failed.

    At most about `limit` invocations are drawn; `max_tokens` and `max_usd` are its own budget. With a `collector` its source is read again first.
    """

    monitor: str
    since: float
    until: float
    errors: bool = False
    limit: int | None = None
    max_tokens: int | None = None
    max_usd: float | None = None
    collector: str | None = None


@dataclass(frozen=True, slots=True)
class BackfillPage:
    """What one step of a backfill found among the next invocations, and did.

    `fresh` were not considered before and match; `drawn` of them (and of those drawn by earlier runs that lack a rubric version) got
    evaluations. `without_content` cannot be judged any more. `position` is where to go on, None at the end. `first_row` and `last_row`
    bound the rows of the new evaluations.
    """

    looked_at: int = 0
    fresh: int = 0
    drawn: int = 0
    evaluations: int = 0
    without_content: int = 0
    position: Position | None = None
    first_row: int = 0
    last_row: int = 0


@dataclass(frozen=True, slots=True)
class BackfillUse:
    """What evaluations of a backfill came to: still pending, judged, failed, and what they consumed; USD None where a price is unknown."""

    pending: int = 0
    judged: int = 0
    failed: int = 0
    tokens: int = 0
    usd: float = 0.0


@dataclass(frozen=True, slots=True)
class Backfill:
    """A backfill as it is kept. Times are seconds since 1970-01-01Z; `rate` is the probability with which fresh invocations are drawn.

    With a `collector` its source is read first, up to `read_until` so far: `traces` were found, `spans` handed over, `left_out` traces could not be
    taken; `is_read` once all of that has settled. With `dry_run` the source is only searched, and nothing is drawn.
    """

    id: str
    number: int
    monitor: str
    since: float
    until: float
    created_at: float
    rate: float
    errors: bool = False
    max_tokens: int | None = None
    max_usd: float | None = None
    status: BackfillStatus = BackfillStatus.RUNNING
    message: str = ""
    position: Position | None = None
    expected: int = 0
    looked_at: int = 0
    drawn: int = 0
    evaluations: int = 0
    judged: int = 0
    failed: int = 0
    without_content: int = 0
    tokens: int = 0
    usd: float = 0.0
    ended: bool = False
    batch: tuple[int, int] | None = field(default=None)
    collector: str | None = None
    dry_run: bool = False
    limit: int | None = None
    read_until: float | None = None
    is_read: bool = False
    traces: int = 0
    spans: int = 0
    left_out: int = 0
    was_cut: bool = False
    estimate: Mapping[str, Any] | None = None

    @property
    def tick(self) -> float:
        """What its evaluations are told by."""
        return BACKFILL_TICK + self.number

    def as_json(self) -> dict[str, Any]:
        """For the store."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__} | {"status": self.status.value}

    @classmethod
    def from_json(cls, saved: Mapping[str, Any]) -> Backfill:
        """From the store; unknown keys of a newer version are left out."""
        known = {name: value for name, value in saved.items() if name in cls.__dataclass_fields__}
        pairs = {key: tuple(known[key]) for key in ("position", "batch") if known.get(key) is not None}
        return cls(**{**known, **pairs, "status": BackfillStatus(known["status"])})

    def plus(self, page: BackfillPage) -> Backfill:
        """With one more step."""
        rows = (page.first_row, page.last_row) if page.evaluations else None
        return replace(
            self,
            looked_at=self.looked_at + page.looked_at,
            drawn=self.drawn + page.drawn,
            evaluations=self.evaluations + page.evaluations,
            without_content=self.without_content + page.without_content,
            position=page.position,
            ended=page.position is None,
            batch=rows,
        )

    def used(self, use: BackfillUse) -> Backfill:
        """With a batch that has been judged."""
        return replace(
            self,
            judged=self.judged + use.judged,
            failed=self.failed + use.failed,
            tokens=self.tokens + use.tokens,
            usd=self.usd + use.usd,
            batch=None,
        )


def shown(one: Backfill) -> dict[str, Any]:
    """A backfill as the API shows it."""
    return {
        "id": one.id, "monitor": one.monitor, "since": rfc3339(one.since), "until": rfc3339(one.until),
        "created_at": rfc3339(one.created_at), "errors": one.errors, "status": one.status.value,
        "message": one.message or None, "rate": one.rate, "expected": one.expected, "looked_at": one.looked_at,
        "drawn": one.drawn, "evaluations": one.evaluations, "judged": one.judged, "failed": one.failed,
        "without_content": one.without_content, "tokens": one.tokens, "usd": round(one.usd, 6),
        "max_tokens": one.max_tokens, "max_usd": one.max_usd, "collector": one.collector, "dry_run": one.dry_run,
        "read_until": None if one.read_until is None else rfc3339(one.read_until), "traces": one.traces,
        "left_out": one.left_out, "cut": one.was_cut, "estimate": dict(one.estimate) if one.dry_run and one.estimate else None,
    }  # fmt: skip
