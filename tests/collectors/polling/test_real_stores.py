"""The pollers against real trace stores, where their programs are installed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from collectors.catalogue import build_collector, parse_config
from collectors.collector import Collector, ReadsHistory
from monitor.clock import ManualClock, SystemClock
from tests.support import trace_stores
from tests.support.polled import CountingMeter, DyingCursors, SpansByTrace, SpanSinkByTrace
from tests.support.trace_stores import TraceStore
from tests.support.trace_world import TraceWorld, expected, invocations, protobuf

pytestmark = pytest.mark.service

LOST = {"phoenix": ("environment", "service", "completeness", "convention")}
"""Phoenix keeps no resource, and gives GenAI spans OpenInference attributes besides."""
INSTALL = {
    "jaeger": "go build ./cmd/jaeger of github.com/jaegertracing/jaeger, or its release",
    "tempo": "go build ./cmd/tempo of github.com/grafana/tempo, or its release",
    "phoenix": "pip install arize-phoenix, in an environment of its own",
}


def same(kind: str, found: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{key: value for key, value in one.items() if key not in LOST.get(kind, ())} for one in found]


@pytest.mark.parametrize(
    ("kind", "options"), [("jaeger", {}), ("jaeger", {"api": "legacy"}), ("tempo", {}), ("phoenix", {})]
)
async def test_traces_that_come_in_two_pieces_are_reconstructed_as_by_otlp(
    kind: str, options: dict[str, Any], tmp_path: Path, optional_program: Callable[[str, str], str]
) -> None:
    """Thirty runs, the roots sent after the children were polled: each whole, and as the OTLP receiver gives it."""
    store: TraceStore = await asyncio.to_thread(
        getattr(trace_stores, kind), optional_program(kind, INSTALL[kind]), tmp_path
    )
    clock, sink = SystemClock(), SpanSinkByTrace()
    world = TraceWorld(ManualClock(round(clock.now()) - 60.0), 30, 40, 0)
    config = parse_config(kind, {"endpoint": store.url, "interval": "1s", "requests_per_second": 200, **options})
    poller = build_collector(kind, config, sink, CountingMeter(), clock=clock, cursors=DyingCursors())
    try:
        for trace in world.traces.values():
            await asyncio.to_thread(store.send, protobuf(trace.spans[1:]))
        await poller.start()
        await until(lambda: len(sink.spans) == 30, lambda: poller.problem)
        for trace in world.traces.values():
            await asyncio.to_thread(store.send, protobuf(trace.spans[:1]))
        await until(
            lambda: all(len(ids) == 2 for ids in sink.ids.values()),
            lambda: poller.problem,
        )
        assert poller.problem is None
        await check_history(poller, sink, world, kind)
        for trace_id, trace in world.traces.items():
            assert same(kind, invocations(sink.spans.of(trace_id))) == same(kind, expected(trace))
    finally:
        await poller.stop()
        store.stop()


async def check_history(poller: Collector, sink: SpanSinkByTrace, world: TraceWorld, kind: str) -> None:
    """The time of the world, read again for a backfill: the same traces under the name asked for."""
    assert isinstance(poller, ReadsHistory)
    assert poller.history is not None
    polled, sink.spans, sink.ids = sink.spans, SpansByTrace(), {}
    end = world.end + 60
    for deliver_as in (None, "again"):
        at, traces = world.begin - 60, 0
        while at < end:
            stretch = await poller.history.read(at, end, deliver_as)
            at, traces = stretch.until, traces + stretch.traces
        assert traces == len(world.traces)
    assert "again" in sink.collectors
    for trace_id, trace in world.traces.items():
        assert same(kind, invocations(sink.spans.of(trace_id))) == same(kind, expected(trace))
    sink.spans = polled


async def until(condition: Callable[[], bool], problem: Callable[[], str | None]) -> None:
    deadline = time.monotonic() + 90
    while not condition():
        assert time.monotonic() < deadline, problem()
        await asyncio.sleep(0.1)
