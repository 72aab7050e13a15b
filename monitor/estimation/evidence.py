"""Evidence from passes and failures that may be looked at after every single one: mixtures of likelihood ratios.

Counts may be real numbers. A weighted sample counts each invocation by its weight over the largest weight W that could have been drawn: with
v = w / W in [0, 1] and a bet against the pass rate m, a likelihood ratio to the power of v is at most 1 + v (ratio - 1) (Bernoulli's inequality),
whose mean under m is 1. So every formula here keeps its guarantee for weighted counts, and for conversations as units likewise; it only
loses power the more the weights differ.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

from monitor.estimation.beta import regularised_beta
from monitor.estimation.intervals import Interval

JEFFREYS = (0.5, 0.5)
UNIFORM = (1.0, 1.0)


def _log_beta(a: float, b: float) -> float:
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)


def _log_likelihood(passes: float, fails: float, rate: float) -> float:
    """Of counts under a pass rate; minus infinity where they cannot have come about."""
    if (passes > 0 and rate <= 0) or (fails > 0 and rate >= 1):
        return -math.inf
    return (passes * math.log(rate) if passes else 0.0) + (fails * math.log1p(-rate) if fails else 0.0)


def log_mixture_evidence(passes: float, fails: float, rate: float, prior: tuple[float, float] = JEFFREYS) -> float:
    """Log of the beta mixture e-value against "the pass rate is `rate`": B(a+s, b+f) / B(a, b) / (p^s q^f).

    At the true rate its exponential exceeds 1 / alpha at any time with probability at most alpha (Robbins 1970, Ville 1939).
    """
    a, b = prior
    return _log_beta(a + passes, b + fails) - _log_beta(a, b) - _log_likelihood(passes, fails, rate)


def log_deficit_evidence(passes: float, fails: float, target: float, prior: tuple[float, float] = UNIFORM) -> float:
    """Log of the e-value against "the pass rate is at least `target`": a mixture over the rates below it only.

    An e-process for every rate at or above the target, also one that moves: it needs no independence, only that the next invocation passes with
    probability `target` or more whatever came before.
    """
    a, b = prior
    below = math.log(regularised_beta(target, a, b))
    after = regularised_beta(target, a + passes, b + fails)
    if after <= 0.0:
        return -math.inf
    mixed = _log_beta(a + passes, b + fails) + math.log(after) - _log_beta(a, b) - below
    return mixed - _log_likelihood(passes, fails, target)


@lru_cache(maxsize=16384)
def betting_interval(passes: float, fails: float, confidence: float = 0.95) -> Interval:
    """The pass rates that the mixture has no evidence 1 / alpha against: an interval of guaranteed coverage at any sample size and time.

    For weighted samples the counts are weights over the largest weight (see the module). The whole range where nothing was judged.
    """
    if passes + fails <= 0:
        return 0.0, 1.0
    limit, middle = -math.log(1.0 - confidence), passes / (passes + fails)

    def outside(rate: float) -> bool:
        return log_mixture_evidence(passes, fails, rate) >= limit

    lower = 0.0 if passes <= 0 else _edge(0.0, middle, outside)
    upper = 1.0 if fails <= 0 else _edge(1.0, middle, outside)
    return lower, upper


def _edge(out: float, inside: float, outside: Callable[[float], bool]) -> float:
    """Where `outside` turns, between a rate out and a rate inside."""
    for _ in range(60):
        between = (out + inside) / 2.0
        if abs(out - inside) < 1e-12:
            break
        if outside(between):
            out = between
        else:
            inside = between
    return out
