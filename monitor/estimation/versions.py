"""Version against version: a sequential test of two pass rates that may be looked at after every pair."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

PRIOR = 0.18
"""Of the smoothed rates, per side: Turner, Ly and Grünwald's recommendation for blocks of one and one."""


@dataclass(frozen=True, slots=True)
class PairedTest:
    """Evidence that two groups differ, from pairs of one result each (Turner, Ly and Grünwald 2021); `add` gives the next state.

    The bets on a pair are made from the pairs before it, so exp(log_evidence) exceeds 1 / alpha at any time with probability at most alpha while the
    rates are equal. With `one_sided` nothing is bet while the second group has not done worse, so only that is evidence.
    """

    log_evidence: float = 0.0
    first_passes: float = 0.0
    second_passes: float = 0.0
    pairs: int = 0
    one_sided: bool = False

    def add(self, first: bool, second: bool) -> PairedTest:
        """With one more pair."""
        a = (self.first_passes + PRIOR) / (self.pairs + 2.0 * PRIOR)
        b = (self.second_passes + PRIOR) / (self.pairs + 2.0 * PRIOR)
        gain = 0.0
        if not self.one_sided or b < a:
            middle = (a + b) / 2.0
            gain = _log(first, a) + _log(second, b) - _log(first, middle) - _log(second, middle)
        return PairedTest(
            self.log_evidence + gain,
            self.first_passes + first,
            self.second_passes + second,
            self.pairs + 1,
            self.one_sided,
        )


def _log(passed: bool, rate: float) -> float:
    return math.log(rate if passed else 1.0 - rate)


def paired_evidence(pairs: Iterable[tuple[bool, bool]], *, one_sided: bool = False) -> float:
    """The e-value of a row of pairs."""
    test = PairedTest(one_sided=one_sided)
    for first, second in pairs:
        test = test.add(first, second)
    return math.exp(test.log_evidence)
