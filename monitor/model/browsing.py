"""What people look for among stored invocations, and what the store finds: the questions of the pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from monitor.model.invocation import Invocation


@dataclass(frozen=True, slots=True)
class AnswerQuery:
    """What a listing of answers is filtered by; a None matches all. Times are seconds since 1970-01-01Z, of the invocation's end.

    `agent` is the label. With any of `monitor`, `rubric`, `verdict`, `criterion` the listing has an item for each verdict, else for each
    invocation. `criterion` asks for verdicts in which that criterion applied and fell short of its best.
    """

    agent: str | None = None
    agent_version: str | None = None
    environment: str | None = None
    conversation_id: str | None = None
    trace_id: str | None = None
    monitor: str | None = None
    rubric: str | None = None
    rubric_version: str | None = None
    verdict: str | None = None
    criterion: str | None = None
    since: float | None = None
    until: float | None = None
    cursor: str | None = None
    limit: int = 50

    @property
    def of_verdicts(self) -> bool:
        """Whether the listing has an item for each verdict."""
        return any((self.monitor, self.rubric, self.rubric_version, self.verdict, self.criterion))


@dataclass(frozen=True, slots=True)
class CriterionScore:
    """What one criterion of a verdict scored; `best` is what it could have."""

    id: str
    score: float | None
    applicable: bool
    weight: float | None
    best: float


@dataclass(frozen=True, slots=True)
class CriteriaCount:
    """So many verdicts of a rubric had exactly these scores."""

    rubric: str
    verdict: str
    scores: tuple[CriterionScore, ...]
    count: int


DIALECTS_FROM = 2_000
"""Invocations, the newest, that dialects and gaps are counted in."""


@dataclass(frozen=True, slots=True)
class DialectCount:
    """So many invocations of an agent came in this dialect through this collector; `missing` and `capture` count those that lacked a field.

    `missing` is by field, `capture` by reason (not_captured, redacted, truncated, referenced), each invocation at most once. Only `read` of
    them were looked at for that: those that were assembled, and a sample of the others.
    """

    collector: str
    agent: str
    convention: str
    count: int
    missing: Mapping[str, int]
    capture: Mapping[str, int]
    read: int


@dataclass(frozen=True, slots=True)
class EarlierRevision:
    """An invocation as it was before late data made another revision of it, with the verdicts of that time as JSON (contract section 4)."""

    invocation: Invocation
    verdicts: Sequence[Mapping[str, Any]] = ()
