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

    def point_to(self, exemplar: Exemplar | None) -> None:
        """Take an exemplar if it is the newer one."""
        if exemplar is not None and (self.exemplar is None or exemplar.time > self.exemplar.time):
            self.exemplar = exemplar

    def merged(self, other: LabelSet | None) -> LabelSet:
        """Both label sets as one."""
        if other is None:
            return self
        values = dict(other.values)
        for sibling, value in self.values.items():
            values[sibling] = values.get(sibling, 0.0) + value
        found = LabelSet(min(self.created, other.created), max(self.updated, other.updated), values, other.exemplar)
        found.point_to(self.exemplar)
        return found


class LabelReader:
    """Reads the labels of one metric's tallies as cleaned key and sibling.

    Remembered by the mapping itself: a store hands out the same one for the same labels at every scrape.
    """

    def __init__(self, layout: Layout, limit: int = 100_000) -> None:
        self._layout = layout
        self._limit = limit
        self._known: dict[int, tuple[Mapping[str, str], Key, str]] = {}

    def read(self, labels: Mapping[str, str]) -> tuple[Mapping[str, str], Key, str]:
        """The labels, their key and the sibling that they name."""
        known = self._known.get(id(labels))
        if known is not None and known[0] is labels:
            return known
        if len(self._known) >= self._limit:
            self._known.clear()
        key = tuple(clean(labels.get(name, "")) for name in self._layout.names)
        known = self._known[id(labels)] = (labels, key, self._sibling(labels))
        return known

    def _sibling(self, labels: Mapping[str, str]) -> str:
        layout = self._layout
        if layout.varying is None:
            return ""
        sibling = labels.get(layout.varying, SUM if layout.histogram else "")
        return sibling if sibling in layout.siblings or not layout.histogram else "+Inf"


def label_sets(tallies: Iterable[Tally], reader: LabelReader) -> dict[Key, LabelSet]:
    """Tallies by label set. Values that cleaning made equal are added up, so that no series stands on the page twice."""
    sets: dict[Key, LabelSet] = {}
    for tally in tallies:
        _, key, sibling = reader.read(tally.labels)
        found = sets.get(key)
        if found is None:
            found = sets[key] = LabelSet(tally.created_at, tally.updated_at)
        elif tally.created_at < found.created:
            found.created = tally.created_at
        if tally.updated_at > found.updated:
            found.updated = tally.updated_at
        found.values[sibling] = found.values.get(sibling, 0.0) + tally.value
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


def shown(sets: Mapping[Key, LabelSet], ageing: Ageing, folding: Folding, before: Before) -> dict[Key, LabelSet]:
    """What stands on the page. Members of `other` count in it for good: it never goes back."""
    page: dict[Key, LabelSet] = {}
    folded: list[tuple[Key, LabelSet]] = []
    for key, found in sets.items():
        target = folding.shown_as[key]
        now = found if not ageing.young(found) else LabelSet(found.created, found.updated)
        if target == key:
            page[key] = now
        else:
            values = {sibling: max(0.0, value - before(key, sibling)) for sibling, value in now.values.items()}
            folded.append((target, LabelSet(now.created, now.updated, values, now.exemplar)))
    for target, member in folded:
        page[target] = member.merged(page.get(target))
    return {key: found for key, found in page.items() if not ageing.gone(found)}


def by_metric(tallies: Sequence[Tally]) -> Mapping[str, list[Tally]]:
    """Tallies by the name of the metric that they belong to; names that are no metric are left out."""
    belongs = {str(name): metric for metric, layout in LAYOUTS.items() for name in layout.tallies}
    found: dict[str, list[Tally]] = defaultdict(list)
    for tally in tallies:
        metric = belongs.get(tally.metric)
        if metric is not None:
            found[metric].append(tally)
    return found
