"""The recorded statistics vectors, computed by SciPy and statsmodels, against our formulas."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from monitor.assembly.sampling_state import upstream_probability
from monitor.estimation import agreement, bounded, burn, charts, comparison, evidence, judge_error, versions, weighting
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
from monitor.sampling.allocation import cost_allocation, neyman_allocation


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


def _spread(rate: float) -> float:
    return math.sqrt(rate * (1 - rate))


def _neyman(given: dict[str, Any]) -> Any:
    return neyman_allocation(given["N"], [_spread(p) for p in given["p"]], given["n"])


def _cost(given: dict[str, Any]) -> Any:
    return cost_allocation(given["N"], [_spread(p) for p in given["p"]], given["cost"], given["budget"])


def _z_test(given: dict[str, Any]) -> Any:
    z, p = comparison.two_proportion_z(tuple(given["x"]), tuple(given["n"]))
    return {"z": z, "p_two_sided": p}


def _barnard(given: dict[str, Any]) -> Any:
    """SciPy's groups are the columns, ours the rows."""
    return {"p": comparison.barnard_exact(list(zip(*given["table"], strict=True)))}


def _sprt(given: dict[str, Any]) -> Any:
    found = charts.sprt(given["passes"], given["fails"], given["p0"], given["p1"], given["alpha"], given["beta"])
    return {"upper": found.upper, "lower": found.lower, "llr": found.log_ratio}


def _mixture(given: dict[str, Any]) -> Any:
    return math.exp(evidence.log_mixture_evidence(given["passes"], given["fails"], given["p0"], tuple(given["prior"])))


def _deficit(given: dict[str, Any]) -> Any:
    return math.exp(evidence.log_deficit_evidence(given["passes"], given["fails"], given["p0"], tuple(given["prior"])))


def _gaussian(given: dict[str, Any]) -> Any:
    return bounded.gaussian_mixture_half_width(given["n"], given["alpha"], given["rho"], given["sigma"])


def _bernstein(given: dict[str, Any]) -> Any:
    centre, half = bounded.empirical_bernstein(given["x"], given["alpha"], given["c"])
    cut = bounded.empirical_bernstein_sequence(given["x"], given["alpha"], given["c"])
    return {"center": centre, "halfwidth": half, "ci_clipped": list(cut)}


def _cusum(given: dict[str, Any]) -> Any:
    path = charts.cusum_path(given["x"], given["p0"], given["p1"])
    return {"final": path[-1], "max": max(path), "path": path}


def _ewma(given: dict[str, Any]) -> Any:
    found = charts.ewma(given["x"], given["lam"], given["p0"])
    return {"z": found.level, "sigma": found.sigma, "lcl3": found.lower_limit}


def _rogan_gladen(given: dict[str, Any]) -> Any:
    return judge_error.rogan_gladen(given["p_obs"], given["sensitivity"], given["specificity"])


def _delta(given: dict[str, Any]) -> Any:
    labels = judge_error.Calibration(given["tp"], given["human_pass"], given["tn"], given["human_fail"])
    found = judge_error.corrected_delta(given["judge_pass"], given["n"], labels)
    assert found is not None
    return {"theta": found.rate, "se": found.standard_error, "ci95": list(found.interval)}


def _powered(given: dict[str, Any]) -> Any:
    found = judge_error.prediction_powered(given["human"], given["judge_on_human"], 0.85, 100)
    assert found is not None
    return {
        "lambda_hat": found.trust,
        "estimate": found.rate,
        "se": found.standard_error,
        "ppi_py_point": found.rate,
        "ppi_py_ci95": list(found.interval),
    }


def _kappa(given: dict[str, Any]) -> Any:
    found = agreement.agreement(given["table"])
    return {"kappa": found.kappa, "percent_agreement": found.agreement}


def _repeats(given: dict[str, Any]) -> Any:
    found = agreement.repeated_judging(given["repeats"])
    return {"within": found.within, "between_item_means": found.between, "se_mean": found.standard_error}


def _clusters(given: dict[str, Any]) -> Any:
    turns = [value for turns in given["clusters"].values() for value in turns]
    lone = math.sqrt(sum((x - 0.75) ** 2 for x in turns)) / len(turns)
    error = weighting.cluster_robust_error(list(given["clusters"].values()))
    return {"mean": sum(turns) / len(turns), "naive_se": lone, "clustered_se": error}


def _hochberg(given: dict[str, Any]) -> Any:
    reject, adjusted = comparison.benjamini_hochberg(given["p"], given["alpha"])
    return {"reject": reject, "adjusted": adjusted}


def _largest_burn(given: dict[str, Any]) -> Any:
    largest = burn.largest_burn(given["slo"])
    return {"max_burn": largest, "threshold_14_4_reachable": largest > 14.4}


def _threshold(given: dict[str, Any]) -> Any:
    probability = upstream_probability(given["tracestate"])
    return {"sampling_probability": probability, "adjusted_count": 1 / probability}


FORMULAS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "wilson_interval": _wilson,
    "clopper_pearson_interval": _clopper_pearson,
    "newcombe_diff_interval": _newcombe,
    "rule_of_three_zero_failures_upper95": lambda given: zero_failures_upper(given["n"]),
    "stratified_pass_rate_fpc": _stratified,
    "horvitz_thompson_total_and_hajek_mean": _unequal,
    "kish_effective_sample_size": _kish,
    "sample_size_margin_fpc": _margin,
    "neyman_allocation": _neyman,
    "cost_optimal_allocation": _cost,
    "two_proportion_z_test_pooled": _z_test,
    "fisher_exact_two_sided": lambda given: {"p": comparison.fisher_exact(given["table"])},
    "barnard_exact_two_sided": _barnard,
    "mcnemar_exact": lambda given: comparison.mcnemar_exact(given["b"], given["c"]),
    "n_per_group_detect_drop": _drop,
    "n_one_sample_vs_known_target": _target,
    "sprt_wald_bounds_and_llr": _sprt,
    "beta_mixture_e_value_simple_null": _mixture,
    "beta_binomial_confidence_sequence": lambda given: evidence.betting_interval(given["passes"], given["fails"]),
    "one_sided_truncated_beta_e_process": _deficit,
    "gaussian_mixture_cs_halfwidth_bounded01": _gaussian,
    "predictable_mixture_empirical_bernstein_cs": _bernstein,
    "hedged_capital_cs_grid": lambda given: bounded.hedged_capital_interval(given["x"], given["alpha"]),
    "two_sample_safe_e_value_blocks": lambda given: versions.paired_evidence(given["blocks"]),
    "bernoulli_cusum_path_end": _cusum,
    "ewma_control_chart": _ewma,
    "shiryaev_roberts_statistic": lambda given: charts.shiryaev_roberts(given["x"], given["p0"], given["p1"]),
    "rogan_gladen": _rogan_gladen,
    "rogan_gladen_with_se_delta": _delta,
    "ppi_plus_plus_mean": _powered,
    "cohen_kappa_prevalence_paradox": _kappa,
    "fleiss_kappa": lambda given: agreement.fleiss_kappa(given["table"]),
    "repeat_judging_variance_of_mean": _repeats,
    "cluster_robust_se_mean": _clusters,
    "benjamini_hochberg_reject": _hochberg,
    "burn_rate_multiplier": lambda given: burn.burn_multiple(
        given["budget_fraction"], given["window_h"], given["period_h"]
    ),
    "burn_rate_cap_for_low_slo": _largest_burn,
    "low_traffic_false_page_probability": lambda given: burn.false_page_probability(
        given["slo"], given["n_in_window"], given["burn"], given["p_true_fail"]
    ),
    "otel_tracestate_threshold": _threshold,
    "objective_on_judged_scale": lambda given: judge_error.observed_rate(
        given["true_objective"], given["sensitivity"], given["specificity"]
    ),
}
SIMULATED = {"peeking_false_alarm_simulated", "rogan_gladen_ci_coverage_simulated"}
LOOSE = {"barnard_exact_two_sided": 1e-4}
NOT_OURS = {"naive_pooled", "ci95"}
"""Keys of a vector that show the wrong answer, or what is made of the others."""


def _vectors(shared: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((shared / "vectors" / "statistics.json").read_text())
    return found


def _flat(value: Any) -> list[float]:
    """All numbers of a value, in order."""
    if isinstance(value, dict):
        return [number for key in sorted(value) for number in _flat(value[key])]
    return [number for item in value for number in _flat(item)] if isinstance(value, list | tuple) else [float(value)]


def test_every_vector_has_a_formula(shared: Path) -> None:
    """No recorded vector is left out."""
    assert {vector["what"] for vector in _vectors(shared)} == FORMULAS.keys() | SIMULATED


@pytest.mark.parametrize("what", FORMULAS)
def test_vectors(shared: Path, what: str) -> None:
    """Each recorded vector comes out to nine digits (Barnard's test to four)."""
    for vector in (vector for vector in _vectors(shared) if vector["what"] == what):
        got, expected = FORMULAS[what](vector["input"]), vector["expected"]
        if isinstance(got, dict):
            assert expected.keys() - got.keys() <= NOT_OURS
            expected = {key: expected[key] for key in got}
        assert _flat(got) == pytest.approx(_flat(expected), rel=2e-9, abs=LOOSE.get(what, 2e-10))
