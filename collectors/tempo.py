"""The collector `tempo`: Grafana Tempo's HTTP API, TraceQL search and then each trace by its id.

Search gives the first results it comes upon, in no order and without pages, so windows are halved until they fit. Traces are fetched as
protobuf: the JSON has other ids and enums than OTLP. `/api/v2/traces` says when a trace is not whole; servers before 2.6 have only
`/api/traces`.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from collectors.collector import Collector
from collectors.polling.building import Surroundings, window_collector
from collectors.polling.config import HttpConfig, PollerConfig
from collectors.polling.documents import padded
from collectors.polling.faults import FaultKind, SourceFault
from collectors.polling.http import Answer, json_of
from collectors.polling.section import WindowSection, http_of, pace_of, validated
from collectors.polling.source import Fetched, Found, Hit
from collectors.polling.timeline import Window
from collectors.polling.wire import fields

QUERY = " || ".join(
    f'span.{key} =~ ".+"'
    for key in (
        "gen_ai.operation.name",
        "gen_ai.system",
        "openinference.span.kind",
        "traceloop.span.kind",
        "langfuse.observation.type",
        "ai.operationId",
    )
)
"""Spans of agents in any of the conventions that we read: GenAI, OpenInference, OpenLLMetry, Langfuse, the AI SDK."""

_PROTOBUF = "application/protobuf"
_TRACE, _STATUS = 1, 3
_PARTIAL = 1


class TempoSection(WindowSection):
    """`query` is a TraceQL filter, without the braces; the traces of spans that match are taken whole."""

    query: str = QUERY


def parse_tempo(raw: Any, folder: Path | None = None) -> PollerConfig:
    """The configuration of a `tempo` collector. Raises ConfigFault."""
    section = validated(TempoSection, raw)
    query = section.query.strip()
    query = query if query.startswith("{") else f"{{ {query} }}"
    return PollerConfig("tempo", pace_of(section), http_of(section, folder), {"query": query})


def build_tempo(name: str, config: PollerConfig, given: Surroundings) -> Collector:
    """A collector that polls Tempo."""
    assert config.http is not None
    source = TempoSource(config.http, config.options["query"], given)
    return window_collector(name, source, config.pace, given)


class TempoSource:
    """See TraceSource."""

    resolution = 1.0  # start and end are whole seconds

    def __init__(self, config: HttpConfig, query: str, given: Surroundings) -> None:
        self._http = given.connect(config, given.clock, given.chance)
        self._query = query
        self._v2: bool | None = None

    @property
    def endpoint(self) -> str:
        """The URL of the query frontend."""
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
        """Traces that match the query in the window."""
        start = math.floor(window.start)
        parameters = (
            ("q", self._query),
            ("start", str(start)),
            ("end", str(max(start + 1, math.ceil(window.end)))),
            ("limit", str(limit)),
            ("spss", "1"),
        )
        answer = await self._http.get("/api/search", parameters)
        if answer.status != 200:
            raise self._refused(
                "/api/search", answer, "does the server know TraceQL (2.0 and newer), and is `query` right?"
            )
        body = json_of(answer, f"{self.endpoint}/api/search")
        traces = body.get("traces") if isinstance(body, dict) else None
        hits = tuple(_hit(one) for one in traces or () if isinstance(one, dict) and isinstance(one.get("traceID"), str))
        return Found(hits, len(hits) >= limit)

    async def fetch(self, trace_id: str, window: Window) -> Fetched | None:
        """The trace by its id."""
        if self._v2 is not False:
            parameters = (
                ("start", str(math.floor(window.start))),
                ("end", str(math.ceil(window.end))),
                ("span_pruning", "false"),
            )
            answer = await self._http.get(f"/api/v2/traces/{trace_id}", parameters, _PROTOBUF)
            if answer.status == 200:
                found = _second(self._body(answer))
                self._v2 = True
                return found
            if answer.status != 404 or self._v2:
                self._check_absent(answer)
                return None
        answer = await self._http.get(f"/api/traces/{trace_id}", (), _PROTOBUF)
        if answer.status == 200:
            older = Fetched(self._body(answer))
            self._v2 = False
            return older
        self._check_absent(answer)
        return None

    def _body(self, answer: Answer) -> bytes:
        if "json" in answer.content_type or "html" in answer.content_type:
            reason = f"answered with {answer.content_type} where protobuf was asked for: is a proxy between?"
            raise SourceFault(FaultKind.MALFORMED, f"{self.endpoint}/api/traces: {reason}")
        return answer.body

    def _check_absent(self, answer: Answer) -> None:
        """Raise what keeps the server from giving the trace, if it is not that it has none."""
        if answer.status in (404, 204):
            return
        if answer.status in (413, 422):
            raise SourceFault(
                FaultKind.TOO_LARGE, f"{self.endpoint}: larger than the server's max_bytes_per_trace lets it give"
            )
        raise self._refused("/api/traces/{id}", answer, "is `endpoint` the query frontend?")

    def _refused(self, path: str, answer: Answer, hint: str) -> SourceFault:
        return SourceFault(FaultKind.REFUSED, f"{self.endpoint}{path}: answered {answer.status}: {hint}")


def _hit(found: dict[str, Any]) -> Hit:
    """A search result; duration and counts of spans change as more of the trace comes in."""
    sets = found.get("spanSets") or ([found["spanSet"]] if found.get("spanSet") else [])
    matched = sum(int(one.get("matched") or 0) for one in sets if isinstance(one, dict))
    stats = found.get("serviceStats")
    spans = sum(int(one.get("spanCount") or 0) for one in stats.values()) if isinstance(stats, dict) else 0
    fingerprint = (
        f"{found.get('startTimeUnixNano')}/{found.get('durationMs')}/{matched}/{spans}/{found.get('rootTraceName')}"
    )
    return Hit(padded(found["traceID"]), fingerprint)


def _second(body: bytes) -> Fetched | None:
    """TraceByIDResponse of tempopb: its field 1 is a list of ResourceSpans, as an export request is."""
    trace, status = b"", 0
    for number, value in fields(body):
        if number == _TRACE and isinstance(value, bytes):
            trace += value
        elif number == _STATUS and isinstance(value, int):
            status = value
    return Fetched(trace, partial=status == _PARTIAL) if trace else None
