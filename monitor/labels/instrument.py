"""Whether the instrument moved: agreement of judges with golden cases, with themselves and with people. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from monitor.estimation.comparison import mcnemar_exact
from monitor.labels.report import Judgement
from monitor.model.labels import Against, JudgeCheck, Label

NEWEST_SELF_CHECKS = 500
ALPHA = 0.05


class AgreementKey(NamedTuple):
    """The labels of `judge_agreement_ratio`."""

    rubric: str
    judge: str
    against: Against


def agreement_ratios(checks: Iterable[JudgeCheck]) -> Mapping[AgreementKey, float]:
    """The share of checks that agree: of the newest round of a golden set, and of the newest self-checks."""
    groups: dict[AgreementKey, list[JudgeCheck]] = defaultdict(list)
    for check in checks:
        groups[AgreementKey(check.rubric, check.judge, check.against)].append(check)
    found = {}
    for key, rows in groups.items():
        newest = max(row.round for row in rows)
        shown = [row for row in rows if row.round == newest][-NEWEST_SELF_CHECKS:]
        found[key] = sum(row.agrees for row in shown) / len(shown)
    return found


def human_agreement(judgements: Iterable[Judgement]) -> float | None:
    """The share of labels pass or fail that the judge agrees with."""
    decided = [one for one in judgements if one.human in (Label.PASS, Label.FAIL) and one.judge in ("pass", "fail")]
    return sum(one.human.value == one.judge for one in decided) / len(decided) if decided else None


def moved(checks: Iterable[JudgeCheck]) -> frozenset[str]:
    """The rubric versions whose judge answers golden cases worse than it first did.

    The newest round against the first, case by case: more cases turned wrong than right, by McNemar's exact test. Cases that were wrong from the
    start are no change of the instrument.
    """
    rounds: dict[str, dict[float, dict[str, bool]]] = defaultdict(lambda: defaultdict(dict))
    for check in checks:
        if check.against is Against.GOLDEN:
            rounds[check.rubric_version][check.round][check.key] = check.agrees
    found = set()
    for version, by_round in rounds.items():
        first, newest = by_round[min(by_round)], by_round[max(by_round)]
        worse = sum(first[key] and not newest[key] for key in first.keys() & newest.keys())
        better = sum(newest[key] and not first[key] for key in first.keys() & newest.keys())
        if worse > better and mcnemar_exact(worse, better) < ALPHA:
            found.add(version)
    return frozenset(found)
