"""Families of what the store and the configuration tell at this moment: pass rates, queues, runs, and what is in force."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from monitor.exporters.prometheus.families import PASS_RATE_LABELS, PASS_RATE_METRICS, Family, Line, Row
from monitor.exporters.prometheus.folding import Folding, Key
from monitor.exporters.prometheus.labels import clean, usable_name
from monitor.labels.instrument import AgreementKey
from monitor.model.run import PendingCount, Tally
from monitor.model.tallies import TallyName
from monitor.model.watched import WatchedMonitor
from monitor.passrates import Fold, Group, Memory, MonitorFigures, PassRate, pass_rates

_MOST_KNOWN = 100_000


class PassRateFamilies:
    """The gauges of pass rates; a figure that is not known has no series, never 0. Not thread-safe; what has not changed is made once."""

    def __init__(self) -> None:
        self._memory: Memory = {}
        self._rows: dict[Key, tuple[PassRate, tuple[Row | None, ...]]] = {}
        self._cleaned: dict[Group, Key] = {}

    def families(self, figures: Iterable[MonitorFigures], folding: Folding) -> list[Family]:
        """One family for each of PASS_RATE_METRICS, folded as verdicts are."""
        shown = self._folded(folding)
        found = [rate for one in figures for rate in pass_rates(one, shown, self._memory)]
        before, self._rows = self._rows, {}
        for rate in found:
            key = (*rate.group, rate.window)
            known = before.get(key)
            self._rows[key] = known if known is not None and known[0] is rate else (rate, _made(key, rate))
        if len(self._memory) > 2 * len(found) + _MOST_KNOWN:
            self._memory.clear()
        columns = (
            zip(*[rows for _, rows in self._rows.values()], strict=True)
            if self._rows
            else [()] * len(PASS_RATE_METRICS)
        )
        return [
            Family(name, PASS_RATE_LABELS, [row for row in column if row is not None])
            for name, column in zip(PASS_RATE_METRICS, columns, strict=True)
        ]

    def _folded(self, folding: Folding) -> Fold:
        """Where a group is shown."""
        cleaned, known = self._cleaned, dict[Group, Group]()
        if len(cleaned) > _MOST_KNOWN:
            cleaned.clear()

        def shown(group: Group) -> Group:
            place = known.get(group)
            if place is None:
                key = cleaned.get(group)
                if key is None:
                    key = cleaned[group] = tuple([clean(value) for value in group])
                place = known[group] = Group(*folding.of(key))
            return place

        return shown


def _made(key: Key, rate: PassRate) -> tuple[Row | None, ...]:
    return tuple([None if value is None else Row(key, (float(value),)) for value in _values(rate)])


def _values(rate: PassRate) -> tuple[float | None, ...]:
    """In the order of PASS_RATE_METRICS."""
    found = rate.estimate
    return (
        found.rate,
        found.lower,
        found.upper,
        rate.corrected.rate if rate.corrected else None,
        found.worst,
        found.best,
        rate.coverage,
        found.effective_samples,
        found.reliable,
    )


def queue_families(watched: Sequence[WatchedMonitor], pending: Iterable[PendingCount], now: float) -> list[Family]:
    """How many evaluations of each monitor wait, and for how long; 0 where none does."""
    waiting = {count.monitor: count for count in pending}
    counts: dict[tuple[str, ...], float] = {}
    ages: dict[tuple[str, ...], float] = {}
    for monitor in watched:
        key, found = (clean(monitor.name),), waiting.get(monitor.name)
        counts[key] = float(found.count) if found else 0.0
        ages[key] = max(0.0, now - found.oldest) if found and found.oldest is not None else 0.0
    return [
        _gauges("evaluations_pending", ("monitor",), counts),
        _gauges("oldest_pending_seconds", ("monitor",), ages),
    ]


def last_success_family(watched: Sequence[WatchedMonitor], tallies: Iterable[Tally]) -> Family:
    """When each monitor's last run was done; no series before the first."""
    names = {monitor.name for monitor in watched}
    times: dict[tuple[str, ...], float] = {}
    for tally in tallies:
        if tally.metric == TallyName.RUN_LAST_SUCCESS and (name := tally.labels.get("monitor", "")) in names:
            times[(clean(name),)] = tally.value
    return _gauges("run_last_success_timestamp_seconds", ("monitor",), times)


def configured_families(watched: Sequence[WatchedMonitor]) -> list[Family]:
    """Objectives, schedules, rubrics and monitors in force. A shadow rubric has no objective to miss."""
    objectives: dict[tuple[str, ...], float] = {
        (clean(monitor.name), clean(rubric.rubric)): rubric.objective
        for monitor in watched
        for rubric in monitor.rubrics
        if rubric.objective is not None and not rubric.shadow
    }
    rubrics = {
        (clean(rubric.rubric), rubric.version, rubric.kind, clean(rubric.judge or ""), clean(rubric.judge_model or ""))
        for monitor in watched
        for rubric in monitor.rubrics
    }
    return [
        _gauges("objective_ratio", ("monitor", "rubric"), objectives),
        _gauges("run_interval_seconds", ("monitor",), {(clean(one.name),): one.longest_gap for one in watched}),
        info("rubric", ("rubric", "rubric_version", "kind", "judge", "judge_model"), sorted(rubrics)),
        _monitor_info(watched),
    ]


def _monitor_info(watched: Sequence[WatchedMonitor]) -> Family:
    """A monitor's labels as far as their names can be label names; one that a monitor does not have is empty there."""
    names = sorted({name for monitor in watched for name in monitor.labels if usable_name(name)} - {"monitor"})
    keys = {
        clean(monitor.name): (clean(monitor.name), *(clean(monitor.labels.get(name, "")) for name in names))
        for monitor in watched
    }
    return info("monitor", ("monitor", *names), list(keys.values()))


def info(name: str, names: tuple[str, ...], keys: Iterable[tuple[str, ...]]) -> Family:
    """An info metric: the value is 1, the labels are what it says."""
    return Family(name, names, tuple(Row(key, (1.0,)) for key in keys), (Line("_info"),))


def _gauges(name: str, names: tuple[str, ...], values: Mapping[tuple[str, ...], float]) -> Family:
    return Family(name, names, tuple(Row(key, (value,)) for key, value in values.items()))


def agreement_family(ratios: Mapping[AgreementKey, float]) -> Family:
    """How judges agree, against golden cases, themselves, and people."""
    values: dict[tuple[str, ...], float] = {}
    for key, ratio in ratios.items():
        values[clean(key.rubric), clean(key.judge), key.against.value] = ratio
    return _gauges("judge_agreement_ratio", ("rubric", "judge", "against"), values)


def single(name: str, value: float) -> Family:
    """A gauge without labels."""
    return Family(name, (), (Row((), (value,)),))
