"""Gauges of regression detection."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from monitor.exporters.prometheus.families import Family, Row
from monitor.exporters.prometheus.labels import OTHER, clean
from monitor.regression.detection import Watching

REGRESSION_LABELS = ("monitor", "rubric", "agent", "environment")
REGRESSION_METRICS = (
    "regression",
    "regression_log_evidence",
    "regression_log_threshold",
    "regression_started_timestamp_seconds",
)
_Key = tuple[str, ...]


def regression_families(watching: Iterable[Watching], now: float, expire_after: float, most: int) -> list[Family]:
    """Whether an alarm stands, its evidence, and since when. A series leaves the page `expire_after` seconds after its last verdict, unless its alarm
    still stands; past `most` the later ones are shown as one agent `other`.
    """
    alive = [one for one in watching if one.open is not None or now <= one.last_at + expire_after]
    rows: dict[str, dict[_Key, float]] = {name: {} for name in REGRESSION_METRICS}
    for key, shown in _grouped(alive, most).items():
        leading = max(shown, key=_margin)
        started = [float(one.open["since"]) for one in shown if one.open is not None]
        rows["regression"][key] = float(bool(started))
        if leading.log_evidence is not None and leading.log_threshold is not None:
            rows["regression_log_evidence"][key] = leading.log_evidence
            rows["regression_log_threshold"][key] = leading.log_threshold
        if started:
            rows["regression_started_timestamp_seconds"][key] = min(started)
    return [_family(name, found) for name, found in rows.items()]


def _grouped(alive: Sequence[Watching], most: int) -> Mapping[_Key, list[Watching]]:
    """By shown label set; alarms that stand keep their place first."""
    found: dict[_Key, list[Watching]] = {}
    for one in sorted(alive, key=lambda one: (one.open is None, one.key)):
        key = tuple(clean(value) for value in one.key)
        if key not in found and len(found) >= most - 1:
            key = (*key[:2], OTHER, OTHER)
        found.setdefault(key, []).append(one)
    return found


def _margin(one: Watching) -> float:
    if one.log_evidence is None or one.log_threshold is None:
        return float("-inf")
    return one.log_evidence - one.log_threshold


def _family(name: str, rows: Mapping[_Key, float]) -> Family:
    return Family(name, REGRESSION_LABELS, tuple(Row(key, (value,)) for key, value in rows.items()))
