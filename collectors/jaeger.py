"""The collector `jaeger`: Jaeger's query API, version 3 (OTLP), with the older HTTP API as fallback.

Search brings whole traces along. It wants a service, so every service that the server knows and that the configuration selects is asked for.
An empty search is a 404 in version 3. Times are raw: without `raw_traces` the server moves spans to hide skewed clocks.
"""

from __future__ import annotations

import fnmatch
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from collectors.collector import Collector
from collectors.polling.building import Surroundings, window_collector
from collectors.polling.config import HttpConfig, PollerConfig
from collectors.polling.documents import by_trace, fingerprint, json_documents, padded, request_of
from collectors.polling.faults import FaultKind, SourceFault
from collectors.polling.http import Answer
from collectors.polling.jaeger_legacy import otlp_of
from collectors.polling.section import WindowSection, http_of, pace_of, validated
from collectors.polling.source import Fetched, Found, Hit
from collectors.polling.timeline import Window

V3, LEGACY = "v3", "legacy"
SERVICES_SECONDS = 60.0
"""How often the list of services is asked for anew."""
_APPROXIMATE = 0.5
"""Storages count index rows, not traces: a search that gives more than this share of its limit may have been cut off."""


class JaegerSection(WindowSection):
    """`services`: globs, `!` excludes, none is all. `attributes`: only traces with a span that has them. `api`: which one to speak."""

    services: list[str] = Field(default_factory=list)
    attributes: dict[str, str] = Field(default_factory=dict)
    api: Literal["auto", "v3", "legacy"] = "auto"
    max_results: int = Field(200, ge=1, le=100_000)


def parse_jaeger(raw: Any, folder: Path | None = None) -> PollerConfig:
    """The configuration of a `jaeger` collector. Raises ConfigFault."""
    section = validated(JaegerSection, raw)
    options = {"services": section.services, "attributes": section.attributes, "api": section.api}
    return PollerConfig("jaeger", pace_of(section), http_of(section, folder), options)


def build_jaeger(name: str, config: PollerConfig, given: Surroundings) -> Collector:
    """A collector that polls Jaeger."""
    assert config.http is not None
    return window_collector(name, JaegerSource(config.http, config.options, given), config.pace, given)


class JaegerSource:
    """See TraceSource."""

    resolution = 0.002

    def __init__(self, config: HttpConfig, options: Mapping[str, Any], given: Surroundings) -> None:
        self._http = given.connect(config, given.clock, given.chance)
        self._clock = given.clock
        self._globs: Sequence[str] = options["services"]
        self._attributes: Mapping[str, str] = options["attributes"]
        self._api: str | None = None if options["api"] == "auto" else options["api"]
        self._services: tuple[str, ...] = ()
        self._listed_at = -SERVICES_SECONDS

    @property
    def endpoint(self) -> str:
        """The URL of the query service."""
        return self._http.endpoint

    @property
    def skew_seconds(self) -> float:
        """The server's clock minus ours."""
        return self._http.skew.seconds

    async def open(self) -> None:
        """Make ready."""
        await self._http.open()

    async def close(self) -> None:
        """Release connections."""
        await self._http.close()

    # -- searching ------------------------------------------------------------------------------------------------------
    async def search(self, window: Window, limit: int) -> Found:
        """Traces of the selected services in the window, whole."""
        hits: dict[str, Hit] = {}
        truncated = False
        for service in await self._selected():
            documents = await self._traces_of(service, window, limit)
            truncated = truncated or len(documents) > _APPROXIMATE * limit
            for trace_id, document in documents.items():
                hits[trace_id] = Hit(trace_id, fingerprint(document), partial(_fetched, document))
        return Found(tuple(hits.values()), truncated)

    async def _traces_of(self, service: str, window: Window, limit: int) -> dict[str, dict[str, Any]]:
        if self._api == LEGACY:
            parameters = [
                ("service", service),
                ("start", str(int(window.start * 1e6))),
                ("end", str(int(window.end * 1e6))),
                ("limit", str(limit)),
                ("lookback", "custom"),
            ]
            if self._attributes:
                parameters.append(("tags", json.dumps(dict(self._attributes))))
            return self._legacy(await self._http.get("/api/traces", parameters))
        parameters = _both_ways(
            {
                "query.serviceName": service,
                "query.startTimeMin": _rfc3339(window.start),
                "query.startTimeMax": _rfc3339(window.end),
                "query.rawTraces": "true",
            }
        )
        parameters += [("query.searchDepth", str(limit)), ("query.num_traces", str(limit))]
        if self._attributes:
            parameters.append(("query.attributes", json.dumps(dict(self._attributes))))
        return self._third(await self._http.get("/api/v3/traces", parameters))

    async def fetch(self, trace_id: str, window: Window) -> Fetched | None:
        """The trace by its id."""
        if self._api is None:
            await self._selected()
        if self._api == LEGACY:
            found = self._legacy(await self._http.get(f"/api/traces/{trace_id}", [("raw", "true")]))
        else:
            parameters = _both_ways(
                {"startTime": _rfc3339(window.start), "endTime": _rfc3339(window.end), "rawTraces": "true"}
            )
            found = self._third(await self._http.get(f"/api/v3/traces/{trace_id}", parameters))
        document = found.get(trace_id)
        return None if document is None else _fetched(document)

    def _third(self, answer: Answer) -> dict[str, dict[str, Any]]:
        if answer.status in (404, 204):
            return {}  # no traces found
        if answer.status != 200:
            raise self._refused("/api/v3/traces", answer)
        resources: list[Any] = []
        for document in json_documents(answer.body, f"{self.endpoint}/api/v3/traces"):
            inner = document.get("result", document) if isinstance(document, dict) else None
            if isinstance(inner, dict):
                resources += inner.get("resourceSpans") or ()
        return by_trace(resources)

    def _legacy(self, answer: Answer) -> dict[str, dict[str, Any]]:
        if answer.status in (404, 204):
            return {}
        if answer.status != 200:
            raise self._refused("/api/traces", answer)
        documents = json_documents(answer.body, f"{self.endpoint}/api/traces")
        data = documents[0].get("data") if documents and isinstance(documents[0], dict) else None
        traces = [one for one in data or () if isinstance(one, dict)]
        return {padded(str(trace.get("traceID", ""))): otlp_of(trace) for trace in traces}

    def _refused(self, path: str, answer: Answer) -> SourceFault:
        if answer.status == 413:
            return SourceFault(FaultKind.TOO_LARGE, f"{self.endpoint}{path}: answered 413")
        reason = f"answered {answer.status}: does its storage take this search, and is `endpoint` the query service?"
        return SourceFault(FaultKind.REFUSED, f"{self.endpoint}{path}: {reason}")

    # -- services -------------------------------------------------------------------------------------------------------
    async def _selected(self) -> tuple[str, ...]:
        """The services to ask for. Their list, by the way, tells which API the server speaks."""
        now = self._clock.monotonic()
        if now - self._listed_at >= SERVICES_SECONDS or self._api is None:
            listed = await self._list()
            self._services = tuple(name for name in listed if _matches(name, self._globs))
            self._listed_at = now
        return self._services

    async def _list(self) -> list[str]:
        for api, path, key in ((V3, "/api/v3/services", "services"), (LEGACY, "/api/services", "data")):
            if self._api not in (None, api):
                continue
            answer = await self._http.get(path)
            if answer.status == 200 and answer.body[:1] == b"{":  # else the page of the user interface
                self._api = api
                documents = json_documents(answer.body, self.endpoint + path)
                names = documents[0].get(key) if documents and isinstance(documents[0], dict) else None
                return [name for name in names or () if isinstance(name, str)]
        raise SourceFault(
            FaultKind.REFUSED,
            f"{self.endpoint}: lists no services, neither at /api/v3/services nor /api/services: is it Jaeger?",
        )


def _fetched(document: Mapping[str, Any]) -> Fetched:
    return Fetched(request_of(document))


def _matches(name: str, globs: Sequence[str]) -> bool:
    wanted = [glob for glob in globs if not glob.startswith("!")]
    if any(fnmatch.fnmatchcase(name, glob[1:]) for glob in globs if glob.startswith("!")):
        return False
    return not wanted or any(fnmatch.fnmatchcase(name, glob) for glob in wanted)


def _both_ways(parameters: Mapping[str, str]) -> list[tuple[str, str]]:
    """Parameters in camel case and in snake case: newer servers know the one, older only the other."""
    found: list[tuple[str, str]] = []
    for name, value in parameters.items():
        snake = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)
        found += [(name, value), (snake, value)]
    return found


def _rfc3339(seconds: float) -> str:
    return datetime.fromtimestamp(max(0.0, seconds), UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
