"""How many judged invocations a drop takes to be found: by letting the detector run, for no formula is near enough."""

from __future__ import annotations

import random
import statistics
from functools import lru_cache

from monitor.estimation.detector import Detector

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
    found = [delay for _ in range(PATHS) if (delay := _delay(chance, target, dropped, promised)) is not None]
    if not found:
        return None
    median = int(statistics.median(found))
    return median if median < LONGEST else None


def _delay(chance: random.Random, target: float, dropped: float, promised: float) -> int | None:
    detector = Detector(target)
    for n in range(CALM):
        detector = detector.add(chance.random() < target, float(n))
        if detector.evidence >= promised:
            return None
    for n in range(1, LONGEST):
        detector = detector.add(chance.random() < dropped, float(n))
        if detector.evidence >= promised:
            return n
    return LONGEST
