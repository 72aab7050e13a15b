"""What labels say of a judge: agreement, sensitivity and specificity, and the pass rate that people would give. Pure."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from monitor.estimation.agreement import Agreement, agreement
from monitor.estimation.intervals import Interval, wilson_interval
from monitor.estimation.judge_error import (
    Calibration,
    Corrected,
    Powered,
    corrected_small_sample,
    prediction_powered,
)
from monitor.model.labels import Label, Labelled

LEAST_LABELS = 5
"""Labels of each class without which no correction is made: fewer say nothing of an error rate."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """What people agree on of one invocation, beside what the judge said; `probability` is None where it was not drawn."""

    rubric_version: str
    human: Label
    judge: str
    probability: float | None


@dataclass(frozen=True, slots=True)
class Rate:
    """A share with its interval and how many labels it rests on (effective ones where they weigh differently)."""

    value: float
    interval: Interval
    n: float


@dataclass(frozen=True, slots=True)
class LabelReport:
    """What is known of one rubric of one monitor. `refused` says why there is no corrected pass rate."""

    monitor: str
    rubric: str
    labels: int
    unsure: int
    not_applicable: int
    drawn: int
    agreement: Agreement
    sensitivity: Rate | None
    specificity: Rate | None
    observed: Rate | None
    powered: Powered | None
    corrected: Corrected | None
    refused: str | None


def settled_labels(labels: Iterable[Labelled]) -> Mapping[tuple[str, str], list[Judgement]]:
    """By (monitor, rubric): one label an invocation, what most of its labelers said; where they are even, nobody knows (unsure)."""
    groups: dict[tuple[str, str], dict[str, list[Labelled]]] = defaultdict(lambda: defaultdict(list))
    for one in labels:
        groups[one.monitor, one.rubric][one.invocation_id].append(one)
    return {key: [_majority(rows) for rows in by_invocation.values()] for key, by_invocation in groups.items()}


def _majority(rows: Sequence[Labelled]) -> Judgement:
    counts = Counter(row.label for row in rows if row.label is not Label.UNSURE)
    leading = [label for label, count in counts.items() if count == max(counts.values())]
    human = leading[0] if len(leading) == 1 else Label.UNSURE
    drawn = next((row for row in rows if row.probability is not None), rows[-1])
    return Judgement(drawn.rubric_version, human, drawn.verdict, drawn.probability)


def calibration(judgements: Iterable[Judgement], rubric_version: str | None = None) -> Calibration:
    """How the judge answered what was drawn and labelled pass or fail, in effective counts; only of one rubric version where it is named."""
    drawn = [
        one
        for one in judgements
        if one.probability is not None and rubric_version in (None, one.rubric_version) and _decided(one)
    ]
    true_passes, positives = _effective([one for one in drawn if one.human is Label.PASS], "pass")
    true_fails, negatives = _effective([one for one in drawn if one.human is Label.FAIL], "fail")
    return Calibration(true_passes, positives, true_fails, negatives)


def _decided(one: Judgement) -> bool:
    return one.human in (Label.PASS, Label.FAIL) and one.judge in ("pass", "fail")


def _effective(rows: Sequence[Judgement], verdict: str) -> tuple[float, float]:
    """How many effective labels of a class the judge answered so, and how many there are: Kish's size of the weights, at the weighted share."""
    weights = [1.0 / (one.probability or 1.0) for one in rows]
    if not weights:
        return 0.0, 0.0
    total = math.fsum(weights)
    size = total**2 / math.fsum(weight**2 for weight in weights)
    right = math.fsum(weight for weight, one in zip(weights, rows, strict=True) if one.judge == verdict)
    return right / total * size, size


def refusal(found: Calibration) -> str | None:
    """Why a pass rate is not corrected by this calibration, or None."""
    few = [
        f"{math.floor(count)} drawn labels {name}, {LEAST_LABELS} are needed"
        for name, count in (("pass", found.positives), ("fail", found.negatives))
        if count < LEAST_LABELS - 1e-9
    ]
    if few:
        return "; ".join(few)
    informed = (found.sensitivity or 0.0) + (found.specificity or 0.0) - 1.0
    return (
        None if informed > 0 else "sensitivity and specificity add up to 1 or less: the judge is no better than chance"
    )


def corrected_rate(rate: float, effective_samples: float, found: Calibration) -> Corrected | None:
    """A pass rate corrected for the judge's errors (Rogan and Gladen, Lang and Reiczigel's interval); None where it is refused."""
    if refusal(found) is not None:
        return None
    return corrected_small_sample(rate * effective_samples, effective_samples, found)


def report(key: tuple[str, str], judgements: Sequence[Judgement], observed: tuple[float, float] | None) -> LabelReport:
    """The report of a monitor's rubric; `observed` is the judge's pass rate and its effective samples, of the time that the draws were made from."""
    decided = [one for one in judgements if _decided(one)]
    table = [[sum(one.human is h and one.judge == j for one in decided) for j in ("pass", "fail")] for h in _CLASSES]
    found = calibration(judgements)
    drawn = [one for one in decided if one.probability is not None]
    powered = corrected = None
    if observed is not None:
        powered = prediction_powered(
            [float(one.human is Label.PASS) for one in drawn],
            [float(one.judge == "pass") for one in drawn],
            *observed,
            [1.0 / (one.probability or 1.0) for one in drawn],
        )
        corrected = corrected_rate(*observed, found)
    return LabelReport(
        monitor=key[0],
        rubric=key[1],
        labels=len(judgements),
        unsure=sum(one.human is Label.UNSURE for one in judgements),
        not_applicable=sum(one.human is Label.NOT_APPLICABLE for one in judgements),
        drawn=len(drawn),
        agreement=agreement(table),
        sensitivity=_rate(found.true_passes, found.positives),
        specificity=_rate(found.true_fails, found.negatives),
        observed=None if observed is None else Rate(observed[0], wilson_interval(*observed), observed[1]),
        powered=None if powered is None else _within_bounds(powered),
        corrected=corrected,
        refused=refusal(found) if observed is not None else "nothing was judged in the last 7 days",
    )


def _within_bounds(found: Powered) -> Powered:
    """A share as people read it: with few labels the estimate and its interval can leave [0, 1]."""
    rate, lower, upper = (min(1.0, max(0.0, value)) for value in (found.rate, *found.interval))
    return replace(found, rate=rate, interval=(lower, upper))


_CLASSES = (Label.PASS, Label.FAIL)


def _rate(right: float, n: float) -> Rate | None:
    return Rate(right / n, wilson_interval(right / n, n), n) if n > 0 else None
