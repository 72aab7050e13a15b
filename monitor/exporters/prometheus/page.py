"""Families as the text that Prometheus reads, and as `prometheus_client` metrics for whoever else asks the registry.

prometheus_client renders 16 to 19 microseconds a label set and scrape with the interpreter locked. Here the part of a line before its value is
remembered, and so are the lines of a row that stays, so that a scrape costs little more than writing the numbers that changed. Both ways give the same lines; tests compare them.
"""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import Metric
from prometheus_client.samples import Exemplar as ClientExemplar
from prometheus_client.samples import Sample
from prometheus_client.utils import floatToGoString

from monitor.exporters.prometheus.families import Exemplar, Family, Line, Row
from monitor.exporters.prometheus.labels import label_block

ROWS_A_PIECE = 1000
"""Written at once; about a millisecond when all of them have changed."""

_NAME_SUFFIX = {"counter": "_total", "info": "_info"}


class Page:
    """Renders families, remembering the text before each value. Not thread-safe."""

    def __init__(self, limit: int = 100_000) -> None:
        self._prefixes: dict[str, dict[tuple[str, ...], tuple[str, ...]]] = {}
        self._limit = limit

    def text(self, family: Family, openmetrics: bool) -> Iterator[str]:
        """A family with its HELP and TYPE lines, each ended by a line feed, in pieces; exemplars only in OpenMetrics."""
        known = self._prefixes.setdefault(family.name, {})
        if len(known) > max(self._limit, 2 * len(family.rows)):
            known.clear()
        yield _head(family, openmetrics)
        for start in range(0, len(family.rows), ROWS_A_PIECE):
            rows = family.rows[start : start + ROWS_A_PIECE]
            if openmetrics:
                lines = [(row.marked if row.exemplar else row.text) or self._written(family, row, True) for row in rows]
            else:
                lines = [row.text or self._written(family, row, False) for row in rows]
            yield "".join(lines)

    def _written(self, family: Family, row: Row, openmetrics: bool) -> str:
        """The lines of a row, which keeps them."""
        known = self._prefixes[family.name]
        prefixes = known.get(row.key)
        if prefixes is None:
            prefixes = known[row.key] = tuple(_prefix(family, row.key, line) for line in family.lines)
        if row.exemplar is not None and openmetrics:
            row.marked = "".join(_with_exemplar(prefixes, row))
            return row.marked
        row.text = "".join([f"{prefix}{number(value)}\n" for prefix, value in zip(prefixes, row.values, strict=True)])
        return row.text


def number(value: float) -> str:
    """A number as Go writes it, as both formats want it; below a million that is how Python writes it, too."""
    if 0.0 <= value < 1e6:
        return repr(float(value))
    return str(floatToGoString(value))  # type: ignore[no-untyped-call]


def _head(family: Family, openmetrics: bool) -> str:
    kind, name = family.definition.kind, family.full_name
    if not openmetrics:
        name += _NAME_SUFFIX.get(kind, "")
        kind = "gauge" if kind == "info" else kind
    return f"# HELP {name} {family.definition.text}\n# TYPE {name} {kind}\n"


def _prefix(family: Family, key: tuple[str, ...], line: Line) -> str:
    names, values = _labels(family, key, line)
    return f"{family.full_name}{line.suffix}{label_block(names, values)} "


def _labels(family: Family, key: tuple[str, ...], line: Line) -> tuple[tuple[str, ...], tuple[str, ...]]:
    if line.label is None:
        return family.names, key
    return (*family.names, line.label[0]), (*key, line.label[1])


def _with_exemplar(prefixes: tuple[str, ...], row: Row) -> Iterator[str]:
    for place, (prefix, value) in enumerate(zip(prefixes, row.values, strict=True)):
        marked = row.exemplar if place == row.exemplar_line else None
        yield f"{prefix}{number(value)}{_exemplar_text(marked) if marked else ''}\n"


def _exemplar_text(exemplar: Exemplar) -> str:
    return f' # {{trace_id="{exemplar.trace_id}"}} 1.0 {exemplar.time}'


class StoredMetric(Metric):
    """A family as a metric of prometheus_client; its samples are made when somebody asks for them, which our own page never does."""

    def __init__(self, family: Family) -> None:
        self.family = family
        super().__init__(family.full_name, family.definition.text, family.definition.kind)

    @property
    def samples(self) -> list[Sample]:
        """One sample for each line of each label set."""
        return [sample for row in self.family.rows for sample in _samples(self.family, row)]

    @samples.setter
    def samples(self, value: list[Sample]) -> None:
        """Samples come from the family alone; the empty list that a new Metric begins with is let go."""


def _samples(family: Family, row: Row) -> Iterator[Sample]:
    for place, (line, value) in enumerate(zip(family.lines, row.values, strict=True)):
        names, values = _labels(family, row.key, line)
        marked = row.exemplar if place == row.exemplar_line else None
        exemplar = ClientExemplar({"trace_id": marked.trace_id}, 1.0, marked.time) if marked else None
        labels = dict(zip(names, values, strict=True))
        yield Sample(family.full_name + line.suffix, labels, value, exemplar=exemplar)
