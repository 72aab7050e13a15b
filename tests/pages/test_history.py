"""The pass rate over time, and its geometry."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import pytest

from monitor.estimation.intervals import wilson_interval
from monitor.model.totals import GroupTotals, Totals, WindowFigures
from monitor.model.watched import WatchedMonitor, WatchedRubric
from monitor.server.pages.chart import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, plot
from monitor.server.pages.history import edges, history
from monitor.store.sqlite import SqliteStore
from tests.contracts.store_material import T0
from tests.pages.population import RUBRICS, populate

MONITOR = WatchedMonitor("m", tuple(WatchedRubric(one.rubric, one.version, "weighted") for one in RUBRICS))


@pytest.mark.parametrize(
    ("length", "step", "steps"),
    [(3600, 60, 60), (86_400, 1800, 48), (7 * 86_400, 10_800, 56), (90 * 86_400, 7 * 86_400, 13), (7200, 120, 60)],
)
def test_steps_are_nice(length: float, step: float, steps: int) -> None:
    """Steps lie on multiples of a nice length, cover the window, and end after now."""
    found = edges(length, T0 + 17)
    assert {b - a for a, b in pairwise(found)} == {step}
    assert (found[0] % step, len(found) - 1) == (0, steps)
    assert found[-1] - step <= T0 + 17 < found[-1]


def test_steps_add_up_to_the_window(tmp_path: Path) -> None:
    """Each step is estimated from what ended in it: together they are the judged of the whole window, by rubric and agent."""
    store = SqliteStore(tmp_path)
    populate(store, span_seconds=3600, count=120)
    at = edges(3600 * 2, T0 + 3600)
    lines = history(MONITOR, at, lambda start, end: store.window_figures("m", [start], end))
    whole = store.window_figures("m", [at[0]], at[-1]).totals
    expected: dict[tuple[str, str], int] = {}
    for row in whole:
        key = (row.rubric, row.agent)
        expected[key] = expected.get(key, 0) + row.totals.passed + row.totals.failed
    assert {(line.rubric, line.agent): line.judged for line in lines} == expected
    assert sum(expected.values()) == 240
    assert [line.rubric for line in lines] == ["booking"] * 3 + ["tone"] * 3
    store.close()


def figures(**versions: tuple[int, int]) -> WindowFigures:
    """Passed and failed by agent version, each invocation a conversation of its own."""
    rows = [
        GroupTotals(
            0, "booking", "aaaaaaaaaaaa", "bot", version.replace("_", "."), "",
            Totals(passed, failed, passed_weight=passed, failed_weight=failed, squared_weight=passed + failed, clusters=passed + failed,
                   heaviest=1.0, cluster_squared=passed + failed, cluster_cross=passed, cluster_passed_squared=passed),
        )
        for version, (passed, failed) in versions.items()
    ]  # fmt: skip
    return WindowFigures(tuple(rows), ())


def test_versions_and_gaps() -> None:
    """Versions are added up within a step; a version that comes later is a change, the first is not; a step without verdicts is a gap."""
    steps = [figures(v1_0=(90, 10)), WindowFigures((), ()), figures(v1_0=(40, 0), v1_1=(10, 50))]
    at = [0.0, 60.0, 120.0, 180.0]
    (line,) = history(MONITOR, at, lambda start, end: steps[int(start // 60)])
    first, gap, last = line.steps
    assert (gap.estimate, line.judged) == (None, 200)
    assert first.estimate is not None and last.estimate is not None
    assert (first.estimate.rate, last.estimate.rate) == (0.9, 0.5)
    assert first.estimate.lower == pytest.approx(wilson_interval(0.9, 100)[0], abs=0.01)
    assert [(change.at, change.kind, change.version) for change in line.changes] == [(120.0, "agent", "v1.1")]


def test_the_plot() -> None:
    """Every point, band and line lies within the plot; higher rates lie higher; a gap cuts the line in two."""
    steps = [
        figures(v1=(90, 10)),
        figures(v1=(50, 50)),
        WindowFigures((), ()),
        figures(v2=(30, 0)),
        figures(v2=(30, 1)),
    ]
    at = [float(60 * n) for n in range(6)]
    (line,) = history(MONITOR, at, lambda start, end: steps[int(start // 60)])
    drawn = plot(line, 0.95)
    assert [point.estimate.judged for point in drawn.points] == [100, 100, 30, 31]
    high, low, full, _ = drawn.points
    assert full.y == TOP < high.y < low.y < HEIGHT - BOTTOM
    assert drawn.objective is not None and TOP < drawn.objective < high.y
    assert (len(drawn.lines), len(drawn.bands)) == (2, 2)
    for path in (*drawn.lines, *drawn.bands):
        for x, y in re.findall(r"([\d.]+) ([\d.]+)", path):
            assert LEFT <= float(x) <= WIDTH - RIGHT
            assert TOP <= float(y) <= HEIGHT - BOTTOM
    assert [mark.label for mark in drawn.changes] == ["v2"]
    assert [tick.label for tick in drawn.rows] == ["20 %", "40 %", "60 %", "80 %", "100 %"]
