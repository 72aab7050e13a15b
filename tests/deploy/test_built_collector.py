"""A real OpenTelemetry Collector, built from deploy/collector/builder.yaml: it takes the recipes, and carries traces over a restart of rubricd."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.operations.running import configuration
from tests.support.daemon import Daemon, free_port, wait_for
from tests.support.load import GrpcPoster, HttpPoster, agent_run

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
INSTALL = "bash deploy/collector/build.sh"
ENVIRONMENT = {"RUBRICD_ENDPOINT": "localhost:4317", "TRACES_ENDPOINT": "localhost:4317", "RUBRICD_TOKEN": "token"}


@pytest.fixture(scope="module")
def collector(optional_program: Callable[[str, str], str]) -> str:
    """The Collector's program."""
    return optional_program("otelcol-rubricd", INSTALL)


@pytest.mark.service
@pytest.mark.parametrize("recipe", ["collector/agents-to-rubricd.yaml", "compose/collector.yaml"])
def test_the_recipes_are_valid(collector: str, recipe: str) -> None:
    """The Collector's own check knows every key of the shipped configurations."""
    command = [collector, "validate", "--config", str(DEPLOY / recipe)]
    done = subprocess.run(
        command, env={**os.environ, **ENVIRONMENT}, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr


def two_ways(daemon: Daemon, ports: dict[str, int]) -> dict[str, Any]:
    """Agents come in by two ports, one goes on over gRPC and one over HTTP, both with the recipe's queue and retry."""
    recipe: dict[str, Any] = yaml.safe_load((DEPLOY / "collector" / "agents-to-rubricd.yaml").read_text())
    shipped = recipe["exporters"]["otlp/rubricd"]
    queue = {key: value for key, value in shipped["sending_queue"].items() if key != "storage"}
    queue["batch"] = {"sizer": "bytes", "flush_timeout": "50ms", "min_size": 20_000, "max_size": 200_000}
    again = {**shipped["retry_on_failure"], "initial_interval": "200ms", "max_interval": "1s"}
    sending = {"compression": "gzip", "sending_queue": queue, "retry_on_failure": again}
    receive = {name: {"protocols": {name: {"endpoint": f"127.0.0.1:{port}"}}} for name, port in ports.items()}
    return {
        "receivers": {"otlp/grpc": receive["grpc"], "otlp/http": receive["http"]},
        "processors": {"batch": {"timeout": "100ms"}},
        "exporters": {
            "otlp": {"endpoint": f"127.0.0.1:{daemon.grpc_port}", "tls": {"insecure": True}, **sending},
            "otlphttp": {"endpoint": f"http://127.0.0.1:{daemon.http_port}", **sending},
        },
        "service": {
            "telemetry": {"metrics": {"level": "none"}},
            "pipelines": {
                "traces/grpc": {"receivers": ["otlp/grpc"], "processors": ["batch"], "exporters": ["otlp"]},
                "traces/http": {"receivers": ["otlp/http"], "processors": ["batch"], "exporters": ["otlphttp"]},
            },
        },
    }


def configured() -> dict[str, Any]:
    """Ticks that a restart holds up are caught up with."""
    made = configuration()
    made["monitors"]["bookings"]["schedule"]["catch_up"] = 60
    return made


def answers(port: int) -> bool:
    """Whether OTLP/HTTP is served there."""
    poster = HttpPoster(port)
    try:
        return poster.post(b"")
    finally:
        poster.close()


@contextmanager
def running(program: str, settings: dict[str, Any], folder: Path, port: int) -> Iterator[None]:
    """The Collector with these settings, until the end of the block."""
    (folder / "collector.yaml").write_text(yaml.safe_dump(settings))
    with (folder / "collector.log").open("wb") as log:
        process = subprocess.Popen([program, "--config", str(folder / "collector.yaml")], stdout=log, stderr=log)
    try:
        wait_for(lambda: answers(port), f"the Collector: {(folder / 'collector.log').read_text()[-1500:]}")
        yield
    finally:
        process.kill()
        process.wait(10)


@pytest.mark.service
def test_a_restart_behind_a_collector_loses_and_doubles_nothing(collector: str, tmp_path: Path) -> None:
    """Agents → Collector → rubricd over gRPC and HTTP: rubricd is killed and is away while runs come in; each run is there once, whole, and judged once."""
    daemon = Daemon(tmp_path, configured()).start()
    ports = {"grpc": free_port(), "http": free_port()}
    ids: set[str] = set()
    try:
        with running(collector, two_ways(daemon, ports), tmp_path, ports["http"]):
            posters = HttpPoster(ports["http"]), GrpcPoster(ports["grpc"])

            def send() -> None:
                for number in range(20):
                    run = agent_run(split=number % 2 == 0)
                    for body in run.requests:
                        assert posters[number % 4 // 2].post(body)
                    ids.add(run.trace_id)

            send()
            daemon.kill()
            send()
            daemon.start()
            send()
            wait_for(
                lambda: {one["trace_id"] for one in daemon.items("/api/v1/invocations?since=1h")} >= ids,
                f"all runs; the Collector's log: {(tmp_path / 'collector.log').read_text()[-1500:]}",
                60,
            )
            for poster in posters:
                poster.close()
        wait_for(lambda: len(daemon.items("/api/v1/verdicts?since=1h")) >= len(ids), "all verdicts", 60)
        found = daemon.items("/api/v1/invocations?since=1h")
        assert {one["trace_id"]: len(one["tool_calls"]) for one in found} == dict.fromkeys(ids, 2)
        assert len(found) == len(daemon.items("/api/v1/verdicts?since=1h")) == len(ids)
        wait_for(lambda: daemon.metric("rubricd_verdicts_total") == len(ids), "the counters to agree")
    finally:
        daemon.stop()
