"""The pages on loopback over a real store, for tests without a browser."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from aiohttp import ClientResponse, ClientSession, CookieJar

from monitor.clock import ManualClock
from monitor.labels.labels import Labels
from monitor.model.watched import WatchedMonitor, WatchedRubric
from monitor.passrates import PassRates
from monitor.server.listener import ApiServer
from monitor.store.sqlite import SqliteStore
from tests.contracts.store_material import BOOKING, T0, TONE
from tests.server.serving import Program, context_of

NOW = T0 + 3600
WATCHED = WatchedMonitor(
    "m",
    (
        WatchedRubric(BOOKING.rubric, BOOKING.version, "weighted", "default", "gpt-test", objective=0.9),
        WatchedRubric(TONE.rubric, TONE.version, "check"),
    ),
)
STATUS: Mapping[str, Any] = {
    "name": "m", "state": "active", "select": {"agent": ["restaurant-*"]}, "schedule": "every 1m", "next_run": None,
    "pending": 0, "labels": {"team": "bookings"}, "waiting_for_judge": [],
}  # fmt: skip


class Elements(HTMLParser):
    """A page as a browser reads it: elements with attributes, and all text."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data

    def all(self, tag: str, **attributes: str) -> list[dict[str, str | None]]:
        """The attributes of each element of a kind that has the given ones."""
        return [have for kind, have in self.found if kind == tag and attributes.items() <= have.items()]


@dataclass
class Pages:
    """A running server: what it stands on, and a client that keeps cookies."""

    store: SqliteStore
    clock: ManualClock
    url: str
    session: ClientSession
    alarms: list[dict[str, Any]] = field(default_factory=list)
    acknowledged: list[str] = field(default_factory=list)
    monitors: list[Mapping[str, Any]] = field(default_factory=lambda: [STATUS])

    async def get(self, path: str, **headers: str) -> tuple[int, Elements]:
        """Status and elements of a page; header names are written with `_`."""
        async with self.session.get(self.url + path, headers=_named(headers), allow_redirects=False) as answer:
            return answer.status, Elements(await answer.text())

    async def answer(
        self, method: str, path: str, form: Mapping[str, str] | None = None, **headers: str
    ) -> ClientResponse:
        """The whole answer, redirects not followed."""
        answer = await self.session.request(
            method, self.url + path, data=form, headers=_named(headers), allow_redirects=False
        )
        await answer.read()
        return answer

    async def csrf(self, path: str = "/labels") -> str:
        """The secret that a page puts into its forms."""
        _, page = await self.get(path)
        return str(page.all("input", name="csrf")[0]["value"])


def _named(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): value for name, value in headers.items()}


@asynccontextmanager
async def pages(folder: Path, **settings: Any) -> AsyncIterator[Pages]:
    """The pages with those keys of `server`, on a free port of 127.0.0.1 unless `endpoint` says otherwise."""
    store, clock = SqliteStore(folder / "data"), ManualClock(NOW)
    served = Pages(store, clock, "", None)  # type: ignore[arg-type]

    def acknowledge(name: str) -> Mapping[str, Any] | None:
        found = next((alarm for alarm in served.alarms if alarm["id"] == name and alarm["state"] == "open"), None)
        if found is not None:
            found["state"] = "acknowledged"
            served.acknowledged.append(name)
        return found

    context = replace(
        context_of(store, Program(), clock, **settings),
        passrates=PassRates(store, clock, lambda: (WATCHED,)),
        monitors=lambda: served.monitors,
        watched=lambda: (WATCHED,),
        regressions=lambda: served.alarms,
        acknowledge=acknowledge,
        labels=Labels(store, clock, lambda: (WATCHED,)),
        trace_link=lambda: "https://traces.example/{trace_id}",
    )
    server = ApiServer(context)
    server._site._desk.kept._patience = 10.0  # tests ask once
    await server.start()
    try:
        served.url = server.url.replace("0.0.0.0", "127.0.0.1")
        async with ClientSession(cookie_jar=CookieJar(unsafe=True)) as session:  # unsafe: cookies of an IP address
            served.session = session
            yield served
    finally:
        await server.stop()
        store.close()


ALARM: Mapping[str, Any] = {
    "id": "a1", "monitor": "m", "rubric": "booking", "agent": "restaurant-bot", "environment": "production",
    "agent_version": "1.4", "rubric_version": BOOKING.version, "against": "objective", "compared_with": None, "target": 0.9,
    "since": T0, "opened_at": T0 + 50, "closed_at": None, "state": "open",
    "dimension": {"id": "policy", "before": 4.5, "since": 2.0}, "failing": [],
}  # fmt: skip
