"""Sums of 1/pi over what real draws took, against the known number of invocations (Horvitz and Thompson 1952)."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Iterator

import pytest

from monitor.model.run import Candidate, RunPlan
from monitor.sampling import SamplingRule, draw, recompute_over_budget, sampling_number
from tests.sampling.population import candidate


def runs(size: int, count: int, seed: int, **changes: object) -> Iterator[list[Candidate]]:
    """So many runs of so many candidates each, all of different traces."""
    chance = random.Random(seed)
    prototype = candidate("p", **changes)
    fields = {name: getattr(prototype, name) for name in Candidate.__slots__}
    for _ in range(count):
        ids = [f"{chance.getrandbits(128):032x}" for _ in range(size)]
        yield [Candidate(**fields | {"trace_id": key, "invocation_id": f"{key}-{key[:16]}"}) for key in ids]


def weight(plan: RunPlan) -> float:
    """The estimate of how many invocations there were: the sum of 1/pi over the drawn."""
    return math.fsum(1.0 / d.inclusion_probability for d in plan.decisions if d.drawn)


def check(estimates: list[float], truth: float) -> None:
    """The mean is within 1 % of the truth, and within 4 standard errors of it."""
    mean = statistics.fmean(estimates)
    error = statistics.stdev(estimates) / math.sqrt(len(estimates))
    assert mean == pytest.approx(truth, rel=0.01)
    assert abs(mean - truth) < 4 * error + 1e-4 * truth


@pytest.mark.parametrize(
    ("size", "rate", "cap", "count"),
    [
        (1, 0.5, 1, 60_000),
        (2, 0.6, 1, 25_000),
        (3, 0.5, 2, 25_000),
        (10, 0.5, 3, 3_000),
        (10, 0.3, 3, 6_000),
        (100, 0.1, 10, 1_000),
        (100, 1.0, 60, 20),
        (1_000, 0.06, 60, 80),
        (10_000, 0.1, 1_000, 10),
        (10_000, 0.1, 60, 5),
    ],
)
def test_the_weights_of_a_run_sum_to_its_population(size: int, rate: float, cap: int, count: int) -> None:
    """Rate and cap together, from 1 to 10,000 invocations a run, give weights that sum to how many there were, within 1 %."""
    rule = SamplingRule(rate=rate, max_per_hour=float(cap))
    check([weight(draw(members, rule, hours=1.0)) for members in runs(size, count, seed=size)], size)


def test_the_weights_of_strata_sum_to_each_stratum() -> None:
    """A rare version and an upstream-sampled one are each estimated without bias."""
    rule = SamplingRule(rate=0.5, max_per_hour=12, stratify_by=("agent_version",))
    rare: list[float] = []
    thinned: list[float] = []
    common = runs(60, 3_000, 1, agent_version="1", upstream_probability=0.25)
    for many, few in zip(common, runs(4, 3_000, 2, agent_version="2"), strict=True):
        plan = draw([*many, *few], rule, hours=1.0)
        rare.append(
            sum(1 / d.inclusion_probability for d in plan.decisions if d.drawn and d.stratum == "agent_version=2")
        )
        thinned.append(weight(plan) - rare[-1])
    check(rare, 4)
    check(thinned, 4 * 60)


def test_the_weights_after_an_early_drop_sum_to_what_there_was_before_it() -> None:
    """Only the kept candidates are seen, and the weights still count those dropped at intake."""
    rule = SamplingRule(rate=0.1, max_per_hour=15)
    estimates = []
    for members in runs(200, 1_500, 7, kept_below=0.2):
        kept = [member for member in members if sampling_number(member.trace_id) < 0.2]
        estimates.append(weight(draw(kept, rule, hours=1.0)))
    check(estimates, 200)


def test_the_weights_of_many_small_runs_sum_to_all_of_them() -> None:
    """On a 10-second schedule with 2 draws a minute, carried fractions and waiting candidates leave no one without weight."""
    rule = SamplingRule(rate=0.7, max_per_hour=120)
    chance, waiting, carry, total, came, drawn = random.Random(11), [], 0.0, 0.0, 0, 0
    for members in runs(6, 12_000, 5):
        new = members[: chance.randint(0, 6)]
        came += len(new)
        plan = draw([*waiting, *new], rule, carry, 10 / 3600)
        decided = {d.invocation_id for d in plan.decisions}
        waiting = [member for member in [*waiting, *new] if member.invocation_id not in decided]
        carry, total, drawn = plan.carry, total + weight(plan), drawn + sum(d.drawn for d in plan.decisions)
    assert total + len(waiting) == pytest.approx(came, rel=0.01)
    assert drawn <= 120 * 12_000 / 360 + 120


def test_a_run_cut_by_a_budget_still_sums_to_its_population() -> None:
    """When a run ends after 5 of its invocations, the recomputed weights of those 5 stand for all."""
    rule = SamplingRule(rate=0.5, max_per_hour=12)
    estimates = []
    for members in runs(30, 3_000, 9):
        plan = draw(members, rule, hours=1.0)
        drawn = sorted((d for d in plan.decisions if d.drawn), key=lambda d: d.number)
        _, decisions = recompute_over_budget(plan.strata, drawn, {d.invocation_id for d in drawn[:5]})
        estimates.append(math.fsum(1 / d.inclusion_probability for d in decisions if d.drawn))
    check(estimates, 30)
