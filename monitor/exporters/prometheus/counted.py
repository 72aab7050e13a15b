"""Counters and histograms out of the store's tallies: label sets with their siblings, held at 0 while young, gone when long silent, folded past the limits."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from monitor.exporters.prometheus.families import Exemplar
from monitor.exporters.prometheus.folding import Folding, Key, Seen
from monitor.exporters.prometheus.labels import clean, is_trace_id
from monitor.model.run import Tally
from monitor.model.tallies import DIMENSION_BOUNDS, LABELS, SCORE_BOUNDS, TallyName
from monitor.model.verdict import ErrorType, NotSelected, Outcome

SUM = "sum"
"""Under which name a histogram's sum stands beside its buckets."""

RUN_OUTCOMES = ("done", "failed", "missed")


@dataclass(frozen=True, slots=True)
class Layout:
    """How a metric's tallies become label sets: siblings differ only in the label `varying`, and are always shown all together.

    `siblings` are the values of that label, in the order of the page.
    """

    tallies: tuple[TallyName, ...]
    names: tuple[str, ...]
    varying: str | None = None
    siblings: tuple[str, ...] = ("",)

    @property
    def histogram(self) -> bool:
        """Whether siblings are buckets and a sum."""
        return self.varying == "le"

    @property
    def lines(self) -> int:
        """How many lines of the page a label set takes; a histogram's has its sum among the siblings, and a count."""
        return len(self.siblings) + self.histogram


def _layout(*tallies: TallyName, varying: str | None = None, siblings: Iterable[str] = ("",)) -> Layout:
    names = tuple(name for name in LABELS[tallies[0]] if name != varying)
    return Layout(tallies, names, varying, tuple(siblings))


LAYOUTS: Mapping[str, Layout] = MappingProxyType(
    {
        "invocations": _layout(TallyName.INVOCATIONS),
        "selected": _layout(TallyName.SELECTED),
        "not_selected": _layout(TallyName.NOT_SELECTED, varying="reason", siblings=NotSelected),
        "verdicts": _layout(TallyName.VERDICTS, varying="verdict", siblings=Outcome),
        "verdicts_revised": _layout(TallyName.VERDICTS_REVISED),
        "unjudgeable": _layout(TallyName.UNJUDGEABLE),
        "evaluation_errors": _layout(TallyName.EVALUATION_ERRORS, varying="reason", siblings=ErrorType),
        "runs": _layout(TallyName.RUNS, varying="outcome", siblings=RUN_OUTCOMES),
        "score": _layout(
            TallyName.SCORE_BUCKET, TallyName.SCORE_SUM, varying="le", siblings=(*SCORE_BOUNDS, "+Inf", SUM)
        ),
        "dimension_score": _layout(
            TallyName.DIMENSION_SCORE_BUCKET,
            TallyName.DIMENSION_SCORE_SUM,
            varying="le",
            siblings=(*DIMENSION_BOUNDS, "+Inf", SUM),
        ),
    }
)
"""Every metric that is made of tallies, by its name without prefix and `_total`."""


@dataclass(slots=True)
class LabelSet:
    """One label set: when it appeared and last counted, its values by sibling, and the newest failing trace."""

    created: float
    updated: float
    values: dict[str, float] = field(default_factory=dict)
    exemplar: Exemplar | None = None

    @property
    def seen(self) -> Seen:
        """Its times, as folding wants them."""
        return Seen(self.created, self.updated)

    def add(self, sibling: str, value: float) -> None:
        """Add to a sibling's value."""
        self.values[sibling] = self.values.get(sibling, 0.0) + value

    def point_to(self, exemplar: Exemplar | None) -> None:
        """Take an exemplar if it is the newer one."""
        if exemplar is not None and (self.exemplar is None or exemplar.time > self.exemplar.time):
            self.exemplar = exemplar


class KeyReader:
    """Label values of tallies as cleaned keys, remembered by the values as stored."""

    def __init__(self, limit: int = 200_000) -> None:
        self._known: dict[Key, Key] = {}
        self._limit = limit

    def key(self, labels: Mapping[str, str], names: tuple[str, ...]) -> Key:
        """The cleaned values of those labels; one that is not there is the empty text."""
        try:
            raw = tuple([labels[name] for name in names])
        except KeyError:
            raw = tuple([labels.get(name, "") for name in names])
        key = self._known.get(raw)
        if key is None:
            if len(self._known) >= self._limit:
                self._known.clear()
            key = self._known[raw] = tuple(clean(value) for value in raw)
        return key


def label_sets(layout: Layout, tallies: Iterable[Tally], keys: KeyReader) -> dict[Key, LabelSet]:
    """Tallies by label set. Values that cleaning made equal are added up, so that no series stands on the page twice."""
    sets: dict[Key, LabelSet] = {}
    total = layout.tallies[1] if layout.histogram else None
    for tally in tallies:
        key = keys.key(tally.labels, layout.names)
        found = sets.get(key)
        if found is None:
            found = sets[key] = LabelSet(tally.created_at, tally.updated_at)
        found.created = min(found.created, tally.created_at)
        found.updated = max(found.updated, tally.updated_at)
        sibling = SUM if tally.metric == total else tally.labels.get(layout.varying, "") if layout.varying else ""
        found.add(sibling if sibling in layout.siblings or not layout.histogram else "+Inf", tally.value)
        if tally.exemplar is not None and is_trace_id(tally.exemplar[0]):
            found.point_to(Exemplar(*tally.exemplar))
    return sets


@dataclass(frozen=True, slots=True)
class Ageing:
    """The moment of the page, and the times that a label set is held at 0 and kept after it last counted (seconds)."""

    now: float
    zero_for: float
    expire_after: float

    def young(self, found: LabelSet) -> bool:
        """Whether it is still shown at 0, so that its first count is seen as an increase."""
        return self.now < found.created + self.zero_for

    def gone(self, found: LabelSet) -> bool:
        """Whether it has left the page."""
        return self.now > max(found.created, found.updated) + self.expire_after


Before = Callable[[Key, str], float]
"""What a label set's sibling had shown before it was folded: that part is history and no part of `other`."""


def shown(sets: Mapping[Key, LabelSet], ageing: Ageing, folding: Folding | None, before: Before) -> dict[Key, LabelSet]:
    """What stands on the page. Members of `other` count in it for good: it never goes back."""
    page: dict[Key, LabelSet] = {}
    for key, found in sets.items():
        target = folding.shown_as[key] if folding else key
        on_page = page.get(target)
        if on_page is None:
            on_page = page[target] = LabelSet(found.created, found.updated)
        on_page.created = min(on_page.created, found.created)
        on_page.updated = max(on_page.updated, found.updated)
        young, folded = folding is not None and ageing.young(found), target != key
        for sibling, value in found.values.items():
            counted = value - before(key, sibling) if folded else value
            on_page.add(sibling, 0.0 if young else max(0.0, counted))
        if not young:
            on_page.point_to(found.exemplar)
    return page if folding is None else {key: found for key, found in page.items() if not ageing.gone(found)}


def by_metric(tallies: Sequence[Tally]) -> Mapping[str, list[Tally]]:
    """Tallies by the name of the metric that they belong to; names that are no metric are left out."""
    belongs = {str(name): metric for metric, layout in LAYOUTS.items() for name in layout.tallies}
    found: dict[str, list[Tally]] = defaultdict(list)
    for tally in tallies:
        metric = belongs.get(tally.metric)
        if metric is not None:
            found[metric].append(tally)
    return found
