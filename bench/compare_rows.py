"""The rows of `bench compare`: which measured figures each is made of, and its bars."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Measured = Mapping[str, Sequence[float]]
"""Figures by name, one for each round."""


@dataclass(frozen=True)
class Row:
    """A figure and its bars. `over` and `under` name measured figures; without `under` the first is the value. `most`: it should stay below the bars."""

    number: str
    what: str
    over: str
    under: str | None
    must: float
    aim: float
    most: bool = False

    def values(self, measured: Measured) -> list[float]:
        """The value of each round that has both figures; paired, because neighbours disturb both alike."""
        over = measured.get(self.over, ())
        if self.under is None:
            return list(over)
        return [one / other for one, other in zip(over, measured.get(self.under, ()), strict=False) if other]


ROWS = (
    Row("1", "stored spans/s against Phoenix, HTTP", "target-http stored/s", "phoenix-http stored/s", 150, 300),
    Row("1", "stored spans/s against Phoenix, gRPC", "target-grpc stored/s", "phoenix-grpc stored/s", 120, 250),
    Row("2", "stored spans/s against MLflow, HTTP", "target-http stored/s", "mlflow-http stored/s", 25, 50),
    Row("2", "stored spans/s against MLflow, gRPC", "target-grpc stored/s", "mlflow-http stored/s", 20, 45),
    Row("3", "spans/CPU-s against Phoenix, HTTP", "target-http spans/CPU-s", "phoenix-http spans/CPU-s", 150, 300),
    Row("3", "spans/CPU-s against MLflow, HTTP", "target-http spans/CPU-s", "mlflow-http spans/CPU-s", 30, 60),
    Row("4", "whole path against the upb parse, HTTP", "target-http spans/CPU-s", "upb spans/CPU-s", 0.018, 0.035),
    Row("4", "whole path against the upb parse, gRPC", "target-grpc spans/CPU-s", "upb spans/CPU-s", 0.013, 0.025),
    Row("5", "10 % kept against all kept, HTTP", "kept-http 0.1 accepted/CPU-s", "kept-http 1 accepted/CPU-s", 2.5, 4),
    Row("5", "10 % kept against all kept, gRPC", "kept-grpc 0.1 accepted/CPU-s", "kept-grpc 1 accepted/CPU-s", 1.5, 2),
    Row("6", "peak memory against Phoenix", "target-http peak MB", "phoenix-http peak MB", 0.35, 0.25, most=True),
    Row("6", "peak memory against MLflow", "target-http peak MB", "mlflow-http peak MB", 0.07, 0.04, most=True),
    Row("6", "idle memory, MB", "target-http idle MB", None, 150, 90, most=True),
    Row("7", "acknowledgement p99 against Phoenix, HTTP", "target-http p99 ms", "phoenix-http p99 ms", 0.3, 0.1, most=True),
    Row("8", "disk per stored span against Phoenix, journal cut", "disk bytes/span", "phoenix-http disk bytes/span", 0.3, 0.16, most=True),
    Row("9", "scrape CPU at 10,000 series against prometheus_client, text", "scrape text ratio", None, 0.3, 0.1, most=True),
    Row("9", "the same, OpenMetrics with exemplars", "scrape openmetrics ratio", None, 0.3, 0.1, most=True),
    Row("9", "longest acknowledgement while a page is made, ms over the usual", "scrape stall ms", None, 50, 20, most=True),
    Row("10", "judge job: wall against ideal", "judge wall s", "judge ideal s", 1.15, 1.05, most=True),
    Row("10", "judge job: CPU against the bare call, aiohttp transport", "judge CPU ms", "bare CPU ms", 1.5, 1.1, most=True),
)  # fmt: skip


def evaluated(measured: Measured) -> Iterator[dict[str, Any]]:
    """Each row that was measured, with its median, range, bars and which of them it reached."""
    for row in ROWS:
        values = row.values(measured)
        if values:
            median = statistics.median(values)
            yield {
                "row": row.number,
                "figure": row.what,
                "median": f"{_short(median)} ({_short(min(values))} to {_short(max(values))})",
                "must": f"{'<=' if row.most else '>='} {row.must:g}",
                "aim": f"{row.aim:g}",
                "reached": _reached(row, median),
                "rounds": len(values),
            }


def _reached(row: Row, value: float) -> str:
    good: Callable[[float], bool] = (lambda bar: value <= bar) if row.most else (lambda bar: value >= bar)
    return "aim" if good(row.aim) else "must" if good(row.must) else "MISSED"


def _short(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"
