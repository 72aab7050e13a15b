"""A daemon that polls: killed in the middle, every trace is one invocation; a source in trouble is seen and stops nothing; history is backfilled."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from monitor.clock import ManualClock, SystemClock
from tests.support.daemon import Daemon, free_port, wait_for
from tests.support.trace_servers import FakeTempo, serve
from tests.support.trace_world import TraceWorld, document, expected

COUNT = 60
EXPECTED = {"tool": "lookup", "schema": {"properties": {"n": {"minimum": 0}}}}
RUBRIC = {"name": "answered", "kind": "check", "expect": {"tool_arguments": EXPECTED}}


@contextmanager
def tempo(world: TraceWorld) -> Iterator[tuple[FakeTempo, str]]:
    """A Tempo on a thread of its own."""
    loop, server = asyncio.new_event_loop(), FakeTempo(world)
    runner, url = loop.run_until_complete(serve(server))
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield server, url
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.run_until_complete(runner.cleanup())
        loop.close()


def recent(count: int = COUNT) -> TraceWorld:
    """Runs of the last minutes, all visible."""
    world = TraceWorld(ManualClock(round(SystemClock().now()) - 240.0), count, 200.0, 0.0)
    world.clock = SystemClock()
    return world


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    """A daemon whose configuration the test writes."""
    made = Daemon(tmp_path, {})
    yield made
    if made.process is not None and made.process.poll() is None:
        made.kill()


def configuration(**collectors: Any) -> dict[str, Any]:
    return {"collectors": collectors, "monitors": {}}


def same(daemon: Daemon, world: TraceWorld) -> bool:
    """Whether every trace is stored, once, as the OTLP receiver gives it; fails when one is stored otherwise."""
    listed = daemon.items("/api/v1/invocations?since=1h")
    assert len(listed) == len({one["id"] for one in listed})
    if len(listed) < len(world.traces):
        return False
    for one in listed:
        (wanted,) = expected(world.traces[one["trace_id"]])
        keys = (
            "user_input",
            "final_response",
            "tool_calls",
            "started_at",
            "ended_at",
            "agent_name",
            "service",
            "environment",
        )
        assert {key: one[key] for key in keys} == {key: wanted[key] for key in keys}
        assert one["revision"] == 1
    return True


def test_killed_in_the_middle_of_polling_every_trace_is_one_invocation(daemon: Daemon) -> None:
    """`kill -9` while traces are fetched, twice: no trace is missing, none is stored twice or revised."""
    world = recent()
    with tempo(world) as (server, url):
        source = {"endpoint": url, "interval": "1s", "requests_per_second": 40, "max_results": 20}
        daemon.write(configuration(**{"tempo/test": source}))
        for share in (3, 2):
            daemon.start()
            before = server.requests["/api/v2/traces"]
            wait_for(
                lambda b=before, s=share: server.requests["/api/v2/traces"] > b + COUNT // s, "traces to be fetched"
            )
            daemon.kill()
        daemon.start()
        wait_for(lambda: same(daemon, world), "every trace to be stored", 60)
        assert daemon.metric("rubricd_collector_up", collector="tempo/test") == 1
        wait_for(lambda: daemon.metric("rubricd_invocations_total") == COUNT, "the killed process's lease to end", 60)
        lag = wait_for(lambda: daemon.metric("rubricd_poll_lag_seconds", collector="tempo/test"), "the lag")
        assert 0 < lag < 60
        assert daemon.stop() == 0


def test_a_source_in_trouble_is_seen_and_stops_no_other(daemon: Daemon, tmp_path: Path) -> None:
    """Nobody listens at one endpoint; files go on: ready, with the reason in all the places where people look."""
    world = recent(10)
    (tmp_path / "traces.json").write_text(
        "".join(json.dumps(document(trace.spans)) + "\n" for trace in world.traces.values()), encoding="utf-8"
    )
    daemon.write(
        configuration(
            **{
                "tempo/down": {"endpoint": f"http://127.0.0.1:{free_port()}", "interval": "1s"},
                "otlp_file": {"include": [str(tmp_path / "*.json")], "interval": "1s"},
            }
        )
    )
    daemon.start()
    wait_for(lambda: same(daemon, world), "the files' traces")
    wait_for(lambda: daemon.metric("rubricd_collector_up", collector="tempo/down") == 0, "the metric to say so")
    assert daemon.metric("rubricd_collector_up", collector="otlp_file") == 1
    assert daemon.status("/readyz") == 200
    assert "tempo/down" in json.dumps(daemon.get("/readyz"))
    (down,) = [one for one in daemon.items("/api/v1/collectors") if one["name"] == "tempo/down"]
    assert "cannot be reached" in down["problem"]
    assert "cannot be reached" in daemon.log


def rubricd(daemon: Daemon, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A command against the daemon."""
    return subprocess.run(
        [sys.executable, "-m", "monitor", *arguments, "--server", daemon.url],
        check=False, capture_output=True, text=True, timeout=60, cwd=Path(__file__).parents[2],
    )  # fmt: skip


def test_history_is_backfilled_by_the_command(daemon: Daemon, tmp_path: Path) -> None:
    """A monitor that came after the traces: previewed, scored, killed in the middle, and done once."""
    world = recent(40)
    (tmp_path / "traces.json").write_text(
        "".join(json.dumps(document(trace.spans)) + "\n" for trace in world.traces.values()), encoding="utf-8"
    )
    files = {"otlp_file": {"include": [str(tmp_path / "*.json")], "interval": "1s"}}
    daemon.write({**configuration(**files), "privacy": {"store_content": "all"}})
    daemon.start()
    wait_for(lambda: same(daemon, world), "the traces")
    monitor = {"rubrics": ["answered"], "sample": {"rate": 1.0}, "schedule": {"every": "1h"}}
    daemon.kill()
    daemon.write(
        {
            **configuration(**files),
            "privacy": {"store_content": "all"},
            "rubrics": [RUBRIC],
            "monitors": {"late": monitor},
        }
    )
    daemon.start()
    asked = ("backfill", "--monitor", "late", "--since", "1h")
    preview = rubricd(daemon, *asked, "--dry-run", "--json")
    assert (preview.returncode, json.loads(preview.stdout)["evaluations"]) == (0, 40), preview.stderr
    assert rubricd(daemon, *asked, "--no-wait").returncode == 0
    daemon.kill()
    daemon.start()
    wait_for(lambda: daemon.get("/api/v1/backfills")["items"][0]["status"] == "done", "the backfill to go on")
    verdicts = daemon.items("/api/v1/verdicts?since=1h")
    assert len(verdicts) == len({one["invocation_id"] for one in verdicts}) == 40
    again = rubricd(daemon, *asked)
    assert (again.returncode, "done: 0 judged" in again.stdout) == (0, True), again.stderr + again.stdout
    wrong = rubricd(daemon, "backfill", "--monitor", "lat", "--since", "1h")
    assert (wrong.returncode, "no monitor is called 'lat'" in wrong.stderr) == (2, True)


def test_polled_history_is_backfilled_by_the_command(daemon: Daemon) -> None:
    """Traces that were in the source before we polled it: counted, fetched and scored with `kill -9` while they are read; live runs leave them alone."""
    world = TraceWorld(ManualClock(round(SystemClock().now()) - 7200.0), COUNT, 3000.0, 0.0)
    world.clock = SystemClock()
    live = {"rubrics": ["answered"], "sample": {"rate": 1.0}, "schedule": {"every": "1s"}}
    with tempo(world) as (server, url):
        source = {"endpoint": url, "interval": "1s", "requests_per_second": 60, "lookback": "1s"}
        daemon.write({**configuration(**{"tempo/old": source}), "rubrics": [RUBRIC], "monitors": {"live": live}})
        daemon.start()
        asked = ("backfill", "--monitor", "live", "--since", "3h", "--until", "1h", "--collector", "tempo/old")
        preview = rubricd(daemon, *asked, "--dry-run", "--json")
        assert preview.returncode == 0, preview.stderr
        told = json.loads(preview.stdout)
        assert (told["traces"], told["estimate"]["evaluations"], told["judged"]) == (COUNT, COUNT, 0)
        assert not daemon.items("/api/v1/invocations?since=4h")
        begun = json.loads(rubricd(daemon, *asked, "--no-wait", "--json").stdout)
        before = server.requests["/api/v2/traces"]
        wait_for(lambda: server.requests["/api/v2/traces"] > before + COUNT // 3, "traces to be fetched")
        daemon.kill()
        daemon.start()

        def standing() -> Any:
            return next(one for one in daemon.get("/api/v1/backfills")["items"] if one["id"] == begun["id"])

        wait_for(lambda: standing()["status"] == "done", "the backfill to go on", 60)
        assert (standing()["judged"], standing()["left_out"]) == (COUNT, 0)
        verdicts = daemon.items("/api/v1/verdicts?since=4h")
        assert len(verdicts) == len({one["invocation_id"] for one in verdicts}) == COUNT
        considered = sum(one["considered"] for one in daemon.items("/api/v1/runs"))
        assert considered == 0
        wrong = rubricd(daemon, "backfill", "--monitor", "live", "--since", "3h", "--collector", "tempo/new")
        assert (wrong.returncode, "those that can are tempo/old" in wrong.stderr) == (2, True)
        assert daemon.stop() == 0
