"""A server on loopback over a real store, for tests."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import ClientSession, TCPConnector

from monitor.clock import ManualClock
from monitor.exporters.lease import ExportLease
from monitor.exporters.prometheus import Exposition, Sources, StoreCollector, new_registry
from monitor.labels.labels import Labels
from monitor.model.watched import WatchedMonitor, WatchedRubric
from monitor.passrates import PassRates
from monitor.regression.detection import Detection
from monitor.server.context import Phase, Readiness, ServerContext
from monitor.server.listener import ApiServer
from monitor.settings.tree import Metrics, Server
from monitor.store.sqlite import SqliteStore
from tests.contracts.store_material import BOOKING, T0

NOW = T0 + 3600


@dataclass
class Program:
    """What the rest of the program would say; tests change it."""

    readiness: Readiness = field(default_factory=lambda: Readiness(Phase.READY))
    collectors: list[Mapping[str, Any]] = field(default_factory=list)
    judges: list[Mapping[str, Any]] = field(default_factory=list)
    reload: Callable[[], None] = lambda: None
    trace_link: str | None = None


@dataclass
class Served:
    """A running server: its store, and a client."""

    store: SqliteStore
    program: Program
    url: str
    session: ClientSession

    async def get(self, path: str, **parameters: str) -> tuple[int, Any]:
        """Status and JSON of a GET."""
        return await self.send("GET", path, parameters)

    async def send(
        self, method: str, path: str, parameters: Mapping[str, str] | None = None, **headers: str
    ) -> tuple[int, Any]:
        """Status and JSON of a request; header names are written with `_`."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        async with self.session.request(method, self.url + path, params=parameters, headers=named) as answer:
            assert answer.headers["Content-Type"] in ("application/json", "application/problem+json")
            found = await answer.json(content_type=None)
            if answer.status >= 400 and "title" in found:
                assert answer.headers["Content-Type"] == "application/problem+json"
                assert found["status"] == answer.status
            return answer.status, found

    async def items(self, path: str, **parameters: str) -> list[dict[str, Any]]:
        """The items of a listing's page."""
        status, found = await self.get(path, **parameters)
        assert status == 200, found
        assert set(found) == {"items", "next_cursor"}
        return list(found["items"])


def context_of(store: SqliteStore, program: Program, clock: ManualClock, **settings: Any) -> ServerContext:
    """A context over a store, with one monitor `m` of the rubric `booking`."""
    watched = (
        WatchedMonitor("m", (WatchedRubric(BOOKING.rubric, BOOKING.version, "weighted", "default", None, 0.9),)),
    )
    labels = Labels(store, clock, lambda: watched)
    passrates = PassRates(store, clock, lambda: watched, correct=labels.correct)
    registry = new_registry()
    lease = ExportLease(store, clock, "test")
    sources = Sources(store, passrates, lambda: watched, lease, clock)
    registry.register(StoreCollector(sources, Metrics(zero_for="0s")))  # type: ignore[arg-type]

    async def reload() -> None:
        program.reload()

    return ServerContext(
        settings=Server(**({"endpoint": "127.0.0.1:0"} | settings)),
        clock=clock,
        store=store,
        passrates=passrates,
        scrape=Exposition(registry).page,
        readiness=lambda: program.readiness,
        collectors=lambda: program.collectors,
        judges=lambda: program.judges,
        monitors=lambda: [{"name": "m", "state": "active", "next_run": None}],
        reload=reload,
        trace_link=lambda: program.trace_link,
        labels=labels,
        regressions=store.regressions,
        acknowledge=Detection(store, clock, lambda: watched).acknowledge,
    )


@asynccontextmanager
async def serving(folder: Path, client: ssl.SSLContext | None = None, /, **settings: Any) -> AsyncIterator[Served]:
    """A server with those keys of `server`, on a free port of 127.0.0.1 unless `endpoint` says otherwise."""
    store, program = SqliteStore(folder / "data"), Program()
    server = ApiServer(context_of(store, program, ManualClock(NOW), **settings))
    await server.start()
    try:
        url = server.url.replace("0.0.0.0", "127.0.0.1")
        async with ClientSession(connector=TCPConnector(ssl=client if client is not None else True)) as session:
            yield Served(store, program, url, session)
    finally:
        await server.stop()
        store.close()
