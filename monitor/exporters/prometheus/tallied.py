"""The families made of tallies, from one scrape to the next.

What is kept between scrapes is only what had been shown: when a label set moves into `other` (its version is no longer among the newest), what it
had shown alone stays out of `other`, else every new version would look like a burst of old verdicts. The store keeps that too.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate, permutations
from typing import NamedTuple

from monitor.exporters.prometheus.counted import (
    LAYOUTS,
    SUM,
    Ageing,
    LabelReader,
    LabelSet,
    Layout,
    by_metric,
    label_sets,
    shown,
)
from monitor.exporters.prometheus.families import DEFINITIONS, PASS_RATE_METRICS, Family, Line, Row
from monitor.exporters.prometheus.folding import Folding, Key, Places, first_seen, fold, newest_versions
from monitor.exporters.prometheus.labels import clean
from monitor.model.run import Tally
from monitor.model.tallies import TallyName
from monitor.model.verdict import Outcome
from monitor.model.watched import WatchedMonitor
from monitor.settings.tree import Metrics
from monitor.telemetry import PREFIX

LOG = logging.getLogger(__name__)

Sets = dict[Key, LabelSet]
Record = Callable[[str, Mapping[str, str], float], None]
"""Keeps a tally (metric, labels, amount); may raise."""

_PLACES: Mapping[str, Places] = {
    name: places for name, layout in LAYOUTS.items() if (places := Places.of(layout.names)) is not None
}
_LINES = {
    name: tuple(Line("_total", (layout.varying, sibling) if layout.varying else None) for sibling in layout.siblings)
    if not layout.histogram
    else (*(Line("_bucket", ("le", le)) for le in layout.siblings if le != SUM), Line("_count"), Line("_sum"))
    for name, layout in LAYOUTS.items()
}


class Tallied(NamedTuple):
    """What tallies show: families, and where label sets of verdicts stand."""

    families: list[Family]
    verdicts: Folding


class TalliedFamilies:
    """Makes families of tallies. Not thread-safe; `record` keeps what is to outlive this process."""

    def __init__(self, settings: Metrics, record: Record) -> None:
        self._settings = settings
        self._record = record
        self._readers = {name: LabelReader(layout) for name, layout in LAYOUTS.items()}
        self._alone: dict[str, Sets] = {}
        self._rows: dict[str, dict[Key, Row]] = {}
        self._history: dict[tuple[str, Key, str], float] = {}

    def families(self, tallies: Sequence[Tally], watched: Sequence[WatchedMonitor], now: float) -> Tallied:
        """All families of tallies as they stand on the page at `now`."""
        grouped = by_metric(tallies)
        self._read_history(tallies)
        sets = {
            name: _watched_only(layout, label_sets(grouped.get(name, ()), self._readers[name]), watched)
            for name, layout in LAYOUTS.items()
        }
        _expect(sets, watched, now)
        foldings = self._foldings(sets, watched)
        ageing = Ageing(now, self._settings.zero_for, self._settings.expire_after)
        families = [self._family(name, found, foldings.get(name), ageing) for name, found in sets.items()]
        return Tallied([*families, _folded(foldings)], foldings["verdicts"])

    def _foldings(self, sets: Mapping[str, Sets], watched: Sequence[WatchedMonitor]) -> dict[str, Folding]:
        seen = {name: {key: found.seen for key, found in sets[name].items()} for name in _PLACES}
        versions = newest_versions(
            first_seen(((name, key, when) for name, keys in seen.items() for key, when in keys.items()), _PLACES),
            self._settings.agent_versions,
        )
        return {
            name: fold(seen[name], place, versions, self._capacity(name, watched), self._settings.expire_after)
            for name, place in _PLACES.items()
        }

    def _capacity(self, name: str, watched: Sequence[WatchedMonitor]) -> int:
        """How many label sets the page has room for. Pass rates stand where verdicts do, one line for each window."""
        lines = LAYOUTS[name].lines
        if name == "verdicts":
            lines = max([lines, *(len(monitor.windows) for monitor in watched)])
        return self._settings.max_series_per_metric // lines

    def _family(self, name: str, sets: Sets, folding: Folding | None, ageing: Ageing) -> Family:
        layout = LAYOUTS[name]
        if folding is not None:
            self._note_folded(name, sets, folding)
            sets = shown(sets, ageing, folding, lambda key, sibling: self._history.get((name, key, sibling), 0.0))
            self._alone[name] = sets
        before = self._rows.get(name, {})
        rows = self._rows[name] = {row.key: row for row in _rows(layout, sets, before)}
        return Family(name, layout.names, tuple(rows.values()), _LINES[name])

    def _note_folded(self, name: str, sets: Sets, folding: Folding) -> None:
        """What label sets had shown alone that no longer stand alone becomes history."""
        layout = LAYOUTS[name]
        for key, found in self._alone.get(name, {}).items():
            if key not in sets or folding.shown_as[key] == key:
                continue
            for sibling, value in found.values.items():
                if value > 0 and (name, key, sibling) not in self._history:
                    self._history[name, key, sibling] = value
                    labels = dict(zip(layout.names, key, strict=True)) | {"metric": name, "sibling": sibling}
                    self._keep(labels, value)

    def _keep(self, labels: Mapping[str, str], value: float) -> None:
        try:
            self._record(TallyName.FOLDED, labels, value)
        except Exception as error:
            LOG.warning("what a folded label set had shown could not be kept: %s", error)

    def _read_history(self, tallies: Sequence[Tally]) -> None:
        for tally in tallies:
            if tally.metric == TallyName.FOLDED and (name := tally.labels.get("metric", "")) in LAYOUTS:
                _, key, _ = self._readers[name].read(tally.labels)
                self._history[name, key, tally.labels.get("sibling", "")] = tally.value


def _watched_only(layout: Layout, sets: Sets, watched: Sequence[WatchedMonitor]) -> Sets:
    """Label sets of monitors and rubrics that are still configured; those of no monitor all stay."""
    if "monitor" not in layout.names:
        return sets
    if "rubric" not in layout.names:
        monitors = {clean(monitor.name) for monitor in watched}
        return {key: found for key, found in sets.items() if key[0] in monitors}
    pairs = set(_pairs(watched))
    return {key: found for key, found in sets.items() if key[:2] in pairs}


def _pairs(watched: Sequence[WatchedMonitor]) -> Iterator[tuple[str, str]]:
    for monitor in watched:
        yield from ((clean(monitor.name), clean(rubric.rubric)) for rubric in monitor.rubrics)


def _expect(sets: Mapping[str, Sets], watched: Sequence[WatchedMonitor], now: float) -> None:
    """Create at 0 what is known before anything happened, so that the first event is seen as an increase."""
    for monitor in watched:
        for name in ("selected", "not_selected", "runs"):
            sets[name].setdefault((clean(monitor.name),), LabelSet(now, now))
    for pair in _pairs(watched):
        sets["evaluation_errors"].setdefault(pair, LabelSet(now, now))
        for change in permutations(Outcome, 2):
            sets["verdicts_revised"].setdefault((*pair, *change), LabelSet(now, now))


def _rows(layout: Layout, page: Sets, before: Mapping[Key, Row]) -> Iterator[Row]:
    """A row for each label set, the one of `before` where nothing has changed."""
    marked = layout.siblings.index(Outcome.FAIL) if layout.varying == "verdict" else 0
    for key, found in page.items():
        values = tuple([found.values.get(sibling, 0.0) for sibling in layout.siblings])
        if layout.histogram:
            buckets = tuple(accumulate(values[:-1]))
            values = (*buckets, buckets[-1], values[-1])
        exemplar, known = found.exemplar if values[marked] > 0 else None, before.get(key)
        same = known is not None and known.values == values and known.exemplar == exemplar
        yield known if known is not None and same else Row(key, values, exemplar, marked)


def _folded(foldings: Mapping[str, Folding]) -> Family:
    """How many label sets of each metric do not stand alone."""
    counts = {name: folding.folded for name, folding in foldings.items()}
    counts |= dict.fromkeys(PASS_RATE_METRICS, counts["verdicts"])
    suffix = {name: "_total" if DEFINITIONS[name].kind == "counter" else "" for name in counts}
    rows = tuple(Row((f"{PREFIX}_{name}{suffix[name]}",), (float(count),)) for name, count in counts.items())
    return Family("series_folded", ("metric",), rows, (Line("_total"),))
