"""Tallies: counted in the transaction of what they count, never pruned."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass

from monitor.model.run import Tally
from monitor.store.sqlite.values import compact, text

Labels = Mapping[str, str]

_UPSERT = """
    INSERT INTO tallies (metric, labels, value, created_at, updated_at, exemplar_trace, exemplar_at) VALUES (?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (metric, labels) DO UPDATE SET
        value = {value}, updated_at = max(updated_at, excluded.updated_at),
        exemplar_trace = coalesce(excluded.exemplar_trace, exemplar_trace),
        exemplar_at = coalesce(excluded.exemplar_at, exemplar_at)
"""
_ADD = _UPSERT.format(value="value + excluded.value")
_SET = _UPSERT.format(value="excluded.value")
_EXPECT = """
    INSERT INTO tallies (metric, labels, value, created_at, updated_at) VALUES (?, ?, 0, ?, ?)
    ON CONFLICT (metric, labels) DO NOTHING
"""


@dataclass(slots=True)
class _Sum:
    amount: float
    first: float
    last: float
    exemplar: tuple[str, float] | None = None


class Counting:
    """What one transaction counts, summed up before it is written: a run of 10,000 writes a handful of rows."""

    def __init__(self) -> None:
        self._sums: dict[tuple[str, str], _Sum] = {}
        self._expected: dict[tuple[str, str], float] = {}

    def add(
        self, metric: str, labels: Labels, now: float, amount: float = 1.0, exemplar: tuple[str, float] | None = None
    ) -> None:
        """Count. An amount of 0 makes the label set appear, or tells that it is alive."""
        key = (metric, _canonical(labels))
        found = self._sums.get(key)
        if found is None:
            self._sums[key] = _Sum(amount, now, now, exemplar)
            return
        found.amount += amount
        found.last = max(found.last, now)
        found.exemplar = exemplar or found.exemplar

    def expect(self, metric: str, labels: Labels, now: float) -> None:
        """Make a label set appear at 0 where it is not there yet; otherwise leave it alone."""
        self._expected.setdefault((metric, _canonical(labels)), now)

    def write(self, connection: sqlite3.Connection) -> None:
        """Write everything; part of the caller's transaction."""
        connection.executemany(_EXPECT, ((*key, now, now) for key, now in self._expected.items()))
        connection.executemany(
            _ADD,
            ((*key, s.amount, s.first, s.last, *(s.exemplar or (None, None))) for key, s in self._sums.items()),
        )


def set_tally(connection: sqlite3.Connection, metric: str, labels: Labels, value: float, now: float) -> None:
    """Set a tally to a value that only grows: a time."""
    connection.execute(_SET, (metric, _canonical(labels), value, now, now, None, None))


def read_tallies(connection: sqlite3.Connection, known: dict[tuple[str, str], Tally]) -> list[Tally]:
    """All tallies. `known` keeps them between calls, so that only those that changed are made anew: reading is what a scrape does."""
    rows = connection.execute(
        "SELECT metric, labels, value, updated_at, created_at, exemplar_trace, exemplar_at FROM tallies"
    )
    tallies = []
    for metric, labels, value, updated, created, trace, at in rows:
        tally = known.get((metric, labels))
        if tally is None or tally.value != value or tally.updated_at != updated:
            parsed = json.loads(labels) if tally is None else tally.labels
            exemplar = None if trace is None else (trace, at)
            tally = known[metric, labels] = Tally(metric, parsed, value, created, updated, exemplar)
        tallies.append(tally)
    return tallies


def _canonical(labels: Labels) -> str:
    return compact({name: text(value) for name, value in labels.items()})
