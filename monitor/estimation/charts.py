"""Classical sequential tests and control charts of passes and failures: for comparison with the detector, and for diagnosis."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass


def log_ratio(passed: bool, before: float, after: float) -> float:
    """Log likelihood ratio of one result: pass rate `after` against `before`."""
    return math.log(after / before) if passed else math.log((1.0 - after) / (1.0 - before))


@dataclass(frozen=True, slots=True)
class Sprt:
    """Wald's sequential probability ratio test (1945): reject the old rate at `upper`, accept it at `lower`."""

    upper: float
    lower: float
    log_ratio: float


def sprt(passes: int, fails: int, before: float, after: float, alpha: float, beta: float) -> Sprt:
    """The bounds, and the log ratio of what was seen."""
    seen = passes * log_ratio(True, before, after) + fails * log_ratio(False, before, after)
    return Sprt(math.log((1.0 - beta) / alpha), math.log(beta / (1.0 - alpha)), seen)


def cusum_path(results: Iterable[bool], before: float, after: float) -> list[float]:
    """Page's (1954) cumulative sum of log ratios, never below 0, after each result."""
    path, level = [], 0.0
    for passed in results:
        level = max(0.0, level + log_ratio(passed, before, after))
        path.append(level)
    return path


def shiryaev_roberts(results: Iterable[bool], before: float, after: float) -> float:
    """R after the last result, R = (1 + R) LR; an alarm at R >= A has a mean time of at least A between false ones (Pollak 1987)."""
    level = 0.0
    for passed in results:
        level = (1.0 + level) * math.exp(log_ratio(passed, before, after))
    return level


@dataclass(frozen=True, slots=True)
class Ewma:
    """An exponentially weighted mean, its standard deviation under the old rate, and the lower limit of three of those."""

    level: float
    sigma: float
    lower_limit: float


def ewma(results: Iterable[bool], weight: float, before: float) -> Ewma:
    """Roberts' (1959) chart; it starts at the old rate."""
    level, n = before, 0
    for passed in results:
        level, n = weight * passed + (1.0 - weight) * level, n + 1
    share = weight / (2.0 - weight) * (1.0 - (1.0 - weight) ** (2 * n))
    sigma = math.sqrt(before * (1.0 - before) * share)
    return Ewma(level, sigma, before - 3.0 * sigma)
