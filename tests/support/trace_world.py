"""Traces as stores come to see them: spans that become visible some time after they ended, in no order."""

from __future__ import annotations

import json
import random
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from collectors.otlp.otlp_json import convert
from collectors.otlp.request import decode
from collectors.sink import Signal
from collectors.span import Span
from monitor.assembly import AssemblyContext, assemble
from monitor.assembly.deduplicate import unique_spans
from monitor.clock import Clock
from monitor.model.invocation import SettledBy
from monitor.model.wire import invocation_json

SERVICE = "desk"
RESOURCE = {
    "attributes": [
        {"key": "service.name", "value": {"stringValue": SERVICE}},
        {"key": "deployment.environment.name", "value": {"stringValue": "test"}},
    ]
}
SCOPE = {"name": "agent.sdk", "version": "1.2"}


@dataclass(frozen=True, slots=True)
class WorldSpan:
    """A span as OTLP/JSON, with its times in seconds and when the store shows it."""

    trace_id: str
    document: dict[str, Any]
    start: float
    end: float
    visible_at: float
    row: int = 0


@dataclass(slots=True)
class WorldTrace:
    """All spans of a trace."""

    trace_id: str
    spans: list[WorldSpan]
    service: str = SERVICE

    def shown(self, now: float) -> list[WorldSpan]:
        """The spans that a store shows by then."""
        return [span for span in self.spans if span.visible_at <= now]

    @property
    def start(self) -> float:
        """The earliest start."""
        return min(span.start for span in self.spans)


def document(spans: Sequence[WorldSpan]) -> dict[str, Any]:
    """Spans as an OTLP/JSON export request."""
    inner = [{"scope": SCOPE, "spans": [span.document for span in spans]}]
    return {"resourceSpans": [{"resource": RESOURCE, "scopeSpans": inner}]}


def protobuf(spans: Sequence[WorldSpan]) -> bytes:
    """The same in protobuf."""
    return convert(document(spans), Signal.TRACES).body


class TraceWorld:
    """`count` agent runs that begin within `spread` seconds from `clock`'s now on; each span is shown up to `delay` seconds after its end."""

    def __init__(self, clock: Clock, count: int, spread: float, delay: float, seed: int = 7) -> None:
        self.clock = clock
        self.begin = clock.now()
        self.traces = {trace.trace_id: trace for trace in _runs(self.begin, count, spread, delay, seed)}
        self.spans = sorted((span for trace in self.traces.values() for span in trace.spans), key=lambda one: one.start)
        self._starts = [span.start for span in self.spans]
        self.end = max(span.visible_at for span in self.spans)

    def started_in(self, start: float, end: float) -> Iterator[WorldSpan]:
        """Visible spans that began in [start, end]."""
        now = self.clock.now()
        for span in self.spans[bisect_left(self._starts, start) : bisect_right(self._starts, end)]:
            if span.visible_at <= now:
                yield span

    def shown(self, trace_id: str) -> list[WorldSpan]:
        """The visible spans of a trace."""
        trace = self.traces.get(trace_id)
        return trace.shown(self.clock.now()) if trace else []

    def by_visibility(self) -> list[WorldSpan]:
        """All spans in the order in which they become visible."""
        return sorted((span for trace in self.traces.values() for span in trace.spans), key=lambda one: one.visible_at)


@lru_cache(maxsize=1)
def _runs(begin: float, count: int, spread: float, delay: float, seed: int) -> tuple[WorldTrace, ...]:
    chance = random.Random(seed)
    return tuple(_run(chance, begin, spread, delay, n) for n in range(count))


def _run(chance: random.Random, begin: float, spread: float, delay: float, number: int) -> WorldTrace:
    trace_id = f"{chance.getrandbits(120):032x}"  # with zeros in front, which some stores leave out
    start = round(begin + chance.uniform(0, spread), 3)
    took = round(chance.uniform(0.5, 20), 3)
    root, tool = f"{chance.getrandbits(63) + 1:016x}", f"{chance.getrandbits(63) + 1:016x}"
    question, answer = f"question {number}", f"answer {number}"
    attributes = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "booker",
        "gen_ai.input.messages": _message("user", question),
        "gen_ai.output.messages": _message("assistant", answer),
    }
    called = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "lookup",
        "gen_ai.tool.call.id": f"call-{number}",
        "gen_ai.tool.call.arguments": json.dumps({"n": number}),
        "gen_ai.tool.call.result": json.dumps({"found": number}),
    }
    spans = [
        _span(trace_id, root, "", "invoke_agent booker", start, start + took, attributes, 1),
        _span(trace_id, tool, root, "execute_tool lookup", start + took / 4, start + took / 2, called, 1),
    ]
    shown = [
        WorldSpan(trace_id, one, s, e, e + chance.uniform(0, delay), number * 2 + n + 1)
        for n, (one, s, e) in enumerate(spans)
    ]
    return WorldTrace(trace_id, shown)


def _message(role: str, text: str) -> str:
    return json.dumps([{"role": role, "parts": [{"type": "text", "content": text}]}])


def _span(
    trace_id: str, span_id: str, parent: str, name: str, start: float, end: float, attributes: dict[str, Any], kind: int
) -> tuple[dict[str, Any], float, float]:
    micros = [int(moment * 1e6) for moment in (start, end)]  # the coarsest store keeps microseconds
    found = {
        "traceId": trace_id,
        "spanId": span_id,
        "parentSpanId": parent,
        "name": name,
        "kind": kind,
        "startTimeUnixNano": str(micros[0] * 1000),
        "endTimeUnixNano": str(micros[1] * 1000),
        "attributes": [{"key": key, "value": {"stringValue": value}} for key, value in attributes.items()],
        "status": {},
    }
    return found, micros[0] / 1e6, micros[1] / 1e6


def invocations(spans: Sequence[Span]) -> list[dict[str, Any]]:
    """What assembly makes of the spans of one trace, as JSON without the name of the collector."""
    found = assemble(unique_spans(spans), [], AssemblyContext(SettledBy.ROOT_ENDED, "otlp", (), 0))
    return [invocation_json(one.invocation) for one in found]


def expected(trace: WorldTrace) -> list[dict[str, Any]]:
    """What the OTLP receiver gives for the whole trace."""
    return invocations(decode(protobuf(trace.spans), Signal.TRACES).spans)
