"""Which judges are not asked for the time being, why, and until when. Pure but for the times given to it."""

from __future__ import annotations

from dataclasses import dataclass

from monitor.model.verdict import ErrorType

SHORTEST_PAUSE = 60.0
LONGEST_PAUSE = 900.0
"""Seconds. After a pause one evaluation is tried; when it meets the same fault the next pause is twice as long."""


TROUBLES_IN_A_ROW = 10
"""Evaluations that did not reach the judge, one after the other, before it is paused as if its fault were permanent (circuit breaker)."""

UNREACHABLE = frozenset({ErrorType.CONNECTION, ErrorType.TIMEOUT, ErrorType.SERVER_ERROR})


@dataclass(frozen=True, slots=True)
class Pause:
    """A judge that is not asked before `until` (seconds since 1970-01-01Z); `seconds` is the length of this pause."""

    reason: str
    until: float
    seconds: float


class Pauses:
    """The pauses in force, by judge."""

    def __init__(self) -> None:
        self._pauses: dict[str, Pause] = {}
        self._troubles: dict[str, int] = {}

    def trouble(self, judge: str) -> bool:
        """An evaluation did not reach the judge. True when so many in a row did not that asking on would only use up their attempts."""
        self._troubles[judge] = self._troubles.get(judge, 0) + 1
        return self._troubles[judge] >= TROUBLES_IN_A_ROW

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
