"""What the configuration in force asks to be watched, as far as figures about it need to know."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class RegressionRule:
    """How a monitor's regressions are detected: against the objective, a frozen baseline, or version against version.

    One false alarm in so many judged invocations, or in so many seconds, is put up with for all series of the monitor together. A baseline is
    the first `baseline` judged invocations of a series, less `tolerance` of the rate.
    """

    against: tuple[str, ...] = ("objective",)
    every_invocations: float | None = None
    every_seconds: float = 90 * 86400.0
    clear_after: int = 50
    baseline: int = 500
    tolerance: float = 0.02


@dataclass(frozen=True, slots=True)
class WatchedRubric:
    """A rubric of a monitor: its version now in force, its kind, its judge and objective (None without)."""

    rubric: str
    version: str
    kind: str
    judge: str | None = None
    judge_model: str | None = None
    objective: float | None = None
    shadow: bool = False


@dataclass(frozen=True, slots=True)
class WatchedMonitor:
    """A monitor: its rubrics, the windows of its pass rates (seconds), the unscored share it puts up with, and its labels.

    `exact` asks for intervals that are never below their confidence, `of_window` for such that are about the window's own invocations. `interval` is the usual time between two ticks of its schedule,
    `longest_gap` the longest one (seconds).
    """

    name: str
    rubrics: tuple[WatchedRubric, ...]
    windows: tuple[float, ...] = (3600.0, 86400.0, 604800.0)
    max_unscored: float = 0.2
    labels: Mapping[str, str] = field(default_factory=dict)
    exact: bool = False
    of_window: bool = False
    interval: float = 60.0
    longest_gap: float = 60.0
    regression: RegressionRule = RegressionRule()
