"""The collector `langfuse`: Langfuse's public API. Observations of a window tell which traces there are; each is then fetched whole.

Speaks version 2 of the observations (Langfuse 4, cloud), with the older API as fallback. An observation that came to Langfuse by OpenTelemetry
has its own attributes in its metadata; what Langfuse took out of them (input, output, usage, model) is given back under Langfuse's names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import Field

from collectors.collector import Collector
from collectors.polling.building import Surroundings, window_collector
from collectors.polling.config import HttpConfig, PollerConfig
from collectors.polling.documents import request_or_none
from collectors.polling.faults import FaultKind, SourceFault
from collectors.polling.http import Answer, json_of
from collectors.polling.langfuse_spans import otlp_of
from collectors.polling.plain import hex_id, iso
from collectors.polling.section import WindowSection, http_of, pace_of, validated
from collectors.polling.source import Fetched, Found, Hit
from collectors.polling.timeline import Window

V2, OLDER = "/api/public/v2/observations", "/api/public/observations"
_FIELDS = "core,basic,time,io,metadata,model,usage,trace_context"
_KEPT_WHOLE = "attributes,resourceAttributes,scope"
_OLDER_PAGE = 100
_MOST_PAGES = 10_000


class LangfuseSection(WindowSection):
    """`auth.basic` holds the public key as user name and the secret key as password. `environments`: only these; none is all."""

    environments: list[str] = Field(default_factory=list)
    max_results: int = Field(1000, ge=10, le=1000)


def parse_langfuse(raw: Any, folder: Path | None = None) -> PollerConfig:
    """The configuration of a `langfuse` collector. Raises ConfigFault."""
    section = validated(LangfuseSection, raw)
    options = {"environments": tuple(section.environments)}
    return PollerConfig("langfuse", pace_of(section), http_of(section, folder), options)


def build_langfuse(name: str, config: PollerConfig, given: Surroundings) -> Collector:
    """A collector that polls Langfuse."""
    assert config.http is not None
    source = LangfuseSource(config.http, config.options["environments"], given)
    return window_collector(name, source, config.pace, given)


class LangfuseSource:
    """See TraceSource. Its pages are followed to the end, so a search is never truncated."""

    resolution = 0.002

    def __init__(self, config: HttpConfig, environments: Sequence[str], given: Surroundings) -> None:
        self._http = given.connect(config, given.clock, given.chance)
        self._environments = environments
        self._v2: bool | None = None
        self._ids: dict[str, str] = {}

    @property
    def endpoint(self) -> str:
        """The URL of the server."""
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

    async def search(self, window: Window, limit: int) -> Found:
        """The traces of the observations that began in the window."""
        parameters = [("fromStartTime", iso(window.start)), ("toStartTime", iso(window.end))]
        parameters += [("environment", name) for name in self._environments]
        counts: dict[str, int] = {}
        ends: dict[str, str] = {}
        for observation in await self._observations(parameters, "core,basic,time", limit):
            trace_id = observation.get("traceId")
            if isinstance(trace_id, str) and trace_id:
                counts[trace_id] = counts.get(trace_id, 0) + 1
                marks = (str(observation.get(key) or "") for key in ("updatedAt", "endTime"))
                ends[trace_id] = max(ends.get(trace_id, ""), *marks)
        for trace_id in counts:
            if hex_id(trace_id, 32) != trace_id:
                self._ids[hex_id(trace_id, 32)] = trace_id
        return Found(tuple(Hit(hex_id(one, 32), f"{ends[one]}") for one in counts))

    async def fetch(self, trace_id: str, window: Window) -> Fetched | None:
        """All observations of the trace."""
        own_id = self._ids.get(trace_id, trace_id)
        parameters = [("traceId", own_id)]
        if self._v2:
            parameters += [("fromStartTime", iso(window.start)), ("expandMetadata", _KEPT_WHOLE)]
        observations = await self._observations(parameters, _FIELDS, 1000)
        if not observations:
            return None
        trace = {} if self._v2 else await self._trace(own_id)
        body = request_or_none(otlp_of(own_id, observations, trace))
        if body is None:
            raise SourceFault(FaultKind.MALFORMED, f"{self.endpoint}: the observations cannot be read as spans")
        return Fetched(body)

    async def _trace(self, own_id: str) -> Mapping[str, Any]:
        """What the older API keeps on the trace: session, input, output, release. Empty where it is not there."""
        answer = await self._http.get(f"/api/public/traces/{own_id}")
        body = json_of(answer, self.endpoint) if answer.status == 200 else None
        return body if isinstance(body, dict) else {}

    # -- pages ------------------------------------------------------------------------------------------------------------
    async def _observations(self, parameters: list[tuple[str, str]], fields: str, limit: int) -> list[dict[str, Any]]:
        if self._v2 is not False:
            answer = await self._http.get(V2, [*parameters, ("fields", fields), ("limit", str(limit))])
            if answer.status == 200:
                rows = await self._by_cursor(answer, [*parameters, ("fields", fields), ("limit", str(limit))])
                self._v2 = True
                return rows
            if answer.status not in (404, 405, 501) or self._v2:
                raise self._refused(V2, answer)
        found = await self._by_page(parameters)
        self._v2 = False
        return found

    async def _by_cursor(self, answer: Answer, parameters: list[tuple[str, str]]) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        for _ in range(_MOST_PAGES):
            rows, meta = self._rows(answer, V2)
            found += rows
            cursor = meta.get("cursor")
            if not isinstance(cursor, str) or not cursor:
                return found
            answer = await self._http.get(V2, [*parameters, ("cursor", cursor)])
        raise SourceFault(FaultKind.REFUSED, f"{self.endpoint}{V2}: its pages do not end")

    async def _by_page(self, parameters: list[tuple[str, str]]) -> list[dict[str, Any]]:
        """The older API. Pages are numbered, so what comes in meanwhile moves rows to the next page: a row may come twice, told by its id."""
        found: dict[str, dict[str, Any]] = {}
        for page in range(1, _MOST_PAGES):
            answer = await self._http.get(OLDER, [*parameters, ("page", str(page)), ("limit", str(_OLDER_PAGE))])
            rows, meta = self._rows(answer, OLDER)
            found |= {str(row.get("id")): row for row in rows}
            if not rows or (page >= int(meta.get("totalPages") or 0) and len(rows) < _OLDER_PAGE):
                return list(found.values())
        raise SourceFault(FaultKind.REFUSED, f"{self.endpoint}{OLDER}: its pages do not end")

    def _rows(self, answer: Answer, path: str) -> tuple[list[dict[str, Any]], Mapping[str, Any]]:
        if answer.status != 200:
            raise self._refused(path, answer)
        body = json_of(answer, self.endpoint + path)
        if not isinstance(body, dict) or not isinstance(body.get("data"), list):
            raise SourceFault(FaultKind.MALFORMED, f"{self.endpoint}{path}: the answer has no `data`: is it Langfuse?")
        meta = body.get("meta")
        return [row for row in body["data"] if isinstance(row, dict)], meta if isinstance(meta, dict) else {}

    def _refused(self, path: str, answer: Answer) -> SourceFault:
        if answer.status == 413:
            return SourceFault(FaultKind.TOO_LARGE, f"{self.endpoint}{path}: answered 413")
        return SourceFault(
            FaultKind.REFUSED, f"{self.endpoint}{path}: answered {answer.status}: is `endpoint` Langfuse?"
        )
