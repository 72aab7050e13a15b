"""`kill -9` in the middle of intake and of judging: what was acknowledged is there afterwards, and judged exactly once."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

from tests.support.agents import provider, run_agent
from tests.support.daemon import Daemon, wait_for
from tests.support.judge_server import JudgeServer, judge_server

ROUNDS = int(os.environ.get("RUBRICD_KILL_ROUNDS", "4"))
"""Kills in one run of the test; `make torture` sets more."""


@pytest.fixture
def judge() -> Iterator[JudgeServer]:
    """A judge slow enough to be caught in the middle of a call."""
    with judge_server(latency=0.15) as server:
        yield server


class Sender:
    """Sends agent runs until stopped; remembers the traces of which every request was acknowledged."""

    def __init__(self, daemon: Daemon) -> None:
        self.acknowledged: set[str] = set()
        self._daemon = daemon
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._send)

    def __enter__(self) -> Sender:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(30)

    def _send(self) -> None:
        from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

        real = OTLPSpanExporter(endpoint=f"http://127.0.0.1:{self._daemon.http_port}/v1/traces", timeout=1)
        results: list[bool] = []

        class Watched(SpanExporter):
            def export(self, spans: Any) -> SpanExportResult:
                result = real.export(spans)
                results.append(result is SpanExportResult.SUCCESS)
                return result

        tracers = provider(Watched())
        while not self._stop.is_set():
            results.clear()
            trace_id = run_agent(tracers, "shop-bot", "A table, please.", "Done.")
            if results and all(results):
                self.acknowledged.add(trace_id)
        real.shutdown()


def configuration(judge: JudgeServer) -> dict[str, Any]:
    """One deterministic and one judged rubric, every second, without a cap."""
    return {
        "judges": {"default": {"model": "judge-model", "base_url": judge.url, "max_concurrency": 64}},
        "rubrics": [{"name": "polite", "statement": "The answer never blames the user."}],
        "monitors": {
            "all": {
                "rubrics": ["run_succeeded", "polite"],
                "sample": {"rate": 1.0, "max_per_hour": 10_000_000},
                "schedule": {"every": "1s"},
            }
        },
    }


def test_nothing_acknowledged_is_lost_and_each_is_judged_once(tmp_path: Path, judge: JudgeServer) -> None:
    """Through several kills during intake and judging: every acknowledged trace has one invocation and one verdict per rubric, and the counters agree."""
    daemon = Daemon(tmp_path, configuration(judge))
    acknowledged: set[str] = set()
    for number in range(ROUNDS):
        daemon.start()
        with Sender(daemon) as sender:
            wanted = 3 + 4 * (number % 8)
            wait_for(lambda: len(sender.acknowledged) >= wanted, "acknowledged runs")  # noqa: B023
            if number % 2:
                before = judge.count
                wait_for(lambda: judge.count > before, "a judge call under way")  # noqa: B023
            daemon.kill()
        acknowledged |= sender.acknowledged
    daemon.start()
    try:
        wait_for(
            lambda: acknowledged <= {one["trace_id"] for one in daemon.items("/api/v1/invocations?since=1h")},
            "all invocations",
        )
        invocations = daemon.items("/api/v1/invocations?since=1h")
        assert len({one["trace_id"] for one in invocations}) == len(invocations)

        def all_judged() -> bool:
            return len(daemon.items("/api/v1/verdicts?since=1h")) == 2 * len(invocations)

        wait_for(all_judged, "all verdicts", 90)
        keys = [(one["invocation_id"], one["rubric"]) for one in daemon.items("/api/v1/verdicts?since=1h")]
        assert len(set(keys)) == len(keys)
        wait_for(
            lambda: daemon.metric("rubricd_verdicts_total") == len(keys), "the counters to agree with the verdicts"
        )
        assert daemon.metric("rubricd_invocations_total") == len(invocations)
        assert len(acknowledged) > 20
    finally:
        daemon.stop()
