"""What a judge's errors do to a pass rate, and the rate corrected for them.

Sensitivity is P(judge passes | people pass), specificity P(judge fails | people fail). A correction is refused (None) rather than guessed where
the judge is not better than chance.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from monitor.estimation.intervals import Interval, normal_quantile


def rogan_gladen(observed: float, sensitivity: float, specificity: float) -> float | None:
    """The true pass rate behind an observed one (Rogan and Gladen 1978), cut to [0, 1]; None where se + sp <= 1."""
    informed = sensitivity + specificity - 1.0
    return None if informed <= 0 else min(1.0, max(0.0, (observed + specificity - 1.0) / informed))


def observed_rate(true_rate: float, sensitivity: float, specificity: float) -> float:
    """What the judge shows of a true pass rate: an objective on the scale of judged verdicts."""
    return sensitivity * true_rate + (1.0 - specificity) * (1.0 - true_rate)


@dataclass(frozen=True, slots=True)
class Corrected:
    """A corrected pass rate, its standard error and its interval, cut to [0, 1]."""

    rate: float
    standard_error: float
    interval: Interval


@dataclass(frozen=True, slots=True)
class Calibration:
    """How the judge answered what people had labelled: passes of `positives`, failures of `negatives`. Counts may be effective ones."""

    true_passes: float
    positives: float
    true_fails: float
    negatives: float

    @property
    def sensitivity(self) -> float | None:
        """None without a label pass."""
        return self.true_passes / self.positives if self.positives > 0 else None

    @property
    def specificity(self) -> float | None:
        """None without a label fail."""
        return self.true_fails / self.negatives if self.negatives > 0 else None


def corrected_delta(passes: float, n: float, calibration: Calibration, confidence: float = 0.95) -> Corrected | None:
    """Rogan and Gladen's rate with the delta method's interval; None where it is refused."""
    se, sp = calibration.sensitivity, calibration.specificity
    if n <= 0 or se is None or sp is None or (rate := rogan_gladen(passes / n, se, sp)) is None:
        return None
    observed = passes / n
    error = _error(observed, n, rate, (se, calibration.positives), (sp, calibration.negatives))
    half = normal_quantile(0.5 + confidence / 2.0) * error
    return Corrected(rate, error, (max(0.0, rate - half), min(1.0, rate + half)))


def corrected_small_sample(
    passes: float, n: float, calibration: Calibration, confidence: float = 0.95
) -> Corrected | None:
    """Rogan and Gladen's rate with Lang and Reiczigel's interval (2014), which holds with few labels too; None where it is refused.

    Refused where se + sp <= 1, as measured or after one label was added to each cell, and where either class has no label.
    """
    se, sp = calibration.sensitivity, calibration.specificity
    if n <= 0 or se is None or sp is None or (rate := rogan_gladen(passes / n, se, sp)) is None:
        return None
    z = normal_quantile(0.5 + confidence / 2.0)
    observed = (passes + z * z / 2.0) / (n + z * z)
    positives, negatives = calibration.positives + 2.0, calibration.negatives + 2.0
    se, sp = (calibration.true_passes + 1.0) / positives, (calibration.true_fails + 1.0) / negatives
    informed = se + sp - 1.0
    if informed <= 0:
        return None
    centre = (observed + sp - 1.0) / informed
    shift = 2.0 * z * z * (centre * se * (1.0 - se) / positives - (1.0 - centre) * sp * (1.0 - sp) / negatives)
    error = _error(observed, n + z * z, centre, (se, positives), (sp, negatives))
    lower, upper = centre + shift - z * error, centre + shift + z * error
    return Corrected(rate, error, (min(rate, max(0.0, lower)), max(rate, min(1.0, upper))))


def _error(
    observed: float, n: float, rate: float, sensitivity: tuple[float, float], specificity: tuple[float, float]
) -> float:
    (se, positives), (sp, negatives) = sensitivity, specificity
    variance = observed * (1.0 - observed) / n
    variance += rate**2 * se * (1.0 - se) / positives + (1.0 - rate) ** 2 * sp * (1.0 - sp) / negatives
    return math.sqrt(variance) / (se + sp - 1.0)


@dataclass(frozen=True, slots=True)
class Powered:
    """A prediction-powered mean: `trust` is lambda, how much of the judge's answers was used (0 none, 1 all)."""

    trust: float
    rate: float
    standard_error: float
    interval: Interval


def prediction_powered(
    human: Sequence[float],
    judge: Sequence[float],
    judge_rate: float,
    judged: float,
    weights: Sequence[float] | None = None,
    confidence: float = 0.95,
) -> Powered | None:
    """The pass rate people would give: the judge's rate on all, moved by where people and judge differ on what people labelled (PPI++, 2023).

    `judge_rate` and `judged` are the judge's pass rate and how many invocations it rests on, those that were not labelled. `weights` are 1 / the
    probability with which a label was drawn, equal ones without. The interval is not cut: one that leaves [0, 1] says that the labels are too few. None
    with fewer than two labels.
    """
    n = len(human)
    if n < 2 or judged <= 0:
        return None
    shares = _shares(weights or [1.0] * n)
    size = 1.0 / math.fsum(share * share for share in shares)  # Kish's: n where all weigh the same
    mean_human, mean_judge = _mean(human, shares), _mean(judge, shares)
    covariance = _mean([(y - mean_human) * (f - mean_judge) for y, f in zip(human, judge, strict=True)], shares)
    spread = _pooled_variance(judge_rate, judged, mean_judge, size)
    trust = min(1.0, max(0.0, covariance / ((1.0 + size / judged) * spread))) if spread > 0 else 0.0
    rate = mean_human + trust * (judge_rate - mean_judge)
    rest = [y - trust * f for y, f in zip(human, judge, strict=True)]
    middle = _mean(rest, shares)
    variance = math.fsum((share * (x - middle)) ** 2 for share, x in zip(shares, rest, strict=True))
    variance += trust**2 * judge_rate * (1.0 - judge_rate) / judged
    error = math.sqrt(variance)
    half = normal_quantile(0.5 + confidence / 2.0) * error
    return Powered(trust, rate, error, (rate - half, rate + half))


def _shares(weights: Sequence[float]) -> list[float]:
    total = math.fsum(weights)
    return [weight / total for weight in weights]


def _mean(values: Sequence[float], shares: Sequence[float]) -> float:
    return math.fsum(share * value for share, value in zip(shares, values, strict=True))


def _pooled_variance(judge_rate: float, judged: float, labelled_rate: float, labelled: float) -> float:
    """Variance of the judge's answers over all, as ppi_py takes it: with n - 1."""
    everything = judged + labelled
    mean = (judge_rate * judged + labelled_rate * labelled) / everything
    return mean * (1.0 - mean) * everything / (everything - 1.0)
