"""`python -m bench statistics`: do the intervals hold the pass rate as often as they say, and does the detector keep its promise.

Seeds are fixed; the figures in docs/statistics.md are this program's. Exit status 1 when a bound that the docs promise is not kept.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from monitor.estimation.bounds import Method, bounds, window_bounds
from monitor.estimation.detector import SHARES, Detector, Turns, rates
from monitor.estimation.intervals import clopper_pearson_interval, wilson_interval
from monitor.model.totals import Totals

RATES = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99)
SIZES = (5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000)
FEW = 5
FLAGGED, KEPT, TURNS, CORRELATION = 0.2, 0.1, 8, 0.3
Sample = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Passed (0 or 1), weight, and cluster of each judged invocation."""


def main(arguments: Sequence[str]) -> int:
    """Run it and print the tables."""
    parser = argparse.ArgumentParser(prog="python -m bench statistics", description=__doc__)
    parser.add_argument("--reps", type=int, default=2000, help="samples per cell (default: %(default)s)")
    parser.add_argument("--paths", type=int, default=1000, help="paths of the detector (default: %(default)s)")
    parser.add_argument("--only", choices=("intervals", "detector"), help="one part of it")
    given = parser.parse_args(arguments)
    checks: list[Check] = []
    if given.only != "detector":
        checks += simple_intervals(given.reps)
        checks += designed_intervals("weighted", weighted, given.reps)
        checks += designed_intervals("clustered", clustered, given.reps)
        checks += finite_windows(given.reps)
    if given.only != "intervals":
        checks += detector(given.paths)
    print("\n| promise | measured | kept |\n|---|---|---|")
    for check in checks:
        print(f"| {check.promise} | {check.measured} | {'yes' if check.kept else '**no**'} |")
    return 0 if all(check.kept for check in checks) else 1


@dataclass(frozen=True)
class Check:
    """A promise and what came out."""

    promise: str
    measured: str
    kept: bool


# -- simple samples: coverage is computed, not only simulated ------------------------------------------------------------
def simple_intervals(reps: int) -> list[Check]:
    """Wilson's and the exact interval in every cell, and what is exported (exact below 5 failures or passes, else Wilson's)."""
    chance = np.random.default_rng(20261130)
    kinds: dict[str, Callable[[int, int], tuple[float, float]]] = {
        "exact": clopper_pearson_interval,
        "wilson": lambda k, n: wilson_interval(k / n, n),
        "exported": exported,
    }
    found = {name: {} for name in kinds}
    worst = 0.0
    for n in SIZES:
        made = {name: {} for name in kinds}
        for rate in RATES:
            ks = [k for k in range(n + 1) if stats.binom.pmf(k, n, rate) > 1e-13]
            mass = stats.binom.pmf(ks, n, rate)
            for name, interval in kinds.items():
                for k in ks:
                    made[name].setdefault(k, interval(k, n))
                inside = [made[name][k][0] <= rate <= made[name][k][1] for k in ks]
                found[name][rate, n] = float(np.sum(mass[inside]))
            drawn = chance.binomial(n, rate, reps)
            simulated = np.mean([made["wilson"].setdefault(k, kinds["wilson"](k, n))[0] <= rate
                                 <= made["wilson"][k][1] for k in drawn.tolist()])  # fmt: skip
            exact = found["wilson"][rate, n]
            error = math.sqrt(max(exact * (1 - exact), 0.5 / reps) / reps)
            worst = max(worst, abs(float(simulated) - exact) / error)
    for name in kinds:
        table(f"simple sample, {name}: exact coverage", found[name])
    least, mean = min(found["exact"].values()), float(np.mean(list(found["wilson"].values())))
    shown = min(found["exported"].values())
    return [
        Check("exact interval: at least 0.95 in every cell", f"{least:.4f}", least >= 0.95 - 1e-9),
        Check("Wilson: at least 0.945 in the mean", f"{mean:.4f}", mean >= 0.945),
        Check("Wilson: simulated as computed, within 4 standard errors", f"{worst:.1f} standard errors", worst <= 4),
        Check("exported: mean coverage at least 0.945", f"{np.mean(list(found['exported'].values())):.4f} "
              f"(least {shown:.3f})", float(np.mean(list(found["exported"].values()))) >= 0.945),
    ]  # fmt: skip


def exported(k: int, n: int) -> tuple[float, float]:
    """What /metrics shows of k passes of n."""
    found = bounds(totals_of((np.r_[np.ones(k), np.zeros(n - k)], np.ones(n), np.arange(n))))
    return found.lower, found.upper


# -- weighted and clustered samples --------------------------------------------------------------------------------------
def weighted(chance: np.random.Generator, rate: float, n: int) -> Sample:
    """A fifth of the traffic is flagged, fails twice as often, and is judged whole; of the rest a tenth is judged."""
    failing = min(0.98, 2 * (1 - rate))
    rest = ((1 - rate) - FLAGGED * failing) / (1 - FLAGGED)
    flagged = chance.random(n) < FLAGGED / (FLAGGED + (1 - FLAGGED) * KEPT)
    passed = chance.random(n) >= np.where(flagged, failing, rest)
    return passed.astype(float), np.where(flagged, 1.0, 1 / KEPT), np.arange(n)


def clustered(chance: np.random.Generator, rate: float, n: int) -> Sample:
    """Conversations of 1 to 8 turns; turns of one pass together with an intra-class correlation of 0.3 (beta-binomial)."""
    sizes: list[int] = []
    while sum(sizes) < n:
        sizes.append(min(n - sum(sizes), int(chance.integers(1, TURNS + 1)))) if n < 500 else sizes.extend(
            chance.integers(1, TURNS + 1, 1 + (n - sum(sizes)) // 5).tolist()
        )
    cluster = np.repeat(np.arange(len(sizes)), sizes)[:n]
    spread = (1 - CORRELATION) / CORRELATION
    chances = chance.beta(rate * spread, (1 - rate) * spread, len(sizes))
    return (chance.random(n) < chances[cluster]).astype(float), np.ones(n), cluster


def totals_of(sample: Sample) -> Totals:
    """The sums that the store would hold."""
    passed, weight, cluster = sample
    p, w = np.bincount(cluster, weight * passed), np.bincount(cluster, weight)
    return Totals(
        passed=int(passed.sum()),
        failed=int(len(passed) - passed.sum()),
        passed_weight=float(p.sum()),
        failed_weight=float(w.sum() - p.sum()),
        squared_weight=float((weight**2).sum()),
        clusters=len(w),
        heaviest=float(w.max()),
        cluster_squared=float((w * w).sum()),
        cluster_cross=float((w * p).sum()),
        cluster_passed_squared=float((p * p).sum()),
        passed_squared=float((passed * weight**2).sum()),
    )


def designed_intervals(name: str, design: Callable[..., Sample], reps: int) -> list[Check]:
    """Coverage of the exported interval in every cell, and how often it was a bet."""
    chance = np.random.default_rng(7)
    coverage: dict[tuple[float, int], float] = {}
    bets: dict[tuple[float, int], float] = {}
    for rate in RATES:
        for n in SIZES:
            found = [bounds(totals_of(design(chance, rate, n))) for _ in range(reps)]
            coverage[rate, n] = float(np.mean([one.lower <= rate <= one.upper for one in found]))
            bets[rate, n] = float(np.mean([one.method in (Method.BETTING, Method.EXACT) for one in found]))
    table(f"{name} sample: coverage ({reps} samples a cell)", coverage)
    table(f"{name} sample: share of bets and exact intervals", bets, digits=2)
    enough = {cell: value for cell, value in coverage.items() if cell[1] * (1 - cell[0]) >= FEW - 1e-9}
    mean, least = float(np.mean(list(enough.values()))), min(enough.values())
    fewer = [cell for cell in coverage if cell not in enough]
    few = {cell: bets[cell] for cell in coverage if cell[1] * (1 - cell[0]) <= 1}
    least_few, bet = min(coverage[cell] for cell in fewer), float(np.mean([bets[cell] for cell in fewer]))
    return [
        Check(f"{name}: at least 0.945 in the mean", f"{mean:.4f}", mean >= 0.945),
        Check(f"{name}: at least 0.925 where 5 failures are expected", f"{least:.4f}", least >= 0.925),
        Check(
            f"{name}: at least 0.94 where fewer than 5 are expected",
            f"{least_few:.4f}; a bet or exact in {bet:.2f} of those samples, in {min(bets[cell] for cell in fewer):.2f} of the least cell",
            least_few >= 0.94,
        ),
        Check(
            f"{name}: a bet or an exact interval where a failure is hardly expected",
            f"{min(few.values()):.3f} of samples",
            min(few.values()) >= 0.99,
        ),
    ]


# -- what happened in a window, rather than what the agent does ------------------------------------------------------------
POPULATIONS, FRACTIONS = (100, 1000), (0.1, 0.5, 0.9)


def finite_windows(reps: int) -> list[Check]:
    """Coverage of the window's own rate by `bounds: window`, which corrects for the finite population: drawn evenly, and with flagged ones whole."""
    chance, coverage = np.random.default_rng(8), {}
    print("\nwindow's own rate: coverage\n\n| invocations, drawn | " + " | ".join(map(str, RATES)) + " |")
    print("|---" * (len(RATES) + 1) + "|")
    for population in POPULATIONS:
        for fraction in (*FRACTIONS, None):
            for rate in RATES:
                hits = (held(chance, population, fraction, rate) for _ in range(reps // 4))
                coverage[population, fraction, rate] = float(np.mean(list(hits)))
            told = f"{fraction:.0%}" if fraction else f"flagged whole, {KEPT:.0%} of the rest"
            cells = " | ".join(f"{coverage[population, fraction, rate]:.3f}" for rate in RATES)
            print(f"| {population}, {told} | {cells} |")
    even = [value for (_, fraction, _), value in coverage.items() if fraction]
    flagged = [value for (_, fraction, _), value in coverage.items() if not fraction]
    return [
        Check("window, drawn evenly: at least 0.945 in the mean, 0.925 in every cell", f"{np.mean(even):.4f}, {min(even):.3f}",
              float(np.mean(even)) >= 0.945 and min(even) >= 0.925),
        Check("window, flagged ones whole: at least 0.945 in the mean, 0.925 in every cell", f"{np.mean(flagged):.4f}, {min(flagged):.3f}",
              float(np.mean(flagged)) >= 0.945 and min(flagged) >= 0.925),
    ]  # fmt: skip


def held(chance: np.random.Generator, population: int, fraction: float | None, rate: float) -> bool:
    """One window and one sample of it: whether the interval holds what share of the window passed."""
    flagged = chance.random(population) < FLAGGED
    failing = min(0.98, 2 * (1 - rate))
    rest = ((1 - rate) - FLAGGED * failing) / (1 - FLAGGED)
    passed = chance.random(population) >= np.where(flagged, failing, rest)
    if fraction:
        drawn = chance.permutation(population)[: round(fraction * population)]
        weight = np.full(len(drawn), 1 / fraction)
    else:
        drawn = np.flatnonzero(flagged | (chance.random(population) < KEPT))
        weight = np.where(flagged[drawn], 1.0, 1 / KEPT)
    if len(drawn) == 0:
        return True
    found = window_bounds(totals_of((passed[drawn].astype(float), weight, np.arange(len(drawn)))))
    return found.lower - 1e-9 <= float(passed.mean()) <= found.upper + 1e-9


def table(title: str, cells: dict[tuple[float, int], float], digits: int = 3) -> None:
    """A table by rate and size."""
    print(f"\n{title}\n\n| rate | " + " | ".join(f"n={n}" for n in SIZES) + " |")
    print("|---" * (len(SIZES) + 1) + "|")
    for rate in RATES:
        print(f"| {rate} | " + " | ".join(f"{cells[rate, n]:.{digits}f}" for n in SIZES) + " |")


# -- the detector --------------------------------------------------------------------------------------------------------
@dataclass
class Paths:
    """Many detectors at once: the recursion of `Detector` on arrays, proved equal to it by `same_as_the_product`."""

    target: float
    thetas: np.ndarray
    shares: np.ndarray
    levels: np.ndarray

    @classmethod
    def mixture(cls, target: float, count: int) -> Paths:
        thetas = np.array(rates(target))
        return cls(target, thetas, np.array(SHARES), np.zeros((count, len(thetas))))

    @classmethod
    def oracle(cls, target: float, after: float, count: int) -> Paths:
        return cls(target, np.array([after]), np.ones(1), np.zeros((count, 1)))

    def add(self, passed: np.ndarray, weight: np.ndarray | float = 1.0, share: np.ndarray | float = 1.0) -> np.ndarray:
        ratio = np.where(passed[:, None], self.thetas / self.target, (1 - self.thetas) / (1 - self.target))
        v, a = np.broadcast_to(weight, len(passed))[:, None], np.broadcast_to(share, len(passed))[:, None]
        self.levels = (1 + self.levels) * (1 + v * (ratio - 1)) ** a
        return self.levels @ self.shares

    def keep(self, which: np.ndarray) -> None:
        self.levels = self.levels[which]


def same_as_the_product() -> Check:
    """One path of weighted results through both."""
    chance, one, many = np.random.default_rng(1), Detector(0.95), Paths.mixture(0.95, 1)
    for n in range(500):
        passed, weight, share = bool(chance.random() < 0.9), float(chance.random()), float(chance.random())
        one, evidence = one.add(passed, float(n), weight, share), many.add(np.array([passed]), weight, share)
    gap = abs(one.evidence / float(evidence[0]) - 1)
    return Check("simulated recursion is the product's", f"relative difference {gap:.0e}", gap < 1e-9)


def first_passage(
    make: Callable[[int], Paths], limits: Sequence[float], rate: float, count: int, seed: int
) -> list[np.ndarray]:
    """When each of many paths first reaches each limit, from a standing start, at a constant pass rate."""
    chance = np.random.default_rng(seed)
    times, paths, alive, step = [np.zeros(count) for _ in limits], make(count), np.arange(count), 0
    while len(alive):
        step += 1
        evidence = paths.add(chance.random(len(alive)) < rate)
        for limit, found in zip(limits, times, strict=True):
            hit = alive[(evidence >= limit) & (found[alive] == 0)]
            found[hit] = step
        left = evidence < max(limits)
        if not left.all():
            paths.keep(left)
            alive = alive[left]
    return times


def delays(paths: Paths, limit: float, before: float, after: float, seed: int, calm: int = 1000) -> np.ndarray:
    """Verdicts after a change until the alarm, of paths that had none before it."""
    chance, count = np.random.default_rng(seed), len(paths.levels)
    quiet = np.ones(count, bool)
    for _ in range(calm):
        quiet &= paths.add(chance.random(count) < before) < limit
    paths.keep(quiet)
    found, alive, step = np.zeros(quiet.sum()), np.arange(quiet.sum()), 0
    while len(alive):
        step += 1
        left = paths.add(chance.random(len(alive)) < after) < limit
        found[alive[~left]] = step
        paths.keep(left)
        alive = alive[left]
    return found


def detector(count: int) -> list[Check]:
    """Mean time between false alarms, and the delay against the SR procedure that knows the rate after the change."""
    target, after, promised = 0.95, 0.85, 10_000.0
    ours = first_passage(lambda n: Paths.mixture(target, n), [promised], target, count, 11)[0]
    limits = np.geomspace(promised * 0.5, promised * 1.6, 24).tolist()
    oracle = first_passage(lambda n: Paths.oracle(target, after, n), limits, target, count, 12)
    means = [float(np.mean(times)) for times in oracle]
    limit = float(np.interp(float(np.mean(ours)), means, limits))
    mine = float(np.median(delays(Paths.mixture(target, 4 * count), promised, target, after, 13)))
    best = float(np.median(delays(Paths.oracle(target, after, 4 * count), limit, target, after, 13)))
    mean, error = float(np.mean(ours)), float(np.std(ours) / math.sqrt(count))
    print(
        f"\ndetector at {target}, promised {promised:,.0f}: mean time between false alarms {mean:,.0f} (+- {error:,.0f})"
    )
    print(
        f"oracle SR for {after}: limit {limit:,.0f} gives the same mean; median delay ours {mine:.0f}, oracle {best:.0f}"
    )
    print("\n| drop to | median delay, ours | mean |\n|---|---|---|")
    for drop in (0.92, 0.90, 0.85, 0.75, 0.60):
        found = delays(Paths.mixture(target, count), promised, target, drop, 14)
        print(f"| {drop} | {np.median(found):.0f} | {np.mean(found):.0f} |")
    return [
        same_as_the_product(),
        Check("mean time between false alarms at least as promised (10,000), at the objective", f"{mean:,.0f}", mean >= promised),
        Check("median delay 0.95 to 0.85 at most 1.3 x the best SR's", f"{mine:.0f} / {best:.0f} = {mine / best:.2f}", mine <= 1.3 * best),
        *harder_streams(count // 4),
    ]  # fmt: skip


def harder_streams(count: int) -> list[Check]:
    """The promise under unequal sampling and under conversations, at 1,000 for time's sake; at the objective exactly."""
    target, promised, checks = 0.95, 1_000.0, []
    for name, stream in (("over-sampled failures", _oversampled), ("conversations that fail together", _conversations)):
        times = _until(stream(count, target), promised, target, count)
        mean = float(np.mean(times))
        checks.append(Check(f"the same with {name} (1,000)", f"{mean:,.0f}", mean >= promised))
    return checks


Step = tuple[np.ndarray, np.ndarray, np.ndarray]


def _oversampled(count: int, rate: float) -> Iterable[Step]:
    """As the design `weighted`: passed, weight over the heaviest, share."""
    chance = np.random.default_rng(21)
    while True:
        passed, weight, _ = weighted(chance, rate, count)
        yield passed > 0, weight * KEPT, np.ones(count)


def _conversations(count: int, rate: float) -> Iterable[Step]:
    """Conversations as in the design `clustered`, one after the other on each path, shared out by their usual size so far."""
    chance, spread = np.random.default_rng(22), (1 - CORRELATION) / CORRELATION
    turns = [Turns() for _ in range(count)]
    size, turn, own = np.zeros(count, int), np.zeros(count, int), np.zeros(count)
    while True:
        new = turn >= size
        size[new], turn[new] = chance.integers(1, TURNS + 1, int(new.sum())), 0
        own[new] = chance.beta(rate * spread, (1 - rate) * spread, int(new.sum()))
        turn += 1
        share = np.array([one.share(int(t)) for one, t in zip(turns, turn, strict=True)])
        turns = [one.seen(int(t)) for one, t in zip(turns, turn, strict=True)]
        yield chance.random(count) < own, np.ones(count), share


def _until(stream: Iterable[Step], limit: float, target: float, count: int, longest: int = 20_000) -> np.ndarray:
    """When each path first reaches the limit; those that take longer count as `longest`."""
    paths, found = Paths.mixture(target, count), np.full(count, float(longest))
    for step, (passed, weight, share) in enumerate(stream, 1):
        hit = (paths.add(passed, weight, share) >= limit) & (found == longest)
        found[hit] = step
        if step >= longest or (found < longest).all():
            return found
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
