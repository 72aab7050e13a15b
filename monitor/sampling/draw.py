"""The draw of one run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from monitor.model.run import Candidate, Decision, RunPlan, Stratum
from monitor.model.verdict import NotSelected
from monitor.sampling.allocation import PastVerdicts, neyman_caps
from monitor.sampling.caps import Allowance, split_cap
from monitor.sampling.expectation import inclusion_probability
from monitor.sampling.number import sampling_number
from monitor.sampling.rule import SamplingRule
from monitor.sampling.selection import agent_label

ALWAYS = "always"
INCOMPLETE = frozenset({"idle", "max_age"})
"""Settled without an end: what `include_incomplete: false` leaves out."""

_STRATIFIERS: Mapping[str, Callable[[Candidate], str | None]] = {
    "agent": agent_label,
    "agent_version": lambda candidate: candidate.agent_version,
    "environment": lambda candidate: candidate.environment,
    "model": lambda candidate: candidate.model,
    "service": lambda candidate: candidate.service,
    "operation": lambda candidate: candidate.operation,
}

_Key = tuple[tuple[str, ...], float]
"""The values that a stratum is told by, and the rate of the early drop that its members went through."""


@dataclass(slots=True)
class _Sorted:
    """The candidates of a run by what becomes of them."""

    decided: list[Decision] = field(default_factory=list)
    always: dict[float, int] = field(default_factory=dict)
    strata: dict[_Key, list[tuple[float, Candidate]]] = field(default_factory=dict)


def draw(
    candidates: Sequence[Candidate],
    rule: SamplingRule,
    carry: float = 0.0,
    hours: float = 0.0,
    past: Mapping[str, PastVerdicts] | None = None,
) -> RunPlan:
    """Decide which candidates of a run are judged, with which probability, and why the others are not.

    `carry` is the last run's `RunPlan.carry`, `hours` the time since the previous tick. Drawn when u < rate; over the cap the smallest
    (u, id) stay; `always` is a stratum of its own with rate 1 and no cap, and does not use up the others' allowance. The decision's
    inclusion probability is upstream x pi, also for those that were not drawn (0 for those that could not have been). Candidates without a
    decision wait for the next run: see `Allowance`. `past` is what earlier runs' strata showed, by name: it moves the cap between strata under
    `rule.neyman`, and never depends on who is drawn now. A function of its arguments: the same candidates in any order give the same plan.
    """
    groups = _sort(candidates, rule)
    allowance = None if rule.max_per_hour is None else Allowance(rule.max_per_hour, hours, carry)
    strata = [_always_stratum(kept_below, size) for kept_below, size in sorted(groups.always.items())]
    cap, over = _cap(allowance, rule, sum(groups.always.values()))
    if cap is not None and cap < 1 and groups.strata:
        left = allowance.left(0) if allowance else 0.0
        return RunPlan(_in_order(candidates, groups.decided), left, tuple(strata))
    caps: Mapping[_Key, int | None] = dict.fromkeys(groups.strata)
    if cap is not None:
        caps = _caps({key: len(groups.strata[key]) for key in sorted(groups.strata)}, cap, rule, past or {})
    capped = [_draw_stratum(key, groups.strata[key], caps[key], rule, over) for key in sorted(groups.strata)]
    decisions = groups.decided + [decision for _, decided in capped for decision in decided]
    left = allowance.left(sum(stratum.drawn for stratum, _ in capped)) if allowance else 0.0
    return RunPlan(_in_order(candidates, decisions), left, (*strata, *(stratum for stratum, _ in capped)))


def _cap(allowance: Allowance | None, rule: SamplingRule, always: int) -> tuple[int | None, NotSelected]:
    """The cap of the run's strata, and what to say of those over it: a budget that has less room than the hourly cap is what cut them."""
    hourly = None if allowance is None else allowance.cap
    if rule.afford is None:
        return hourly, NotSelected.OVER_CAP
    room = max(0, rule.afford - always)
    if hourly is not None and hourly <= room:
        return hourly, NotSelected.OVER_CAP
    return room, NotSelected.OVER_BUDGET


def _caps(
    sizes: Mapping[_Key, int], cap: int, rule: SamplingRule, past: Mapping[str, PastVerdicts]
) -> Mapping[_Key, int | None]:
    if not rule.neyman:
        return split_cap(sizes, cap)
    known = {key: past[name] for key in sizes if (name := _stratum_name(*key)) in past}
    return neyman_caps(sizes, known, cap, rule.min_per_stratum)


def _sort(candidates: Sequence[Candidate], rule: SamplingRule) -> _Sorted:
    groups = _Sorted()
    for candidate in candidates:
        number = sampling_number(candidate.sampling_key, rule.salt)
        mismatch = rule.selection.mismatch(candidate)
        if mismatch is not None:
            groups.decided.append(_left_out(candidate, number, NotSelected.FILTERED, mismatch))
        elif not rule.include_incomplete and candidate.settled_by in INCOMPLETE:
            groups.decided.append(_left_out(candidate, number, NotSelected.INCOMPLETE, candidate.settled_by))
        elif rule.always is not None and rule.always.matches(candidate):
            probability = candidate.upstream_probability * candidate.kept_below
            name = _stratum_name((ALWAYS,), candidate.kept_below)
            groups.decided.append(Decision(candidate.invocation_id, True, None, number, probability, name))
            groups.always[candidate.kept_below] = groups.always.get(candidate.kept_below, 0) + 1
        else:
            values = tuple(f"{key}={_STRATIFIERS[key](candidate) or ''}" for key in rule.stratify_by)
            groups.strata.setdefault((values, candidate.kept_below), []).append((number, candidate))
    return groups


def _left_out(candidate: Candidate, number: float, reason: NotSelected, detail: str) -> Decision:
    return Decision(candidate.invocation_id, False, reason, number, 0.0, detail=detail)


def _always_stratum(kept_below: float, size: int) -> Stratum:
    return Stratum(_stratum_name((ALWAYS,), kept_below), size, 1.0, None, size, kept_below, kept_below)


def _draw_stratum(
    key: _Key,
    members: Sequence[tuple[float, Candidate]],
    cap: int | None,
    rule: SamplingRule,
    over: NotSelected = NotSelected.OVER_CAP,
) -> tuple[Stratum, list[Decision]]:
    values, kept_below = key
    name = _stratum_name(values, kept_below)
    probability = inclusion_probability(len(members), rule.rate, cap, kept_below)
    hits = sorted((number, c.invocation_id) for number, c in members if number < rule.rate)
    drawn = {invocation_id for _, invocation_id in hits[:cap]}
    decisions = []
    for number, candidate in members:
        reason = None
        if candidate.invocation_id not in drawn:
            reason = over if number < rule.rate else NotSelected.SAMPLED_OUT
        pi = candidate.upstream_probability * probability
        decisions.append(Decision(candidate.invocation_id, reason is None, reason, number, pi, name))
    return Stratum(name, len(members), rule.rate, cap, len(drawn), probability, kept_below), decisions


def _stratum_name(values: tuple[str, ...], kept_below: float) -> str:
    """The name of a stratum for people; unique within a run."""
    early = () if kept_below >= 1.0 else (f"kept_below={kept_below:g}",)
    return ", ".join((*values, *early))


def _in_order(candidates: Sequence[Candidate], decisions: Sequence[Decision]) -> tuple[Decision, ...]:
    by_id = {decision.invocation_id: decision for decision in decisions}
    return tuple(by_id[c.invocation_id] for c in candidates if c.invocation_id in by_id)
