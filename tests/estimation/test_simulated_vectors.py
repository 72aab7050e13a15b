"""The two recorded vectors that were simulated, computed exactly or simulated anew with a seed."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path
from typing import Any

import pytest
from scipy import stats

from monitor.estimation.evidence import log_deficit_evidence
from monitor.estimation.judge_error import Calibration, Corrected, corrected_delta, corrected_small_sample

TOLERANCE = 0.02


def _vector(shared: Path, what: str) -> tuple[dict[str, Any], dict[str, float]]:
    vectors = json.loads((shared / "vectors" / "statistics.json").read_text())
    found = next(vector for vector in vectors if vector["what"] == what)
    return found["input"], found["expected"]


def _crossing(limits: dict[int, int], rate: float, last: int) -> list[float]:
    """P(alarm by n) for n = 0 to `last`, exactly: an alarm when the failures at n reach limits[n]."""
    alive, gone, path = [1.0], 0.0, [0.0]
    for n in range(1, last + 1):
        alive = [
            (alive[k] * rate if k < len(alive) else 0.0) + (alive[k - 1] * (1 - rate) if k else 0.0)
            for k in range(len(alive) + 1)
        ]
        if n in limits:
            gone += math.fsum(alive[limits[n] :])
            alive = alive[: limits[n]]
        path.append(gone)
    return path


def _e_process_limits(target: float, alpha: float, last: int) -> dict[int, int]:
    limits, fails = {}, 1
    for n in range(1, last + 1):
        while fails <= n and log_deficit_evidence(n - fails, fails, target) < math.log(1 / alpha):
            fails += 1
        if fails <= n:
            limits[n] = fails
    return limits


def test_peeking(shared: Path) -> None:
    """A one-sided z-test looked at again and again alarms as often as recorded; the e-process at every step stays below alpha and finds the drop as fast."""
    given, expected = _vector(shared, "peeking_false_alarm_simulated")
    p0, alpha = given["p0"], given["alpha"]
    z = stats.norm.ppf(1 - alpha)
    looks = {n: n * (1 - p0) + z * math.sqrt(n * p0 * (1 - p0)) for n in range(20, 1001, 20)}
    tests = {n: math.floor(limit) + 1 for n, limit in looks.items()}
    limits = _e_process_limits(p0, alpha, 1000)
    assert _crossing(tests, p0, 1000)[-1] == pytest.approx(expected["z_test_any_look"], abs=TOLERANCE)
    assert _crossing(limits, p0, 1000)[-1] == pytest.approx(expected["e_process_every_step"], abs=TOLERANCE)
    assert _crossing(limits, p0, 1000)[-1] <= alpha
    drop = _crossing(limits, 0.85, 1000)
    assert drop[-1] == pytest.approx(expected["e_process_power_p085_n1000"], abs=TOLERANCE)
    median = next(n for n, share in enumerate(drop) if share >= 0.5)
    assert median == pytest.approx(expected["e_process_median_delay"], abs=20)


def _draw(chance: random.Random, n: int, rate: float) -> int:
    return sum(chance.random() < rate for _ in range(n))


def test_coverage_of_the_corrected_rate(shared: Path) -> None:
    """The delta method's and Lang and Reiczigel's intervals hold the true rate as often as recorded."""
    given, expected = _vector(shared, "rogan_gladen_ci_coverage_simulated")
    theta, se, sp = given["theta"], given["se"], given["sp"]
    chance = random.Random(given["seed"])
    shown, reps, hits = se * theta + (1 - sp) * (1 - theta), 2000, {"lang_reiczigel": 0, "delta_wald": 0}
    for _ in range(reps):
        labels = Calibration(_draw(chance, given["P"], se), given["P"], _draw(chance, given["N"], sp), given["N"])
        passes = _draw(chance, given["n"], shown)
        hits["lang_reiczigel"] += _holds(corrected_small_sample(passes, given["n"], labels), theta)
        hits["delta_wald"] += _holds(corrected_delta(passes, given["n"], labels), theta)
    for name, count in hits.items():
        assert count / reps == pytest.approx(expected[name], abs=TOLERANCE), name


def _holds(found: Corrected | None, theta: float) -> bool:
    return found is not None and found.interval[0] <= theta <= found.interval[1]
