"""Where pass rates stand: estimates beside objectives and alarms, as rows of tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from monitor.model.watched import WatchedMonitor, WatchedRubric
from monitor.passrates import PassRate
from monitor.server.context import Status
from monitor.server.pages.asked import Desk
from monitor.server.pages.chart import Interval, common_floor, interval
from monitor.server.pages.kept import Known
from monitor.server.problems import BadParameter
from monitor.settings.units import duration_text


@dataclass(frozen=True, slots=True)
class Row:
    """One pass rate with how it stands to its objective. `state` is a key of the words in the templates."""

    rate: PassRate
    rubric: WatchedRubric | None
    bar: Interval | None
    state: str
    alarm: Status | None


def rates_of(desk: Desk) -> Known[Sequence[PassRate]] | None:
    """All pass rates, or None while they are added up for the first time."""
    return desk.kept.get("rates", desk.context.passrates.rates)


def open_alarms(desk: Desk) -> Sequence[Status]:
    """Regressions that stand."""
    return [alarm for alarm in desk.context.regressions() if alarm["state"] == "open"]


def windows_of(monitor: WatchedMonitor) -> list[str]:
    """The monitor's windows, shortest first."""
    return [duration_text(window) for window in sorted(monitor.windows)]


def chosen_window(monitor: WatchedMonitor, rates: Sequence[PassRate], asked: str | None) -> str:
    """The window that was asked for, else the shortest in which something was judged. Raises BadParameter for one that the monitor has not."""
    names = windows_of(monitor)
    if asked in names:
        return str(asked)
    if asked:
        raise BadParameter("window", f"should be one of {', '.join(names)}")
    judged = {rate.window for rate in rates if rate.group.monitor == monitor.name and rate.estimate.judged}
    return next((name for name in names if name in judged), names[0])


def rows_of(
    monitor: WatchedMonitor, rates: Sequence[PassRate], window: str, alarms: Sequence[Status]
) -> tuple[list[Row], float]:
    """The rows of a monitor in a window, and the start of the scale that their bars share. Rubrics come in the monitor's order, versions in
    force first.
    """
    order = {rubric.rubric: place for place, rubric in enumerate(monitor.rubrics)}
    known = {(rubric.rubric, rubric.version): rubric for rubric in monitor.rubrics}
    found = [rate for rate in rates if rate.group.monitor == monitor.name and rate.window == window]
    floor = common_floor([rate.estimate for rate in found])
    rows = [_row(rate, known.get((rate.group.rubric, rate.group.rubric_version)), alarms, floor) for rate in found]
    rows.sort(key=lambda row: (order[row.rate.group.rubric], row.rubric is None, row.rate.group))
    return rows, floor


def _row(rate: PassRate, rubric: WatchedRubric | None, alarms: Sequence[Status], floor: float) -> Row:
    group, objective = rate.group, rubric.objective if rubric is not None else None
    alarm = next((one for one in alarms if rubric is not None and _is_about(one, group._asdict())), None)
    return Row(rate, rubric, interval(rate.estimate, objective, floor), _state(rate, rubric, alarm), alarm)


def _is_about(alarm: Status, group: Mapping[str, Any]) -> bool:
    """Alarms are of an agent in an environment; the row of the version that they name shows them."""
    same = all(alarm[name] == group[name] for name in ("monitor", "rubric", "agent"))
    version = alarm.get("agent_version") or group["agent_version"]
    return same and (alarm.get("environment") or "") == group["environment"] and version == group["agent_version"]


def _state(rate: PassRate, rubric: WatchedRubric | None, alarm: Status | None) -> str:
    found = rate.estimate
    if rubric is None:
        return "old_version"
    if alarm is not None:
        return "regression"
    if not found.reliable:
        return "unreliable"
    if rubric.objective is None or found.rate is None or found.upper is None:
        return "shadow" if rubric.shadow else "no_objective"
    if found.upper < rubric.objective:
        return "below"
    return "at_risk" if found.rate < rubric.objective else "on_target"
