"""The geometry of the plots: numbers in, coordinates out. The templates write the SVG. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from monitor.estimation.passrate import Estimate
from monitor.server.pages.history import Change, Line, Step

WIDTH, HEIGHT = 600, 196
LEFT, RIGHT, TOP, BOTTOM = 46, 8, 26, 24
_LABEL_WIDTH = 74

Scale = Callable[[float], float]
"""A time or a share to a coordinate."""


@dataclass(frozen=True, slots=True)
class Point:
    """A step with something judged: its middle, its rate, and the slot that a pointer may hit."""

    x: float
    y: float
    slot_x: float
    slot_width: float
    step: Step
    estimate: Estimate
    radius: float


@dataclass(frozen=True, slots=True)
class Tick:
    """A place on an axis, with its label."""

    at: float
    label: str


@dataclass(frozen=True, slots=True)
class Marked:
    """A change of version as a vertical line; `row` keeps labels from covering each other."""

    x: float
    change: Change
    label: str
    row: int


@dataclass(frozen=True, slots=True)
class Plot:
    """Everything an SVG of a pass rate needs. `bands` and `lines` are paths, one for each stretch without a gap."""

    line: Line
    points: tuple[Point, ...]
    bands: tuple[str, ...]
    lines: tuple[str, ...]
    rows: tuple[Tick, ...]
    columns: tuple[Tick, ...]
    changes: tuple[Marked, ...]
    objective: float | None
    width: int = WIDTH
    height: int = HEIGHT
    left: int = LEFT
    right: int = WIDTH - RIGHT
    top: int = TOP
    bottom: int = HEIGHT - BOTTOM


def plot(line: Line, objective: float | None) -> Plot:
    """The plot of one line. Rates are never cut off; bands may be."""
    floor, step = _scale(line, objective)
    start, end = line.steps[0].start, line.steps[-1].end

    def x(at: float) -> float:
        return round(LEFT + (at - start) / (end - start) * (WIDTH - LEFT - RIGHT), 1)

    def y(share: float) -> float:
        return round(HEIGHT - BOTTOM - (max(floor, share) - floor) / (1 - floor) * (HEIGHT - TOP - BOTTOM), 1)

    points = tuple(_points(line, x, y))
    stretches = _stretches(line, points)
    return Plot(
        line,
        points,
        bands=tuple(_band(stretch, y) for stretch in stretches),
        lines=tuple(_path([(point.x, point.y) for point in stretch]) for stretch in stretches if len(stretch) > 1),
        rows=tuple(Tick(y(share), f"{share * 100:.0f} %") for share in _shares(floor, step)),
        columns=tuple(_columns(start, end, x)),
        changes=tuple(_marked(line.changes, x)),
        objective=None if objective is None else y(objective),
    )


_SCALES = ((0.9, 0.02), (0.8, 0.05), (0.6, 0.1), (0.5, 0.1), (0.2, 0.2), (0.0, 0.2))
"""Where a scale may begin, and the distance of its lines."""


def _scale(line: Line, objective: float | None) -> tuple[float, float]:
    """The scale that begins highest and still shows every rate and the objective, with some air below."""
    rates = [step.estimate.rate for step in line.steps if step.estimate and step.estimate.rate is not None]
    lowest = min([*rates, objective if objective is not None else 1.0])
    return next((scale for scale in _SCALES if scale[0] <= lowest - 0.02), _SCALES[-1])


def _shares(floor: float, step: float) -> Sequence[float]:
    return [floor + step * number for number in range(round((1 - floor) / step) + 1)]


def _points(line: Line, x: Scale, y: Scale) -> list[Point]:
    found = []
    for step in line.steps:
        if step.estimate is None or step.estimate.rate is None:
            continue
        left, right = x(step.start), x(step.end)
        middle = round((left + right) / 2, 1)
        radius = 2.5 if step.estimate.judged < 30 else 3.5
        found.append(Point(middle, y(step.estimate.rate), left, round(right - left, 1), step, step.estimate, radius))
    return found


def _stretches(line: Line, points: Sequence[Point]) -> list[list[Point]]:
    """Neighbouring points; a step without a rate is a gap."""
    by_start = {point.step.start: point for point in points}
    found: list[list[Point]] = [[]]
    for step in line.steps:
        point = by_start.get(step.start)
        if point is not None:
            found[-1].append(point)
        elif found[-1]:
            found.append([])
    return [stretch for stretch in found if stretch]


def _band(stretch: Sequence[Point], y: Scale) -> str:
    upper, lower = [], []
    for point in stretch:
        low, high = y(point.estimate.lower or 0.0), y(point.estimate.upper if point.estimate.upper is not None else 1.0)
        sides = (point.x,) if len(stretch) > 1 else (point.x - 3, point.x + 3)
        upper += [(side, high) for side in sides]
        lower += [(side, low) for side in sides]
    return _path([*upper, *reversed(lower)]) + "Z"


def _path(points: Sequence[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{x:g} {y:g}" for x, y in points)


def _columns(start: float, end: float, x: Scale) -> list[Tick]:
    """About six times, on whole units."""
    length = end - start
    sizes = (60, 300, 600, 1800, 3600, 10800, 21600, 43200, 86400, 2 * 86400, 7 * 86400, 30 * 86400)
    size = next((one for one in sizes if length / one <= 6), 90 * 86400)
    layout = "%H:%M" if size < 86400 else "%d %b"
    first = -(-start // size) * size
    ticks = []
    at = first
    while at <= end:
        moment = datetime.fromtimestamp(at, UTC)
        label = moment.strftime("%d %b" if layout == "%H:%M" and at % 86400 == 0 else layout)
        place = x(at)
        if LEFT + 12 <= place <= WIDTH - RIGHT - 14:
            ticks.append(Tick(place, label))
        at += size
    return ticks


def _marked(changes: Sequence[Change], x: Scale) -> list[Marked]:
    found: list[Marked] = []
    for change in sorted(changes, key=lambda one: one.at):
        place = x(change.at)
        label = change.version if change.kind == "agent" else f"rubric {change.version[:7]}"
        row = 1 if found and found[-1].row == 0 and place - found[-1].x < _LABEL_WIDTH else 0
        found.append(Marked(place, change, label[:16], row))
    return found


@dataclass(frozen=True, slots=True)
class Interval:
    """A pass rate as a bar of a table, in per cent of the bar's width."""

    low: float
    width: float
    rate: float
    objective: float | None


def interval(estimate: Estimate, objective: float | None, floor: float) -> Interval | None:
    """The bar of an estimate on a scale from `floor` to 1; None where nothing passed or failed."""
    if estimate.rate is None or estimate.lower is None or estimate.upper is None:
        return None

    def place(share: float) -> float:
        return round(max(0.0, (share - floor) / (1 - floor)) * 100, 2)

    low, high = place(estimate.lower), place(estimate.upper)
    return Interval(
        low, round(max(high - low, 0.6), 2), place(estimate.rate), None if objective is None else place(objective)
    )


def common_floor(estimates: Sequence[Estimate]) -> float:
    """The start of a scale that all bars of a table share: a multiple of 10 % below the lowest bound."""
    lowest = min([one.lower for one in estimates if one.lower is not None] or [0.0])
    return max(0.0, min(0.9, int(lowest * 10) / 10))
