"""How many judged invocations it takes: to see a drop, or to know a rate to a margin. Normal approximations."""

from __future__ import annotations

import math

from monitor.estimation.intervals import normal_quantile


def samples_to_see_drop(
    before: float, after: float, alpha: float = 0.05, power: float = 0.8, *, one_sided: bool = False
) -> int:
    """Judged invocations before and after, each, to tell two rates apart (Fleiss, without continuity correction)."""
    z_alpha = normal_quantile(1.0 - (alpha if one_sided else alpha / 2.0))
    z_power = normal_quantile(power)
    pooled = (before + after) / 2.0
    root = z_alpha * math.sqrt(2.0 * pooled * (1.0 - pooled))
    root += z_power * math.sqrt(before * (1.0 - before) + after * (1.0 - after))
    return math.ceil((root / (before - after)) ** 2)


def samples_below_target(target: float, rate: float, alpha: float = 0.05, power: float = 0.8) -> int:
    """Judged invocations to see that a rate lies below a fixed target (one sample, one-sided)."""
    root = normal_quantile(1.0 - alpha) * math.sqrt(target * (1.0 - target))
    root += normal_quantile(power) * math.sqrt(rate * (1.0 - rate))
    return math.ceil((root / (target - rate)) ** 2)


def samples_for_margin(rate: float, margin: float, population: int | None = None, confidence: float = 0.95) -> int:
    """Judged invocations to know a rate within +- margin, of a population of that size (None: endless)."""
    endless = normal_quantile(0.5 + confidence / 2.0) ** 2 * rate * (1.0 - rate) / margin**2
    return math.ceil(endless if population is None else endless / (1.0 + (endless - 1.0) / population))
