"""Verdicts counted over windows: numerators and denominators, recorded once for all monitors, or written out where nothing is recorded."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from monitor.exporters.rules.promql import Selectors, one_of, seconds
from monitor.exporters.rules.rule import Recording, RuleGroup

LEVEL = ("monitor", "rubric", "agent", "environment")
"""What a pass rate is about on alerts; versions are added up."""

METRIC = "rubricd_verdicts_total"


class Count(StrEnum):
    """What is counted; the value stands in the recording's name."""

    FAILED = "rubricd_verdicts_failed"
    JUDGED = "rubricd_verdicts_judged"
    FAIL_RATIO = "rubricd_verdicts_fail_ratio"
    UNJUDGEABLE = "rubricd_verdicts_unjudgeable"
    ALL = "rubricd_verdicts"


_VERDICTS: dict[Count, str | None] = {
    Count.FAILED: 'verdict="fail"',
    Count.JUDGED: one_of("verdict", ("pass", "fail")),
    Count.UNJUDGEABLE: 'verdict="unjudgeable"',
    Count.ALL: None,
}


class Counts(Protocol):
    """Gives the expression of a count in a window (seconds) for the monitor and rubric of the given labels."""

    def of(self, count: Count, window: float, **labels: str) -> str:
        """One series for each agent and environment."""
        ...


@dataclass(frozen=True, slots=True)
class WrittenOut:
    """Counts straight from the counters."""

    selectors: Selectors

    def of(self, count: Count, window: float, **labels: str) -> str:
        """One series for each agent and environment. A window without verdicts has no ratio, neither 0 nor 1."""
        if count is Count.FAIL_RATIO:
            failed, judged = (self.of(part, window, **labels) for part in (Count.FAILED, Count.JUDGED))
            return f"({failed} / ({judged} > 0))"
        selected = self.selectors.of(METRIC, _VERDICTS[count], **labels)
        return f"sum {self.selectors.by(*LEVEL)} (increase({selected}[{seconds(window)}]))"


@dataclass(frozen=True, slots=True)
class Recorded:
    """Counts by the names of recording rules; remembers which it gave out, so that nothing is recorded that no alert asks for."""

    selectors: Selectors
    used: dict[tuple[float, Count], None] = field(default_factory=dict)

    def of(self, count: Count, window: float, **labels: str) -> str:
        """One series for each agent and environment."""
        parts = (Count.FAILED, Count.JUDGED, Count.FAIL_RATIO) if count is Count.FAIL_RATIO else (count,)
        self.used.update(dict.fromkeys((window, part) for part in parts))
        return self.selectors.of(_name(count, window), **labels)

    def recordings(self) -> tuple[RuleGroup, ...]:
        """A group for each window that was given out, from short to long, numerator and denominator before their ratio.

        Small groups: some rulers take no more than twenty rules in one.
        """
        windows = sorted({window for window, _ in self.used})
        return tuple(
            RuleGroup(f"rubricd-verdicts-{seconds(window)}", tuple(self._window(window))) for window in windows
        )

    def _window(self, window: float) -> Iterator[Recording]:
        for count in Count:
            if (window, count) in self.used:
                yield Recording(_name(count, window), self._expression(count, window))

    def _expression(self, count: Count, window: float) -> str:
        if count is not Count.FAIL_RATIO:
            return WrittenOut(self.selectors).of(count, window)
        failed, judged = (self.selectors.of(_name(part, window)) for part in (Count.FAILED, Count.JUDGED))
        return f"{failed} / ({judged} > 0)"


def _name(count: Count, window: float) -> str:
    return f"{'_'.join(LEVEL)}:{count}:increase{seconds(window)}"
