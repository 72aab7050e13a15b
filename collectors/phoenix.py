"""The collector `phoenix`: Arize Phoenix's REST API, spans in the order in which they were inserted.

A span is inserted once and never changed, so the order of ids misses nothing, but for spans whose transaction commits after that of a later id:
the cursor stays a minute behind, and what was taken is remembered. Phoenix keeps microseconds and no resource.
"""

from __future__ import annotations

import base64
import binascii
import json
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import Field

from collectors.collector import Collector
from collectors.polling.building import Surroundings, feed_collector
from collectors.polling.config import PollerConfig
from collectors.polling.delivery import Parcel
from collectors.polling.documents import request_or_none
from collectors.polling.faults import FaultKind, SourceFault
from collectors.polling.feed import FeedPage
from collectors.polling.http import json_of
from collectors.polling.phoenix_history import PhoenixHistory
from collectors.polling.plain import attributes, iso, nanos, seconds
from collectors.polling.section import HttpSection, Seconds, http_of, pace_of, validated
from collectors.sink import RejectReason

PAGE = 1000
COMMIT_SECONDS = 60.0
"""How long a transaction that inserts spans may take before a later one is seen."""
_RECENT_SECONDS = 600.0
_KIND = "openinference.span.kind"
_STATUS = {"OK": 1, "ERROR": 2}
_JSON_TEXTS = ("metadata", "tool.parameters", "llm.prompt_template.variables")
"""Attributes that were JSON text and that Phoenix takes apart."""


class PhoenixSection(HttpSection):
    """`projects`: names or ids. `lookback`: how far back a new collector begins."""

    projects: list[str] = Field(default=["default"], min_length=1)
    lookback: Seconds = 600.0


def parse_phoenix(raw: Any, folder: Path | None = None) -> PollerConfig:
    """The configuration of a `phoenix` collector. Raises ConfigFault."""
    section = validated(PhoenixSection, raw)
    options = {"projects": tuple(section.projects), "lookback": section.lookback}
    return PollerConfig("phoenix", pace_of(section), http_of(section, folder), options)


def build_phoenix(name: str, config: PollerConfig, given: Surroundings) -> Collector:
    """A collector that reads Phoenix."""
    feed = PhoenixFeed(name, config, given)
    history = PhoenixHistory(config.options["projects"], feed.page_of, feed.request_of, given.sink, given.clock)
    return feed_collector(name, feed, config.pace.interval, given, history)


@dataclass(frozen=True, slots=True)
class _Project:
    """Where the reading of a project stands: the page that comes next, and when each row was taken that the cursor lies behind or at."""

    page_at: str | None = None
    seen: Mapping[int, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Read:
    """A page of a project: what is new in it, where the project stands after it, and how old its newest span is."""

    parcels: list[Parcel]
    project: _Project
    position: Mapping[str, Any]
    lag_seconds: float


class PhoenixFeed:
    """See Feed. The cursor maps each project to {"since": seconds} before its first span, to {"id": row} after."""

    def __init__(self, name: str, config: PollerConfig, given: Surroundings) -> None:
        assert config.http is not None
        self._name, self._clock, self._meter = name, given.clock, given.meter
        self._http = given.connect(config.http, given.clock, given.chance)
        self._lookback = float(config.options["lookback"])
        self._projects = {project: _Project() for project in config.options["projects"]}
        self._faults: dict[str, SourceFault] = {}

    @property
    def problem(self) -> str | None:
        """Why one of several projects is not read."""
        return next((str(fault) for fault in self._faults.values()), None)

    @property
    def endpoints(self) -> tuple[str, ...]:
        """The URL of the server."""
        return (self._http.endpoint,)

    async def open(self) -> None:
        """Make ready."""
        await self._http.open()

    async def close(self) -> None:
        """Release connections."""
        await self._http.close()

    async def read(self, cursor: Any) -> FeedPage:
        """One page of each project. A project that cannot be read does not keep the others; raises SourceFault when none can."""
        now = self._clock.now()
        positions: dict[str, Any] = dict(cursor) if isinstance(cursor, dict) else {}
        pages: dict[str, _Read] = {}
        self._faults = {}
        for name in self._projects:
            position = positions.setdefault(name, {"since": now - self._lookback})
            try:
                pages[name] = await self._read(name, position, now)
            except SourceFault as fault:
                self._faults[name] = fault
        if not pages:
            raise next(iter(self._faults.values()))
        positions |= {name: page.position for name, page in pages.items()}
        parcels = [parcel for page in pages.values() for parcel in page.parcels]
        unread = [page.lag_seconds for page in pages.values() if page.project.page_at is not None]

        def taken() -> None:
            self._projects |= {name: page.project for name, page in pages.items()}

        return FeedPage(parcels, positions, bool(unread), max(unread, default=0.0), taken)

    async def _read(self, name: str, position: Mapping[str, Any], now: float) -> _Read:
        project = self._projects[name]
        spans, following = await self._page(name, project, position)
        seen = dict(project.seen)
        parcels, newest = [], 0.0
        for span in spans:
            row, ended = _row(span.get("id")), seconds(span.get("end_time"))
            newest = max(newest, ended)
            if row is None or row in seen:
                continue
            seen[row] = now if now - ended < _RECENT_SECONDS else 0.0
            body = self.request_of(span)
            if body is not None:
                parcels.append(Parcel(body))
        last = _row(spans[-1].get("id")) if spans else None
        if last is None:
            return _Read(parcels, _Project(following, seen), position, 0.0)
        row = _reached(seen, last, now)
        kept = {known: at for known, at in seen.items() if known >= row}
        return _Read(parcels, _Project(following, kept), {"id": row}, max(0.0, now - newest))

    def request_of(self, span: Mapping[str, Any]) -> bytes | None:
        """A span as an OTLP request in protobuf; None for one that cannot be read, which is counted."""
        body = request_or_none(otlp_of(span))
        if body is None:
            self._meter.rejected(self._name, RejectReason.MALFORMED)
        return body

    async def page_of(
        self, name: str, since: float, until: float, cursor: str | None
    ) -> tuple[list[dict[str, Any]], str | None]:
        """A page of the spans of a project that began in [since, until), and the cursor of the next page. Raises SourceFault."""
        parameters = [("sort", "id"), ("order", "asc"), ("limit", str(PAGE))]
        parameters += [("start_time", iso(since)), ("end_time", iso(until))]
        return await self._get(name, [*parameters, ("cursor", cursor)] if cursor else parameters)

    async def _page(
        self, name: str, project: _Project, position: Mapping[str, Any]
    ) -> tuple[list[dict[str, Any]], str | None]:
        parameters = [("sort", "id"), ("order", "asc"), ("limit", str(PAGE))]
        start = project.page_at or (_global_id(int(position["id"])) if "id" in position else None)
        if start is not None:
            parameters.append(("cursor", start))
        else:
            parameters.append(("start_time", iso(float(position["since"]))))
        spans, following = await self._get(name, parameters)
        self._check_order(spans)
        return spans, following

    async def _get(self, name: str, parameters: list[tuple[str, str]]) -> tuple[list[dict[str, Any]], str | None]:
        path = f"/v1/projects/{urllib.parse.quote(name, safe='')}/spans"
        answer = await self._http.get(path, parameters)
        if answer.status == 404:
            reason = f"there is no project {name}, or no span was ever sent to it: are `endpoint` and `projects` right?"
            raise SourceFault(FaultKind.REFUSED, f"{self._http.endpoint}: {reason}")
        body = json_of(answer, self._http.endpoint + path) if answer.status == 200 else None
        if not isinstance(body, dict) or not isinstance(body.get("data"), list):
            raise SourceFault(
                FaultKind.REFUSED,
                f"{self._http.endpoint}/v1/projects/{{id}}/spans: answered {answer.status}: is it Phoenix?",
            )
        spans = [span for span in body["data"] if isinstance(span, dict)]
        following = body.get("next_cursor")
        return spans, following if isinstance(following, str) and spans else None

    def _check_order(self, spans: list[dict[str, Any]]) -> None:
        rows = [_row(span.get("id")) for span in spans]
        if None in rows or rows != sorted(row for row in rows if row is not None):
            reason = "does not give spans in the order of their ids: Phoenix from version 14 on is needed"
            raise SourceFault(FaultKind.REFUSED, f"{self._http.endpoint}: {reason}")


def _reached(seen: Mapping[int, float], last: int, now: float) -> int:
    """The row before which nothing can show up any more: the oldest that was taken of late, at most the `last` of the page."""
    return min([last, *(row for row, at in seen.items() if now - at < COMMIT_SECONDS)])


def otlp_of(span: Mapping[str, Any]) -> dict[str, Any]:
    """A span of Phoenix as an OTLP/JSON document."""
    context = span.get("context")
    ids: Mapping[str, Any] = context if isinstance(context, dict) else {}
    given = span.get("attributes")
    values = _rejoined(given) if isinstance(given, dict) else {}
    kind = span.get("span_kind")
    if kind and kind != "UNKNOWN":
        values.setdefault(_KIND, kind)
    plain = {
        "traceId": ids.get("trace_id"),
        "spanId": ids.get("span_id"),
        "parentSpanId": span.get("parent_id") or "",
        "name": span.get("name") or "",
        "startTimeUnixNano": str(nanos(span.get("start_time"))),
        "endTimeUnixNano": str(nanos(span.get("end_time"))),
        "attributes": attributes(values),
        "events": [_event(event) for event in span.get("events") or () if isinstance(event, dict)],
        "status": {
            "code": _STATUS.get(str(span.get("status_code")), 0),
            "message": str(span.get("status_message") or ""),
        },
    }
    return {"resourceSpans": [{"scopeSpans": [{"spans": [plain]}]}]}


def _event(event: Mapping[str, Any]) -> dict[str, Any]:
    given = event.get("attributes")
    return {
        "name": str(event.get("name") or ""),
        "timeUnixNano": str(nanos(event.get("timestamp"))),
        "attributes": attributes(given if isinstance(given, dict) else {}),
    }


def _rejoined(values: Mapping[str, Any]) -> dict[str, Any]:
    """Attributes that were one JSON text are one again: `metadata.a`, `metadata.b.c` become `metadata`."""
    found: dict[str, Any] = {}
    texts: dict[str, dict[str, Any]] = {}
    for key, value in values.items():
        prefix = next((one for one in _JSON_TEXTS if key.startswith(f"{one}.")), None)
        if prefix is None:
            found[key] = value
        else:
            _put(texts.setdefault(prefix, {}), key[len(prefix) + 1 :].split("."), value)
    return {**found, **{key: json.dumps(_lists(value)) for key, value in texts.items()}}


def _put(into: dict[str, Any], path: list[str], value: Any) -> None:
    for part in path[:-1]:
        inner = into.setdefault(part, {})
        if not isinstance(inner, dict):
            return
        into = inner
    into[path[-1]] = value


def _lists(value: Any) -> Any:
    """Maps with the keys 0, 1, 2 … were lists."""
    if not isinstance(value, dict):
        return value
    inner = {key: _lists(one) for key, one in value.items()}
    if inner and list(inner) == [str(number) for number in range(len(inner))]:
        return list(inner.values())
    return inner


def _global_id(row: int) -> str:
    return base64.b64encode(f"Span:{row}".encode()).decode()


def _row(identifier: Any) -> int | None:
    """The row of a global id, base64 of `Span:7`."""
    try:
        return int(base64.b64decode(str(identifier)).decode().rpartition(":")[2])
    except (ValueError, binascii.Error, UnicodeDecodeError):
        return None
