"""One-off comparisons of two pass rates, each looked at once; whoever looks again and again takes the sequential tests instead."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist

_TIE = 1e-7
Table = Sequence[Sequence[int]]
"""((passes, failures) of the first group, the same of the second)."""


def two_proportion_z(passes: tuple[int, int], judged: tuple[int, int]) -> tuple[float, float]:
    """The z and two-sided p of the pooled test of equal rates."""
    pooled = sum(passes) / sum(judged)
    spread = math.sqrt(pooled * (1.0 - pooled) * (1.0 / judged[0] + 1.0 / judged[1]))
    z = (passes[0] / judged[0] - passes[1] / judged[1]) / spread
    return z, 2.0 * NormalDist().cdf(-abs(z))


def fisher_exact(table: Table) -> float:
    """Two-sided p of Fisher's exact test: all tables of the same margins that are no likelier than this one."""
    (a, b), (c, d) = table
    first, second, passes = a + b, c + d, a + c
    ways = {
        k: math.comb(first, k) * math.comb(second, passes - k)
        for k in range(max(0, passes - second), min(first, passes) + 1)
    }
    return sum(way for way in ways.values() if way <= ways[a] * (1.0 + _TIE)) / sum(ways.values())


def barnard_exact(table: Table, steps: int = 400) -> float:
    """Two-sided p of Barnard's exact test with the pooled statistic: the largest over the unknown common rate, to about 1e-4."""
    (a, b), (c, d) = table
    first, second = a + b, c + d
    limit = abs(_pooled_z(a, c, first, second)) - _TIE
    extreme = [
        (i, j) for i in range(first + 1) for j in range(second + 1) if abs(_pooled_z(i, j, first, second)) >= limit
    ]
    return max(_share(extreme, first, second, step / steps) for step in range(1, steps))


def _pooled_z(i: int, j: int, first: int, second: int) -> float:
    pooled = (i + j) / (first + second)
    spread = pooled * (1.0 - pooled) * (1.0 / first + 1.0 / second)
    return (i / first - j / second) / math.sqrt(spread) if spread > 0 else 0.0


def _share(extreme: Sequence[tuple[int, int]], first: int, second: int, rate: float) -> float:
    one = [math.comb(first, i) * rate**i * (1.0 - rate) ** (first - i) for i in range(first + 1)]
    two = [math.comb(second, j) * rate**j * (1.0 - rate) ** (second - j) for j in range(second + 1)]
    return math.fsum(one[i] * two[j] for i, j in extreme)


def mcnemar_exact(only_first: int, only_second: int) -> float:
    """Two-sided p that the same invocations, judged twice, changed one way as often as the other."""
    n, k = only_first + only_second, min(only_first, only_second)
    return min(1.0, 2.0 * sum(math.comb(n, i) for i in range(k + 1)) / 2.0**n) if n else 1.0


def benjamini_hochberg(p_values: Sequence[float], alpha: float = 0.05) -> tuple[list[bool], list[float]]:
    """Which hypotheses are rejected at a false discovery rate of alpha, and the adjusted p-values (Benjamini and Hochberg 1995)."""
    order = sorted(range(len(p_values)), key=lambda i: -p_values[i])
    adjusted, smallest = [0.0] * len(p_values), 1.0
    for place, index in enumerate(order):
        smallest = min(smallest, p_values[index] * len(p_values) / (len(p_values) - place))
        adjusted[index] = smallest
    return [value <= alpha for value in adjusted], adjusted


def e_benjamini_hochberg(log_evidence: Sequence[float], alpha: float = 0.05) -> list[bool]:
    """The same of e-values, under any dependence: the k largest with e_(k) >= m / (alpha k) (Wang and Ramdas 2022)."""
    m, ordered = len(log_evidence), sorted(log_evidence, reverse=True)
    kept = [value for k, value in enumerate(ordered, 1) if value >= math.log(m / (alpha * k))]
    least = min(kept, default=math.inf)
    return [value >= least for value in log_evidence]
