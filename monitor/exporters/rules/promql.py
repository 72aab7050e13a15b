"""Pieces of PromQL, within what Prometheus 2.42 understands."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from monitor.exporters.prometheus.labels import escaped
from monitor.settings.units import duration_text


def seconds(length: float) -> str:
    """A length of time as Prometheus writes it, in whole seconds and at least one: `5m`, `1h30m`."""
    return duration_text(max(1.0, float(round(length))))


def number(value: float) -> str:
    """A number with four significant digits: thresholds are for people to read."""
    return f"{value:.4g}"


@dataclass(frozen=True, slots=True)
class Selectors:
    """Writes selectors and groupings that stay within one rubricd; `match` tells it from others and is empty where there is only one."""

    match: Mapping[str, str] = field(default_factory=dict)

    def of(self, metric: str, among: str | None = None, **labels: str) -> str:
        """`metric{…}` with every given label equal; `among` is one more matcher, written out."""
        parts = [f'{name}="{escaped(value)}"' for name, value in {**self.match, **labels}.items()]
        parts += [among] if among else []
        return f"{metric}{{{','.join(parts)}}}" if parts else metric

    def by(self, *labels: str) -> str:
        """`by (…)` with the labels that tell rubricds apart in front."""
        return f"by ({', '.join((*self.match, *labels))})"

    def on(self, *labels: str) -> str:
        """`on (…)`, likewise."""
        return f"on ({', '.join((*self.match, *labels))})"


def one_of(label: str, values: Iterable[str]) -> str:
    """A matcher for plain words: `reason=~"a|b"`."""
    return f'{label}=~"{"|".join(values)}"'


def all_of(*conditions: str) -> str:
    """Conditions joined by `and`, one a line."""
    return "\nand ".join(conditions)


def any_of(*conditions: str) -> str:
    """Conditions joined by `or`, each in parentheses."""
    return conditions[0] if len(conditions) == 1 else "\nor\n".join(f"(\n{condition}\n)" for condition in conditions)
