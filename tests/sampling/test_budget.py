"""What is left of a run that a budget ended early."""

from __future__ import annotations

import pytest
from scipy.stats import binom

from monitor.model.verdict import NotSelected
from monitor.sampling import SamplingRule, Selection, draw, recompute_over_budget
from monitor.settings.tree import Select
from tests.sampling.population import population


def test_the_rest_is_over_budget_and_pi_is_that_of_the_smaller_cap() -> None:
    """With 12 of 40 worked off in the order of u, pi is E[min(B, 12)] / N for all, as if the cap had been 12."""
    members = population(100, upstream_probability=0.5)
    plan = draw(members, SamplingRule(rate=0.5, max_per_hour=40), hours=1.0)
    drawn = sorted((d for d in plan.decisions if d.drawn), key=lambda d: d.number)
    strata, decisions = recompute_over_budget(plan.strata, drawn, {d.invocation_id for d in drawn[:12]})
    expected = (100 * 0.5 * binom.cdf(10, 99, 0.5) + 12 * binom.sf(11, 100, 0.5)) / 100
    assert [d.drawn for d in decisions] == [True] * 12 + [False] * 28
    assert {d.reason for d in decisions[12:]} == {NotSelected.OVER_BUDGET}
    assert all(d.inclusion_probability == pytest.approx(0.5 * expected) for d in decisions)
    assert (strata[0].cap, strata[0].drawn, strata[0].probability) == (12, 12, pytest.approx(expected))
    again = draw(members, SamplingRule(rate=0.5, max_per_hour=12), hours=1.0)
    assert {d.invocation_id for d in again.decisions if d.drawn} == {d.invocation_id for d in decisions if d.drawn}


def test_strata_that_were_not_cut_keep_their_probability() -> None:
    """A cut that reached only the ordinary stratum leaves `always` at 1."""
    rule = SamplingRule(rate=1.0, max_per_hour=10, always=Selection.of(Select(has_error=True)))
    plan = draw([*population(5, "e", has_error=True), *population(50)], rule, hours=1.0)
    drawn = [d for d in plan.decisions if d.drawn]
    ordinary = sorted((d for d in drawn if d.stratum == ""), key=lambda d: d.number)[:4]
    taken = {d.invocation_id for d in [*ordinary, *(d for d in drawn if d.stratum == "always")]}
    strata, decisions = recompute_over_budget(plan.strata, drawn, taken)
    assert {s.name: (s.cap, s.probability) for s in strata} == {"always": (None, 1.0), "": (4, pytest.approx(4 / 50))}
    assert {d.inclusion_probability for d in decisions if d.stratum == "always"} == {1.0}


def test_nothing_taken_up_leaves_probability_0() -> None:
    """A run that could not begin has no sample: its invocations can have been drawn with probability 0 only."""
    plan = draw(population(5), SamplingRule())
    strata, decisions = recompute_over_budget(plan.strata, plan.decisions, ())
    assert {d.inclusion_probability for d in decisions} == {0.0}
    assert strata[0].probability == 0.0
