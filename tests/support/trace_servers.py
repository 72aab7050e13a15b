"""Small trace stores that speak the documented APIs, faults included. Each answers `(path, parameters)`; how it is reached is the tests' matter."""

from __future__ import annotations

import base64
import json
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from aiohttp import web

from collectors.polling.backoff import Random
from collectors.polling.clock import PollClock
from collectors.polling.config import HttpConfig
from collectors.polling.http import Answer, HttpSource, Parameters
from tests.support.trace_world import RESOURCE, SCOPE, SERVICE, TraceWorld, WorldSpan, protobuf


@dataclass(frozen=True, slots=True)
class Reply:
    """An HTTP answer."""

    body: bytes
    status: int = 200
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)


def as_json(value: Any, status: int = 200) -> Reply:
    """A JSON answer."""
    return Reply(json.dumps(value).encode(), status)


class FakeServer:
    """A store over a TraceWorld. `faults` are given instead of answers, first come first served; `requests` counts paths."""

    def __init__(self, world: TraceWorld, seed: int = 3) -> None:
        self.world = world
        self.chance = random.Random(seed)
        self.faults: list[Reply] = []
        self.fault_for: Callable[[str, Mapping[str, str]], Reply | None] = lambda path, parameters: None
        self.requests: Counter[str] = Counter()
        self._texts: dict[int, str] = {}
        self.before: Callable[[str], None] = lambda path: None

    def handle(self, path: str, parameters: Parameters) -> Reply:
        """Answer one request."""
        self.before(path)
        self.requests["/".join(part for part in path.split("/") if len(part) < 16)] += 1
        given = dict(parameters)
        fault = self.fault_for(path, given)
        if fault is not None:
            return fault
        if self.faults:
            return self.faults.pop(0)
        return self.answer(path, given)

    def answer(self, path: str, given: Mapping[str, str]) -> Reply:
        """The store's own answer."""
        raise NotImplementedError

    def listed(self, key: str, rows: Sequence[WorldSpan], write: Callable[[WorldSpan], Any], **more: Any) -> Reply:
        """`{key: rows, …more}`, each row written once for all requests."""
        for span in rows:
            if span.row not in self._texts:
                self._texts[span.row] = json.dumps(write(span))
        inner = ",".join(self._texts[span.row] for span in rows)
        return Reply(f'{{"{key}": [{inner}], {json.dumps(more)[1:]}'.encode())


class FakeTempo(FakeServer):
    """Tempo 2: search in no order up to a limit, traces by id in protobuf. `partial` traces are given with that status."""

    v2 = True
    most = 100_000

    def __init__(self, world: TraceWorld, seed: int = 3) -> None:
        super().__init__(world, seed)
        self.partial: set[str] = set()
        self._bodies: dict[tuple[str, int], bytes] = {}

    def answer(self, path: str, given: Mapping[str, str]) -> Reply:
        """`/api/search`, `/api/v2/traces/{id}`, `/api/traces/{id}`."""
        if path == "/api/search":
            return self._search(given)
        kind, _, trace_id = path.rpartition("/")
        spans = self.world.shown(trace_id)
        if not spans or (kind == "/api/v2/traces" and not self.v2):
            return Reply(b"not found", 404, "text/plain")
        body = self._bodies.setdefault((trace_id, len(spans)), protobuf(self.chance.sample(spans, len(spans))))
        if kind == "/api/traces":
            return Reply(body, content_type="application/protobuf")
        status = b"\x18\x01" if trace_id in self.partial else b""
        return Reply(b"\x0a" + _varint(len(body)) + body + status, content_type="application/protobuf")

    def _search(self, given: Mapping[str, str]) -> Reply:
        limit = int(given["limit"])
        if limit > self.most:
            return Reply(b"limit exceeds max", 400, "text/plain")
        counts: Counter[str] = Counter()
        for span in self.world.started_in(float(given["start"]), float(given["end"])):
            counts[span.trace_id] += 1
        found = list(counts.items())
        self.chance.shuffle(found)
        traces = [
            {"traceID": trace_id.lstrip("0"), "durationMs": 5, "spanSets": [{"matched": count}]}
            for trace_id, count in found[:limit]
        ]
        return as_json({"traces": traces, "metrics": {}})


class FakeJaeger(FakeServer):
    """Jaeger: version 3 (`v3`), or only the older API. Search gives whole traces, in no order, up to a limit."""

    v3 = True

    def answer(self, path: str, given: Mapping[str, str]) -> Reply:
        """Services, search, traces by id."""
        if path.startswith("/api/v3") and not self.v3:
            return Reply(b"<html>", 200, "text/html")
        if path == "/api/v3/services":
            return as_json({"services": [SERVICE, "web"]})
        if path == "/api/services":
            return as_json({"data": [SERVICE, "web"]})
        if path == "/api/v3/traces":
            start, end = (_seconds(given[f"query.start_time_{edge}"]) for edge in ("min", "max"))
            found = self._found(start, end, int(given["query.num_traces"]), given["query.service_name"])
        elif path == "/api/traces":
            start, end = (int(given[edge]) / 1e6 for edge in ("start", "end"))
            found = self._found(start, end, int(given["limit"]), given["service"])
        else:
            found = [self.world.shown(path.rpartition("/")[2])]
        return self._third(found) if path.startswith("/api/v3") else self._older(found)

    def _found(self, start: float, end: float, limit: int, service: str) -> list[list[WorldSpan]]:
        if service != SERVICE:
            return []
        ids = sorted({span.trace_id for span in self.world.started_in(start, end)})
        self.chance.shuffle(ids)
        return [self.world.shown(trace_id) for trace_id in ids[:limit]]

    def _third(self, found: Sequence[Sequence[WorldSpan]]) -> Reply:
        spans = [span for trace in found for span in trace]
        if not spans:
            return as_json({"error": {"httpCode": 404, "message": "No traces found"}}, 404)
        self.chance.shuffle(spans)
        half = len(spans) // 2
        parts = [self._result(part) for part in (spans[:half], spans[half:]) if part]
        return Reply("\n".join(parts).encode())

    def _result(self, spans: Sequence[WorldSpan]) -> str:
        """`{"result": document(spans)}`, each span written once."""
        inner = self.listed("spans", spans, lambda span: span.document, scope=SCOPE).body.decode()
        return f'{{"result": {{"resourceSpans": [{{"resource": {json.dumps(RESOURCE)}, "scopeSpans": [{inner}]}}]}}}}'

    def _older(self, found: Sequence[Sequence[WorldSpan]]) -> Reply:
        data = [_jaeger(trace) for trace in found if trace]
        return as_json({"data": data}) if data else as_json({"data": [], "errors": []}, 404 if found else 200)


class FakePhoenix(FakeServer):
    """Phoenix: spans by the order of insertion, which is that of visibility here, with an inclusive cursor."""

    def __init__(self, world: TraceWorld, seed: int = 3) -> None:
        super().__init__(world, seed)
        self.rows = list(enumerate(world.by_visibility(), 1))
        self.hidden: set[int] = set()
        """Rows whose transaction has not been committed."""

    def answer(self, path: str, given: Mapping[str, str]) -> Reply:
        """`/v1/projects/{project}/spans`."""
        if path != "/v1/projects/default/spans":
            return as_json({"detail": "not found"}, 404)
        now, limit = self.world.clock.now(), int(given["limit"])
        first = int(base64.b64decode(given["cursor"]).decode().rpartition(":")[2]) if "cursor" in given else 0
        since = _seconds(given["start_time"]) if "start_time" in given else 0.0
        until = _seconds(given["end_time"]) if "end_time" in given else 1e12
        found = []
        for row, span in self.rows[max(0, first - 1) :]:
            if span.visible_at > now or len(found) > limit:
                break
            if row not in self.hidden and since <= span.start < until:
                found.append((row, span))
        following = _global_id(found[limit][0]) if len(found) > limit else None
        rows = {id(span): row for row, span in found}
        return self.listed(
            "data",
            [span for _, span in found[:limit]],
            lambda span: _phoenix(rows[id(span)], span),
            next_cursor=following,
        )


class FakeLangfuse(FakeServer):
    """Langfuse: observations in pages with a cursor (`v2`), or numbered pages. Its spans came by OpenTelemetry."""

    v2 = True
    page = 100

    def answer(self, path: str, given: Mapping[str, str]) -> Reply:
        """Observations and traces."""
        if path.startswith("/api/public/traces/"):
            return as_json({"id": path.rpartition("/")[2], "input": None, "output": None})
        if path == "/api/public/v2/observations" and not self.v2:
            return as_json({"message": "not found"}, 404)
        rows = self._rows(given)
        if path == "/api/public/v2/observations":
            start = int(given.get("cursor", "0"))
            end = start + min(self.page, int(given["limit"]))
            meta = {"cursor": str(end)} if end < len(rows) else {}
        else:
            start, end = (int(given["page"]) - 1) * int(given["limit"]), int(given["page"]) * int(given["limit"])
            meta = {"totalPages": -(-len(rows) // int(given["limit"]))}
        return self.listed("data", rows[start:end], _langfuse, meta=meta)

    def _rows(self, given: Mapping[str, str]) -> list[WorldSpan]:
        if "traceId" in given:
            return self.world.shown(given["traceId"])
        return list(self.world.started_in(_seconds(given["fromStartTime"]), _seconds(given["toStartTime"])))


def connected(server: FakeServer) -> Callable[[HttpConfig, PollClock, Random], HttpSource]:
    """An HTTP side without sockets: all of HttpSource but the network."""

    class Direct(HttpSource):
        async def open(self) -> None:
            """Nothing to open."""

        async def _ask(self, path: str, parameters: Parameters, accept: str) -> Answer:
            reply = server.handle(path, parameters)
            if reply.status not in (200, 400, 404, 405, 413, 422):
                raise self._refusal(path, reply.status, reply.headers)
            return Answer(reply.status, reply.body, reply.content_type)

    return Direct


async def serve(server: FakeServer, **site: Any) -> tuple[web.AppRunner, str]:
    """The server on a free port of loopback; the runner to clean up, and its URL."""

    async def handler(request: web.Request) -> web.StreamResponse:
        reply = server.handle(request.path, list(request.query.items()))
        return web.Response(
            body=reply.body, status=reply.status, content_type=reply.content_type, headers=dict(reply.headers)
        )

    app = web.Application()
    app.router.add_get("/{path:.*}", handler)
    runner = web.AppRunner(app)
    await runner.setup()
    listening = web.TCPSite(runner, "127.0.0.1", 0, **site)
    await listening.start()
    port = runner.addresses[0][1]
    return runner, f"{'https' if site.get('ssl_context') else 'http'}://127.0.0.1:{port}"


def _varint(number: int) -> bytes:
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def _seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def _iso(nanos: str) -> str:
    return datetime.fromtimestamp(0, UTC).isoformat() if nanos == "0" else _exact(int(nanos))


def _exact(nanos: int) -> str:
    whole, micros = divmod(nanos // 1000, 10**6)
    return datetime.fromtimestamp(whole, UTC).replace(microsecond=micros).isoformat()


def _values(span: WorldSpan) -> dict[str, str]:
    return {one["key"]: one["value"]["stringValue"] for one in span.document["attributes"]}


def _jaeger(trace: Sequence[WorldSpan]) -> dict[str, Any]:
    spans = []
    for span in trace:
        one = span.document
        tags = [{"key": key, "type": "string", "value": value} for key, value in _values(span).items()]
        tags += [
            {"key": "span.kind", "type": "string", "value": "internal"},
            {"key": "otel.scope.name", "type": "string", "value": "agent.sdk"},
            {"key": "otel.scope.version", "type": "string", "value": "1.2"},
        ]
        parent = {"refType": "CHILD_OF", "traceID": span.trace_id, "spanID": one["parentSpanId"]}
        spans.append(
            {
                "traceID": span.trace_id, "spanID": one["spanId"], "operationName": one["name"], "flags": 1,
                "references": [parent] if one["parentSpanId"] else [], "startTime": int(one["startTimeUnixNano"]) // 1000,
                "duration": (int(one["endTimeUnixNano"]) - int(one["startTimeUnixNano"])) // 1000, "tags": tags, "logs": [],
                "processID": "p1", "warnings": None,
            }
        )  # fmt: skip
    tags = [{"key": "deployment.environment.name", "type": "string", "value": "test"}]
    return {
        "traceID": trace[0].trace_id, "spans": spans, "warnings": None,
        "processes": {"p1": {"serviceName": SERVICE, "tags": tags}},
    }  # fmt: skip


def _global_id(row: int) -> str:
    return base64.b64encode(f"Span:{row}".encode()).decode()


def _phoenix(row: int, span: WorldSpan) -> dict[str, Any]:
    one = span.document
    return {
        "id": _global_id(row), "name": one["name"], "context": {"trace_id": span.trace_id, "span_id": one["spanId"]},
        "span_kind": "UNKNOWN", "parent_id": one["parentSpanId"] or None, "start_time": _iso(one["startTimeUnixNano"]),
        "end_time": _iso(one["endTimeUnixNano"]), "status_code": "UNSET", "status_message": "",
        "attributes": _values(span), "events": [],
    }  # fmt: skip


def _langfuse(span: WorldSpan) -> dict[str, Any]:
    one, values = span.document, _values(span)
    is_tool = values["gen_ai.operation.name"] == "execute_tool"
    resource = {"service.name": SERVICE, "deployment.environment.name": "test"}
    return {
        "id": one["spanId"], "traceId": span.trace_id, "parentObservationId": one["parentSpanId"] or None,
        "type": "TOOL" if is_tool else "AGENT", "name": one["name"], "startTime": _iso(one["startTimeUnixNano"]),
        "endTime": _iso(one["endTimeUnixNano"]), "level": "DEFAULT", "statusMessage": None, "environment": "default",
        "input": values.get("gen_ai.tool.call.arguments") or values.get("gen_ai.input.messages"),
        "output": values.get("gen_ai.tool.call.result") or values.get("gen_ai.output.messages"),
        "metadata": {"attributes": values, "resourceAttributes": resource, "scope": {"name": "agent.sdk", "version": "1.2"}},
    }  # fmt: skip
