"""Means of samples that were drawn with unequal, known inclusion probabilities (0 < pi <= 1)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


def horvitz_thompson_total(values: Sequence[float], probabilities: Sequence[float]) -> float:
    """Unbiased estimate of the population's total: the sum of value / pi (Horvitz and Thompson 1952)."""
    return math.fsum(value / pi for value, pi in zip(values, probabilities, strict=True))


def hajek_mean(values: Sequence[float], probabilities: Sequence[float]) -> float | None:
    """Mean by the sum of value / pi over the sum of 1 / pi, for a population of unknown size (Hájek 1971); None for no values."""
    weight = math.fsum(1.0 / pi for pi in probabilities)
    return horvitz_thompson_total(values, probabilities) / weight if weight > 0 else None


def hajek_standard_error(values: Sequence[float], probabilities: Sequence[float]) -> float | None:
    """Standard error of `hajek_mean` under independent (Poisson) sampling, linearised; 0 when everything was taken, None for no values."""
    mean = hajek_mean(values, probabilities)
    if mean is None:
        return None
    weight = math.fsum(1.0 / pi for pi in probabilities)
    spread = math.fsum((1.0 - pi) / pi**2 * (y - mean) ** 2 for y, pi in zip(values, probabilities, strict=True))
    return math.sqrt(spread) / weight


def effective_sample_size(weight: float, squared_weight: float) -> float:
    """Kish's effective sample size (1965) from the sum of weights and the sum of squared weights: how many equal draws tell as much."""
    return weight * weight / squared_weight if squared_weight > 0 else 0.0


@dataclass(frozen=True, slots=True)
class Stratum:
    """A part of the population: its size, how many of it were drawn, how many of those passed."""

    size: int
    drawn: int
    passed: int


def stratified_rate(strata: Sequence[Stratum]) -> tuple[float, float]:
    """Pass rate of a stratified sample and its standard error, with finite-population correction (Cochran 1977, chapter 5).

    Each stratum needs two draws or to be drawn whole; raises ValueError otherwise, for its variance is then not known.
    """
    population = sum(stratum.size for stratum in strata)
    rate = variance = 0.0
    for stratum in strata:
        if stratum.drawn < min(2, stratum.size):
            raise ValueError(f"a stratum of {stratum.size} with {stratum.drawn} drawn has no variance: draw 2 or all")
        share, passed = stratum.size / population, stratum.passed / stratum.drawn
        rate += share * passed
        if stratum.drawn < stratum.size:
            left_out = 1.0 - stratum.drawn / stratum.size
            variance += share**2 * left_out * passed * (1.0 - passed) / (stratum.drawn - 1)
    return rate, math.sqrt(variance)


def cluster_robust_error(clusters: Sequence[Sequence[float]]) -> float:
    """Standard error of the plain mean when values of one cluster (turns of a conversation) hang together (Miller 2024)."""
    n = sum(len(cluster) for cluster in clusters)
    mean = math.fsum(value for cluster in clusters for value in cluster) / n
    return math.sqrt(math.fsum(math.fsum(value - mean for value in cluster) ** 2 for cluster in clusters)) / n
