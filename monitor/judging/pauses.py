"""Which judges are not asked for the time being, why, and until when. Pure but for the times given to it."""

from __future__ import annotations

from dataclasses import dataclass

from monitor.model.verdict import ErrorType, EvaluationFailure

SHORTEST_PAUSE = 60.0
LONGEST_PAUSE = 900.0
"""Seconds. After a pause one evaluation is tried; when it meets the same fault the next pause is twice as long."""


TROUBLES_IN_A_ROW = 10
"""Evaluations that did not reach the judge, one after the other, before it is paused as if its fault were permanent (circuit breaker)."""

SHOWN_FROM, SHOWN_AFTER = 3, 10.0
"""So many evaluations in a row, over as many seconds, that failed for a reason of transport or server: the judge is shown as failing."""

LONGEST_BURST = 30.0
"""Seconds. Refusals for the rate come in bursts of whatever was under way: they pause a judge only when nothing else came for so long."""

UNREACHABLE = frozenset({ErrorType.CONNECTION, ErrorType.TIMEOUT, ErrorType.SERVER_ERROR})
TROUBLES = UNREACHABLE | {ErrorType.RATE_LIMITED}


@dataclass(frozen=True, slots=True)
class Pause:
    """A judge that is not asked before `until` (seconds since 1970-01-01Z); `seconds` is the length of this pause."""

    reason: str
    until: float
    seconds: float


@dataclass(slots=True)
class _Row:
    """Evaluations that failed one after the other: how many, since when, and why the last did."""

    since: float
    count: int = 0
    reason: str = ""
    shown: bool = False


class Pauses:
    """The pauses in force, and the judges that fail again and again, by judge."""

    def __init__(self) -> None:
        self._pauses: dict[str, Pause] = {}
        self._troubles: dict[str, _Row] = {}

    def trouble(self, judge: str, failure: EvaluationFailure, now: float) -> bool:
        """An evaluation did not reach the judge, or was refused for the rate. True when so many in a row did not that asking on would only
        use up their attempts.
        """
        row = self._troubles.setdefault(judge, _Row(now))
        row.count, row.reason = row.count + 1, failure.message
        lasting = failure.type in UNREACHABLE or now - row.since >= LONGEST_BURST
        return row.count >= TROUBLES_IN_A_ROW and lasting

    def begins_to_fail(self, judge: str, now: float) -> bool:
        """Whether the judge's troubles in a row are now worth showing; True once in a row."""
        row = self._troubles.get(judge)
        if row is None or row.shown or row.count < SHOWN_FROM or now - row.since < SHOWN_AFTER:
            return False
        row.shown = True
        return True

    def fails(self, judge: str) -> bool:
        """Whether the judge is shown as failing: it is paused by a fault or on trial, or nothing came back from it for a while."""
        row = self._troubles.get(judge)
        return self.on_trial(judge) or (row is not None and row.shown)

    def failing(self) -> dict[str, str]:
        """Why each judge fails that does so again and again, whether or not it is paused."""
        return {judge: f"every evaluation fails: {row.reason}" for judge, row in self._troubles.items() if row.shown}

    def fine(self, judge: str) -> None:
        """The judge answered, or is another one."""
        self._troubles.pop(judge, None)

    def stop(self, judge: str, reason: str, now: float) -> bool:
        """A permanent fault: pause the judge. False when it is paused already, so that only what found out is a failure."""
        earlier = self._pauses.get(judge)
        if earlier is not None and earlier.until > now:
            return False
        seconds = min(LONGEST_PAUSE, earlier.seconds * 2) if earlier else SHORTEST_PAUSE
        self._pauses[judge] = Pause(reason, now + seconds, seconds)
        return True

    def hold(self, judge: str, reason: str, until: float) -> None:
        """Nothing is wrong with the judge, but it is not to be asked before a time (its budget is spent)."""
        self._pauses[judge] = Pause(reason, until, 0.0)

    def clear(self, judge: str) -> None:
        """The judge works."""
        self._pauses.pop(judge, None)

    def is_paused(self, judge: str, now: float) -> bool:
        """Whether the judge is not to be asked now."""
        pause = self._pauses.get(judge)
        return pause is not None and pause.until > now

    def on_trial(self, judge: str) -> bool:
        """Whether the judge's pause is over and nothing has shown yet that it works: one evaluation is to find out."""
        pause = self._pauses.get(judge)
        return pause is not None and pause.seconds > 0

    def reasons(self) -> dict[str, str]:
        """Why each judge is paused."""
        return {judge: pause.reason for judge, pause in self._pauses.items()}
