"""What the configuration in force asks to be watched, as far as figures about it need to know."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


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

    `exact` asks for intervals that are never below their confidence.
    """

    name: str
    rubrics: tuple[WatchedRubric, ...]
    windows: tuple[float, ...] = (3600.0, 86400.0, 604800.0)
    max_unscored: float = 0.2
    labels: Mapping[str, str] = field(default_factory=dict)
    exact: bool = False
