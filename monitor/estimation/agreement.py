"""How well raters agree, and how much of it chance would bring about. Always looked at together: kappa collapses where nearly all pass."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

Table = Sequence[Sequence[float]]
"""How often the first rater said row and the second column; square. Counts may be weights."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """Share of equal answers, Cohen's kappa (1960) and Gwet's AC1 (2008); None where chance alone would always agree, or nothing was rated."""

    n: float
    agreement: float | None
    kappa: float | None
    ac1: float | None


def agreement(table: Table) -> Agreement:
    """The agreement of two raters."""
    n = math.fsum(math.fsum(row) for row in table)
    if n <= 0:
        return Agreement(0.0, None, None, None)
    size = len(table)
    equal = math.fsum(table[i][i] for i in range(size)) / n
    rows = [math.fsum(row) / n for row in table]
    columns = [math.fsum(row[j] for row in table) / n for j in range(size)]
    by_chance = math.fsum(r * c for r, c in zip(rows, columns, strict=True))
    means = [(r + c) / 2.0 for r, c in zip(rows, columns, strict=True)]
    gwet = math.fsum(mean * (1.0 - mean) for mean in means) / (size - 1)
    return Agreement(n, equal, _beyond(equal, by_chance), _beyond(equal, gwet))


def _beyond(equal: float, chance: float) -> float | None:
    return (equal - chance) / (1.0 - chance) if chance < 1.0 else None


def fleiss_kappa(table: Table) -> float | None:
    """Agreement of several raters: for each item, how many chose each answer (Fleiss 1971); every item has the same number of ratings."""
    items, raters = len(table), sum(table[0])
    shares = [sum(row[j] for row in table) / (items * raters) for j in range(len(table[0]))]
    equal = math.fsum((sum(c * c for c in row) - raters) / (raters * (raters - 1)) for row in table) / items
    return _beyond(equal, math.fsum(share * share for share in shares))


@dataclass(frozen=True, slots=True)
class Repeats:
    """Variance of repeats within items, of item means between items, and the standard error of the overall mean."""

    within: float
    between: float
    standard_error: float


def repeated_judging(repeats: Sequence[Sequence[float]]) -> Repeats:
    """What judging items several times says: items are the unit, repeats are no new items (Miller 2024)."""
    means = [math.fsum(item) / len(item) for item in repeats]
    within = math.fsum(
        math.fsum((x - mean) ** 2 for x in item) / (len(item) - 1) for item, mean in zip(repeats, means, strict=True)
    ) / len(repeats)
    centre = math.fsum(means) / len(means)
    between = math.fsum((mean - centre) ** 2 for mean in means) / (len(means) - 1)
    return Repeats(within, between, math.sqrt(between / len(means)))
