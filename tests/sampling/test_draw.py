"""The draw of a run: reasons, strata, caps, probabilities."""

from __future__ import annotations

import random

import pytest
from scipy.stats import binom

from monitor.model.run import RunPlan
from monitor.model.verdict import NotSelected
from monitor.sampling import SamplingRule, Selection, draw, sampling_number, sampling_rule
from monitor.settings.tree import MonitorSettings, Select
from tests.sampling.population import candidate, population

HOUR_OF_PLENTY = {"carry": 0.0, "hours": 1.0}


def drawn_ids(plan: RunPlan) -> set[str]:
    """Who was drawn."""
    return {decision.invocation_id for decision in plan.decisions if decision.drawn}


def test_drawn_when_the_number_is_below_the_rate() -> None:
    """Without a cap exactly those below the rate are drawn, each with the rate as its probability."""
    members = population(500)
    plan = draw(members, SamplingRule(rate=0.1))
    assert drawn_ids(plan) == {c.invocation_id for c in members if sampling_number(c.trace_id) < 0.1}
    assert {d.inclusion_probability for d in plan.decisions} == {0.1}
    assert {d.reason for d in plan.decisions} == {None, NotSelected.SAMPLED_OUT}
    assert [d.invocation_id for d in plan.decisions] == [c.invocation_id for c in members]


def test_over_the_cap_the_smallest_numbers_stay() -> None:
    """The cap keeps the smallest (u, id) of those below the rate; the others are over_cap."""
    members = population(300)
    plan = draw(members, SamplingRule(rate=0.5, max_per_hour=20), hours=1.0)
    ranked = sorted(members, key=lambda c: (sampling_number(c.trace_id), c.invocation_id))
    assert drawn_ids(plan) == {c.invocation_id for c in ranked[:20]}
    over = {d.invocation_id for d in plan.decisions if d.reason is NotSelected.OVER_CAP}
    assert over == {c.invocation_id for c in ranked[20:] if sampling_number(c.trace_id) < 0.5}
    expected = (300 * 0.5 * binom.cdf(18, 299, 0.5) + 20 * binom.sf(19, 300, 0.5)) / 300
    assert all(d.inclusion_probability == pytest.approx(expected) for d in plan.decisions)


def test_invocations_of_one_trace_are_ordered_by_id() -> None:
    """Two invocations of a trace have the same number: the smaller id stays."""
    twins = [candidate("t", invocation_id=f"{'0' * 32}-{letter * 16}", trace_id="0" * 32) for letter in "ba"]
    plan = draw(twins, SamplingRule(max_per_hour=1), hours=1.0)
    assert drawn_ids(plan) == {f"{'0' * 32}-{'a' * 16}"}


def test_the_draw_does_not_depend_on_the_order_of_candidates() -> None:
    """The same population drawn again in another order gives the same decisions."""
    members = [*population(200, agent_version="1"), *population(100, "x", agent_version="2")]
    rule = SamplingRule(rate=0.4, max_per_hour=30, stratify_by=("agent_version",))
    first = draw(members, rule, **HOUR_OF_PLENTY)
    random.Random(1).shuffle(members)
    second = draw(members, rule, **HOUR_OF_PLENTY)
    assert set(first.decisions) == set(second.decisions)
    assert first.strata == second.strata


def test_the_filtered_are_told_the_key_and_have_probability_0() -> None:
    """What `select` does not match is filtered, with the key as detail, and is not part of the population."""
    rule = SamplingRule(selection=Selection.of(Select(environment="production")), max_per_hour=1)
    plan = draw([candidate("a", environment="staging"), candidate("b")], rule, hours=1.0)
    filtered, kept = plan.decisions
    assert (filtered.reason, filtered.detail, filtered.inclusion_probability) == (
        NotSelected.FILTERED,
        "environment",
        0.0,
    )
    assert (kept.drawn, kept.inclusion_probability) == (True, 1.0)
    assert plan.strata[0].size == 1


@pytest.mark.parametrize("settled_by", ["idle", "max_age"])
def test_incomplete_invocations_can_be_left_out(settled_by: str) -> None:
    """With include_incomplete: false what settled without an end is not judged; else it is."""
    member = candidate(settled_by=settled_by)
    left_out = draw([member], SamplingRule(include_incomplete=False)).decisions[0]
    assert (left_out.drawn, left_out.reason) == (False, NotSelected.INCOMPLETE)
    assert draw([member], SamplingRule()).decisions[0].drawn


def test_always_is_a_stratum_of_its_own_beyond_rate_and_cap() -> None:
    """Matches of `always` are all drawn with probability 1 and do not use the others' cap."""
    errors = population(50, "e", has_error=True)
    rule = SamplingRule(rate=0.5, max_per_hour=10, always=Selection.of(Select(has_error=True)))
    plan = draw([*errors, *population(200)], rule, **HOUR_OF_PLENTY)
    by_stratum = {stratum.name: stratum for stratum in plan.strata}
    assert (by_stratum["always"].drawn, by_stratum["always"].probability) == (50, 1.0)
    assert by_stratum[""].drawn == 10
    assert {c.invocation_id for c in errors} <= drawn_ids(plan)
    assert {d.inclusion_probability for d in plan.decisions if d.stratum == "always"} == {1.0}
    assert plan.carry == pytest.approx(0.0)


def test_always_is_still_bound_by_the_selection() -> None:
    """What is filtered is not drawn, whatever `always` says."""
    rule = SamplingRule(selection=Selection.of(Select(agent="x")), always=Selection.of(Select(has_error=True)))
    assert draw([candidate(has_error=True)], rule).decisions[0].reason is NotSelected.FILTERED


def test_strata_share_the_cap_by_size() -> None:
    """Each stratum has its share of the cap and its own probability; the rare one is drawn too."""
    members = [
        *population(180, "a", agent_version="1"),
        *population(18, "b", agent_version="2"),
        candidate("c", agent_version=None),
    ]
    rule = SamplingRule(max_per_hour=20, stratify_by=("agent_version", "environment"))
    plan = draw(members, rule, **HOUR_OF_PLENTY)
    found = {s.name: (s.size, s.cap, s.drawn, s.probability) for s in plan.strata}
    assert found == {
        "agent_version=1, environment=production": (180, 17, 17, pytest.approx(17 / 180)),
        "agent_version=2, environment=production": (18, 2, 2, pytest.approx(2 / 18)),
        "agent_version=, environment=production": (1, 1, 1, 1.0),
    }


def test_the_upstream_probability_multiplies_in() -> None:
    """A trace that an upstream sampler kept with 1/4 has a quarter of the probability of its stratum."""
    plan = draw([candidate("a", upstream_probability=0.25), candidate("b")], SamplingRule(rate=1.0))
    assert [d.inclusion_probability for d in plan.decisions] == [0.25, 1.0]


def test_early_drop_counts_in_probabilities() -> None:
    """What was kept below d is drawn with d times its share; another d is another stratum."""
    kept = [c for c in population(2_000, "k", kept_below=0.2) if sampling_number(c.trace_id) < 0.2]
    plan = draw([*kept, *population(100, "full")], SamplingRule(rate=0.1), **HOUR_OF_PLENTY)
    early, full = {s.kept_below: s for s in plan.strata}[0.2], {s.kept_below: s for s in plan.strata}[1.0]
    assert (early.name, early.size, early.probability) == ("kept_below=0.2", len(kept), pytest.approx(0.1))
    assert full.probability == 0.1
    capped = draw(kept, SamplingRule(rate=0.1, max_per_hour=7), **HOUR_OF_PLENTY).strata[0]
    assert capped.probability == pytest.approx(0.2 * 7 / len(kept), rel=1e-6)


def test_without_allowance_the_eligible_wait() -> None:
    """A run whose cap is 0 decides only what needs no cap; the others have no decision and the fraction is carried on."""
    rule = SamplingRule(
        selection=Selection.of(Select(environment="production")),
        max_per_hour=60,
        always=Selection.of(Select(has_error=True)),
    )
    members = [candidate("a"), candidate("b", environment="dev"), candidate("c", has_error=True)]
    plan = draw(members, rule, carry=0.25, hours=10 / 3600)
    assert {d.invocation_id for d in plan.decisions} == {members[1].invocation_id, members[2].invocation_id}
    assert plan.carry == pytest.approx(0.25 + 1 / 6)
    assert draw([candidate("a")], rule, carry=plan.carry, hours=40 / 3600).decisions[0].drawn


def test_what_was_not_drawn_is_carried_on() -> None:
    """A run with 3 candidates and a cap of 10.5 leaves 7.5 for the next."""
    assert draw(population(3), SamplingRule(max_per_hour=10.5), **HOUR_OF_PLENTY).carry == pytest.approx(7.5)
    assert draw([], SamplingRule(max_per_hour=10.5), **HOUR_OF_PLENTY).carry == pytest.approx(10.5)


def test_defaults_are_capped_only_where_a_judge_is_paid() -> None:
    """Left out, rate is 1.0, and max_per_hour is 60 where a judge is needed and none elsewhere."""
    plain = MonitorSettings.model_validate({"rubrics": ["r"]})
    assert (sampling_rule(plain, needs_judge=True).rate, sampling_rule(plain, needs_judge=True).max_per_hour) == (
        1.0,
        60.0,
    )
    assert (sampling_rule(plain, needs_judge=False).rate, sampling_rule(plain, needs_judge=False).max_per_hour) == (
        1.0,
        None,
    )


def test_settings_become_the_rule() -> None:
    """Every key of `sample` is used."""
    settings = MonitorSettings.model_validate(
        {
            "rubrics": ["r"],
            "select": {"agent": "a*"},
            "include_incomplete": False,
            "sample": {
                "rate": 0.5,
                "max_per_hour": 3,
                "stratify_by": ["model"],
                "always": {"has_error": True},
                "salt": "s",
            },
        }
    )
    rule = sampling_rule(settings, needs_judge=False)
    assert (rule.rate, rule.max_per_hour, rule.stratify_by, rule.salt) == (0.5, 3.0, ("model",), "s")
    assert rule.always is not None
    assert rule.always.matches(candidate(has_error=True))
    assert rule.selection.mismatch(candidate()) == "agent"
    assert not rule.include_incomplete


def test_a_conversation_is_drawn_by_its_id() -> None:
    """Whatever trace its last turn lies in, so that a later turn changes nothing; its least likely turn's probability multiplies in."""
    talks = [
        candidate(
            f"t{n}",
            conversation_id=f"talk {n}",
            turns=2,
            upstream_probability=0.5,
            invocation_id=f"conversation:talk {n}",
        )
        for n in range(200)
    ]
    plan = draw(talks, SamplingRule(rate=0.3))
    assert drawn_ids(plan) == {c.invocation_id for c in talks if sampling_number(str(c.conversation_id)) < 0.3}
    assert {d.inclusion_probability for d in plan.decisions} == {0.15}
