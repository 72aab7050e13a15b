"""What the server needs of the rest of the program. `monitor.app` fills it in; tests do with a few lambdas."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from monitor.clock import Clock
from monitor.labels.labels import Labels
from monitor.model.watched import WatchedMonitor
from monitor.passrates import PassRates
from monitor.settings.tree import Server
from monitor.store.protocol import Store


class Phase(StrEnum):
    """Where the process stands. Only READY is answered 200 by /readyz."""

    STARTING = "starting"
    READY = "ready"
    DRAINING = "draining"
    UNWRITABLE = "unwritable"


@dataclass(frozen=True, slots=True)
class Readiness:
    """Whether telemetry can be taken; `detail` says of UNWRITABLE what cannot be written and why.

    `damage` says what of the journal could not be read at the start.
    """

    phase: Phase
    detail: str = ""
    damage: str = ""


Status = Mapping[str, Any]
"""A JSON object. Of a collector or judge it has `name` and `problem` (None when all is well), and whatever else is known."""


@dataclass(frozen=True, slots=True)
class ServerContext:
    """Where the server's answers come from.

    `scrape(accept)` gives the page of metrics and its Content-Type. It, `readiness`, `store` and `passrates` may block: they are called from
    the server's threads. All else is called on the event loop and must return at once. `monitors` gives an object with `name` for each monitor: state, next run;
    last run and pass rates are added here. `reload` raises ConfigurationError and changes nothing when the new configuration is wrong.
    `trace_link` is the template of `links.trace` with `{trace_id}` in it, None without.
    """

    settings: Server
    clock: Clock
    store: Store
    passrates: PassRates
    scrape: Callable[[str], tuple[bytes, str]]
    readiness: Callable[[], Readiness]
    collectors: Callable[[], Sequence[Status]]
    judges: Callable[[], Sequence[Status]]
    monitors: Callable[[], Sequence[Status]]
    reload: Callable[[], Awaitable[None]]
    trace_link: Callable[[], str | None] = lambda: None
    regressions: Callable[[], Sequence[Status]] = tuple
    """Alarms as JSON with times in seconds, newest first. Blocks."""
    acknowledge: Callable[[str], Status | None] = lambda _: None
    cancel_backfill: Callable[[str], Status | None] = lambda _: None
    """Ends an alarm by its id; None where none of that id stands. Blocks."""
    watched: Callable[[], Sequence[WatchedMonitor]] = tuple
    """The monitors in force with rubrics and windows, for the pages; any thread may ask."""
    process: Callable[[], Status] = dict
    """What the process has counted since its start, for the page of health: `monitor.overview.process_status`."""
    labels: Labels | None = None
    """People's labels. Blocks."""
    backfills: Callable[[], Sequence[Status]] = tuple
    """Backfills as JSON, newest first. Blocks."""
    begin_backfill: Callable[[Mapping[str, Any]], Status] = dict
    """Begins a backfill, or with `dry_run` says what it would come to; raises ValueError saying what would be right. Blocks."""
