"""What a budget that ends a run early does to the run's probabilities."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace

from monitor.model.run import Decision, Stratum
from monitor.model.verdict import NotSelected
from monitor.sampling.expectation import inclusion_probability


def recompute_over_budget(
    strata: Sequence[Stratum], drawn: Sequence[Decision], taken_up: Collection[str]
) -> tuple[tuple[Stratum, ...], tuple[Decision, ...]]:
    """The strata and the drawn decisions of a run as they are after only the invocations `taken_up` were worked off.

    Evaluations are worked off `always` first, then in the order of u: who is left has larger numbers than who was taken up, as under a smaller
    cap. So in each stratum that was cut, pi is recomputed with cap = the number taken up, for those taken up and for those left, and
    those left are no longer drawn, reason `over_budget`. A stratum that was not cut keeps its cap and its probability.
    """
    taken = Counter(decision.stratum for decision in drawn if decision.invocation_id in taken_up)
    cut = {stratum.name: _cut(stratum, taken[stratum.name]) for stratum in strata}
    before = {stratum.name: stratum.probability for stratum in strata}
    decisions = []
    for decision in drawn:
        factor = cut[decision.stratum].probability / before[decision.stratum]
        changed = replace(decision, inclusion_probability=decision.inclusion_probability * factor)
        if decision.invocation_id not in taken_up:
            changed = replace(changed, drawn=False, reason=NotSelected.OVER_BUDGET)
        decisions.append(changed)
    return tuple(cut.values()), tuple(decisions)


def _cut(stratum: Stratum, taken: int) -> Stratum:
    if taken >= stratum.drawn:
        return stratum
    probability = inclusion_probability(stratum.size, stratum.rate, taken, stratum.kept_below)
    return replace(stratum, cap=taken, drawn=taken, probability=probability)
