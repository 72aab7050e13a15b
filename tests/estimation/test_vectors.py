"""The recorded statistics vectors, computed by SciPy and statsmodels, against our formulas."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from monitor.estimation.intervals import (
    clopper_pearson_interval,
    newcombe_interval,
    wilson_interval,
    zero_failures_upper,
)
from monitor.estimation.power import samples_below_target, samples_for_margin, samples_to_see_drop
from monitor.estimation.weighting import (
    Stratum,
    effective_sample_size,
    hajek_mean,
    hajek_standard_error,
    horvitz_thompson_total,
    stratified_rate,
)


def _wilson(given: dict[str, Any]) -> Any:
    return wilson_interval(given["successes"] / given["n"], given["n"], 1 - given["alpha"])


def _clopper_pearson(given: dict[str, Any]) -> Any:
    return clopper_pearson_interval(given["successes"], given["n"], 1 - given["alpha"])


def _newcombe(given: dict[str, Any]) -> Any:
    first, second = given["s1"] / given["n1"], given["s2"] / given["n2"]
    return newcombe_interval(first, given["n1"], second, given["n2"], 1 - given["alpha"])


def _unequal(given: dict[str, Any]) -> Any:
    total = horvitz_thompson_total(given["y"], given["pi"])
    return {
        "ht_total": total,
        "ht_mean_known_N": total / given["N"],
        "N_hat": horvitz_thompson_total([1] * len(given["pi"]), given["pi"]),
        "hajek_mean": hajek_mean(given["y"], given["pi"]),
        "hajek_se_poisson": hajek_standard_error(given["y"], given["pi"]),
    }


def _stratified(given: dict[str, Any]) -> Any:
    rate, error = stratified_rate([Stratum(s["N"], s["n"], s["k"]) for s in given["strata"]])
    return {"estimate": rate, "se": error}


def _kish(given: dict[str, Any]) -> Any:
    return effective_sample_size(sum(given["weights"]), sum(weight**2 for weight in given["weights"]))


def _margin(given: dict[str, Any]) -> Any:
    asked = (given["p"], given["margin"])
    return {
        "n_infinite": samples_for_margin(*asked, None, given["conf"]),
        "n_fpc": samples_for_margin(*asked, given["N"], given["conf"]),
    }


def _drop(given: dict[str, Any]) -> Any:
    return samples_to_see_drop(given["p1"], given["p2"], given["alpha"], given["power"], one_sided=given["one_sided"])


def _target(given: dict[str, Any]) -> Any:
    return samples_below_target(given["p0"], given["p1"], given["alpha_one_sided"], given["power"])


FORMULAS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "wilson_interval": _wilson,
    "clopper_pearson_interval": _clopper_pearson,
    "newcombe_diff_interval": _newcombe,
    "rule_of_three_zero_failures_upper95": lambda given: zero_failures_upper(given["n"]),
    "stratified_pass_rate_fpc": _stratified,
    "horvitz_thompson_total_and_hajek_mean": _unequal,
    "kish_effective_sample_size": _kish,
    "sample_size_margin_fpc": _margin,
    "n_per_group_detect_drop": _drop,
    "n_one_sample_vs_known_target": _target,
}


def test_vectors(shared: Path) -> None:
    """Every recorded vector of a formula that exists here comes out to nine digits."""
    vectors = json.loads((shared / "vectors" / "statistics.json").read_text())
    ours = [vector for vector in vectors if vector["what"] in FORMULAS]
    assert {vector["what"] for vector in ours} == set(FORMULAS)
    for vector in ours:
        got, expected = FORMULAS[vector["what"]](vector["input"]), vector["expected"]
        if isinstance(got, dict):
            expected = {key: expected[key] for key in got}
        elif isinstance(got, tuple):
            expected = tuple(expected)
        assert got == pytest.approx(expected, rel=2e-9, abs=2e-10), vector["what"]
