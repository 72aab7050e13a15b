"""Where spans came from: a collector as it delivers, or a collector that was read again for a backfill.

What a backfill fetched must not wait for the runs of schedules, so it is told apart from the journal on: by a mark in the name that it was
delivered under.
"""

from __future__ import annotations

_MARK = "\x1f"
"""Between a collector's name and a backfill's; no name in a configuration holds a control character."""


def of_backfill(collector: str, backfill: str) -> str:
    """The name under which a collector delivers what it reads for a backfill."""
    return f"{collector}{_MARK}{backfill}"


def collector_of(origin: str) -> str:
    """The collector, however it was read: the `collector` label."""
    return origin.partition(_MARK)[0]


def waiting_for(origin: str) -> str | None:
    """As whom invocations of that origin wait to be considered: the backfill that fetched them, None for the monitors of the configuration."""
    _, mark, backfill = origin.partition(_MARK)
    return mark + backfill if mark else None


def is_backfill(monitor: str) -> bool:
    """Whether it is no monitor but a backfill that invocations wait for."""
    return monitor.startswith(_MARK)


def waits_as(backfill: str) -> str:
    """As whom the invocations that a backfill fetched wait for it."""
    return _MARK + backfill


def shown_waiting(monitor: str) -> str:
    """A monitor, or a backfill, that something waits for, for people."""
    return monitor.removeprefix(_MARK)
