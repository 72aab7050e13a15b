"""Neyman's allocation of a cap: more where verdicts differed, never so that estimates are biased."""

from __future__ import annotations

import random
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.sampling import PastVerdicts, SamplingRule, draw
from monitor.sampling.allocation import SPREAD_FLOOR, neyman_caps
from tests.sampling.population import candidate

MIXED, CALM = PastVerdicts(50, 50), PastVerdicts(1000, 0)


def test_more_is_drawn_where_verdicts_differed() -> None:
    """Two strata of one size: the one whose verdicts were mixed gets five times as many as one that always passed, which keeps its floor."""
    assert MIXED.spread == pytest.approx(0.5) and CALM.spread == SPREAD_FLOOR
    assert neyman_caps({"a": 500, "b": 500}, {"a": MIXED, "b": CALM}, 60) == {"a": 50, "b": 10}
    assert neyman_caps({"a": 500, "new": 500}, {"a": CALM}, 60) == {"a": 10, "new": 50}


def test_minimum_and_size_are_kept() -> None:
    """A stratum gets its minimum, none more than it has, and what it cannot take up goes to the others."""
    assert neyman_caps({"a": 1000, "b": 10}, {"a": CALM, "b": CALM}, 100, 5) == {"a": 95, "b": 5}
    assert neyman_caps({"a": 4, "b": 500}, {"a": MIXED, "b": CALM}, 100, 5) == {"a": 4, "b": 96}
    assert neyman_caps({"a": 3, "b": 3}, {}, 1, 2) == {"a": 2, "b": 2}
    assert neyman_caps({"a": 0, "b": 7}, {}, 5) == {"a": 0, "b": 5}


@given(
    sizes=st.dictionaries(st.integers(0, 8), st.integers(0, 200), max_size=8),
    cap=st.integers(0, 300),
    at_least=st.integers(1, 5),
    seed=st.integers(0, 9),
)
def test_shares_add_up(sizes: dict[int, int], cap: int, at_least: int, seed: int) -> None:
    """The shares add up to the cap, or to the minimum of all or to all there is where that is the bound."""
    chance = random.Random(seed)
    past = {key: PastVerdicts(chance.randint(0, 50), chance.randint(0, 50)) for key in sizes}
    shares = neyman_caps(sizes, past, cap, at_least)
    least = sum(min(at_least, size) for size in sizes.values())
    assert all(min(at_least, sizes[key]) <= share <= sizes[key] for key, share in shares.items())
    assert sum(shares.values()) == max(least, min(cap, sum(sizes.values())))


def test_the_estimate_stays_unbiased_and_gets_sharper() -> None:
    """Over many runs the weighted pass rate is the population's under both allocations, and less spread out under Neyman's."""
    rule = SamplingRule(max_per_hour=40, stratify_by=("agent_version",))
    found: dict[bool, list[float]] = {False: [], True: []}
    past = {"agent_version=1": PastVerdicts(990, 10), "agent_version=2": PastVerdicts(100, 100)}
    for run in range(300):
        chance = random.Random(run)
        people = [candidate(f"{run}/{n}", agent_version="2" if n % 5 == 0 else "1") for n in range(400)]
        passed = {one.invocation_id: chance.random() < (0.5 if one.agent_version == "2" else 0.99) for one in people}
        for neyman, rates in found.items():
            plan = draw(people, SamplingRule(**{**_fields(rule), "neyman": neyman}), 0.0, 1.0, past)
            drawn = [one for one in plan.decisions if one.drawn]
            total = sum(passed[one.invocation_id] / one.inclusion_probability for one in drawn)
            rates.append(total / 400)
    for neyman, rates in found.items():
        assert statistics.mean(rates) == pytest.approx(0.2 * 0.5 + 0.8 * 0.99, abs=0.012), neyman
    assert statistics.stdev(found[True]) < 0.85 * statistics.stdev(found[False])


def _fields(rule: SamplingRule) -> dict[str, object]:
    return {name: getattr(rule, name) for name in SamplingRule.__dataclass_fields__}
