"""How many judged invocations a drop takes to be found: by letting the detector run, for no formula is near enough."""

from __future__ import annotations

import random
import statistics
from functools import lru_cache
from operator import mul

from monitor.estimation.detector import SHARES, rates

PATHS = 31
CALM = 200
"""Judged invocations at the target before the drop: a detector that has run for a while is quicker than a new one."""

LONGEST = 20_000
_SEED = 1


@lru_cache(maxsize=256)
def verdicts_to_alarm(target: float, dropped: float, promised: float) -> int | None:
    """The median number of judged invocations from a drop to its alarm, to about a tenth; None for more than LONGEST.

    `promised` is the mean number of verdicts between false alarms. Alarms before the drop are left out. Always the same for the same numbers.
    """
    chance = random.Random(_SEED)  # noqa: S311 - a simulation
    found: list[int] = []
    for _ in range(PATHS):
        delay = _delay(chance, target, dropped, promised)
        if delay is not None:
            found.append(delay)
        if found.count(LONGEST) > PATHS // 2:
            return None
    median = int(statistics.median(found)) if found else LONGEST
    return median if median < LONGEST else None


def _delay(chance: random.Random, target: float, dropped: float, promised: float) -> int | None:
    """One path. The recursion of `Detector.add` for verdicts of weight 1 without what an alarm names: `check` takes some millions of steps."""
    passing = tuple(rate / target for rate in rates(target))
    failing = tuple((1.0 - rate) / (1.0 - target) for rate in rates(target))
    draw, levels = chance.random, [0.0] * len(SHARES)
    for n in range(1 - CALM, LONGEST):
        ratios = passing if draw() < (target if n < 1 else dropped) else failing
        levels = [(1.0 + level) * ratio for level, ratio in zip(levels, ratios, strict=True)]
        if sum(map(mul, SHARES, levels)) >= promised:
            return n if n > 0 else None
    return LONGEST
