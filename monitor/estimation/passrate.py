"""The pass rate of a sample: estimate, bounds, and what the unscored could make of it.

Who counts: passed and failed make the rate, each with weight 1 / inclusion probability. "Not applicable" leaves the denominator. A verdict
`unjudgeable` and a failed evaluation say nothing of the agent: they stay out of the rate, and the worst and best case count all of
them failed or passed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import repeat

from monitor.estimation.bounds import Method, bounds, window_bounds
from monitor.estimation.weighting import effective_sample_size
from monitor.model.totals import Totals
from monitor.model.verdict import Outcome

CONFIDENCE = 0.95
"""Confidence of `lower` and `upper`, two-sided."""

_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Estimate:
    """A pass rate with bounds; `rate`, `lower` and `upper` are None when nothing passed or failed.

    `judged` counts passed and failed, `unscored` what could not be scored. `effective_samples` is Kish's size of the judged.
    `worst` and `best` are the rate with all unscored failed or passed. `reliable` is False when the weighted share of the unscored is
    above what the monitor puts up with, and when nothing was judged. `method` says how the bounds were made.
    """

    rate: float | None
    lower: float | None
    upper: float | None
    effective_samples: float
    judged: int
    unscored: int
    worst: float
    best: float
    reliable: bool
    method: Method | None = None


def totals(
    results: Iterable[tuple[Outcome | None, float]], conversations: Iterable[str | None] = repeat(None)
) -> Totals:
    """The sums of (verdict, inclusion probability) pairs; a verdict None is a failed evaluation. Probabilities are above 0.

    `conversations` names the conversation of each, None for an invocation that is its own.
    """
    counts = dict.fromkeys(Outcome, 0)
    weights = dict.fromkeys(Outcome, 0.0)
    squared = passed_squared = 0.0
    clusters: dict[object, list[float]] = {}
    for number, ((outcome, probability), conversation) in enumerate(zip(results, conversations, strict=False)):
        kind, weight = outcome or Outcome.UNJUDGEABLE, 1.0 / probability
        counts[kind] += 1
        weights[kind] += weight
        if kind in (Outcome.PASS, Outcome.FAIL):
            squared += weight * weight
            passed_squared += weight * weight if kind is Outcome.PASS else 0.0
            cluster = clusters.setdefault(number if conversation is None else conversation, [0.0, 0.0])
            cluster[0] += weight
            cluster[1] += weight if kind is Outcome.PASS else 0.0
    return Totals(
        passed=counts[Outcome.PASS],
        failed=counts[Outcome.FAIL],
        not_applicable=counts[Outcome.NOT_APPLICABLE],
        unscored=counts[Outcome.UNJUDGEABLE],
        passed_weight=weights[Outcome.PASS],
        failed_weight=weights[Outcome.FAIL],
        unscored_weight=weights[Outcome.UNJUDGEABLE],
        squared_weight=squared,
        clusters=len(clusters),
        heaviest=max((w for w, _ in clusters.values()), default=0.0),
        cluster_squared=math.fsum(w * w for w, _ in clusters.values()),
        cluster_cross=math.fsum(w * p for w, p in clusters.values()),
        cluster_passed_squared=math.fsum(p * p for _, p in clusters.values()),
        passed_squared=passed_squared,
    )


def estimate(
    sums: Totals, max_unscored: float = 0.2, *, exact: bool = False, of_window: bool = False
) -> Estimate | None:
    """The pass rate of the sums: Hájek's mean, with the interval that fits how the sample was drawn (see `bounds`).

    `exact` asks for an interval that is never below its confidence, `of_window` for one of what the window's own invocations did. None when nothing passed, failed or was left unscored: no estimate is not an estimate of 0.
    """
    scored = sums.passed_weight + sums.failed_weight
    everything = scored + sums.unscored_weight
    if sums.passed + sums.failed + sums.unscored == 0:
        return None
    judged = sums.passed + sums.failed
    rate = lower = upper = method = None
    size = effective_sample_size(scored, sums.squared_weight)
    if judged:
        rate = sums.passed_weight / scored
        found = (window_bounds if of_window else bounds)(sums, CONFIDENCE, exact=exact)
        lower, upper, method = min(found.lower, rate), max(found.upper, rate), found.method
    return Estimate(
        rate=rate,
        lower=lower,
        upper=upper,
        effective_samples=size,
        judged=judged,
        unscored=sums.unscored,
        worst=sums.passed_weight / everything,
        best=(sums.passed_weight + sums.unscored_weight) / everything,
        reliable=judged > 0 and sums.unscored_weight / everything <= max_unscored + _ROUNDING,
        method=method,
    )
