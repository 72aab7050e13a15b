"""Which single criterion a drop shows most in."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from monitor.model.evidence import CriterionScores


@dataclass(frozen=True, slots=True)
class Decisive:
    """The criterion that fell most: its mean score before the drop (None where nothing was judged then) and since."""

    id: str
    before: float | None
    since: float


def decisive_dimension(rows: Iterable[CriterionScores], since: float) -> Decisive | None:
    """The criterion whose weighted mean score fell most at a time; without verdicts from before, the one that lies lowest. None without scores."""
    parts: dict[bool, dict[str, list[float]]] = {True: defaultdict(list), False: defaultdict(list)}
    weights: dict[str, float] = {}
    for row in rows:
        for name, score, weight in row.scores:
            parts[row.ended_at >= since][name].append(score)
            weights[name] = 1.0 if weight is None else weight
    after = {name: _mean(scores) for name, scores in parts[True].items()}
    before = {name: _mean(scores) for name, scores in parts[False].items()}
    if not after:
        return None
    compared = {name: weights[name] * (before[name] - mean) for name, mean in after.items() if name in before}
    if compared:
        name = max(sorted(compared), key=lambda name: compared[name])
        return Decisive(name, before[name], after[name])
    name = min(sorted(after), key=lambda name: after[name])
    return Decisive(name, None, after[name])


def _mean(scores: list[float]) -> float:
    return math.fsum(scores) / len(scores)
