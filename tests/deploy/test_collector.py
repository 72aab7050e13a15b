"""The recipe's exporter settings in a real Collector: Jaeger 2 is one, with fewer components."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter

from tests.operations.running import configuration
from tests.support.agents import provider, run_agent
from tests.support.daemon import Daemon, free_port, wait_for

RECIPE = Path(__file__).resolve().parents[2] / "deploy" / "collector" / "agents-to-rubricd.yaml"


def reduced(grpc_port: int, http_port: int) -> dict[str, Any]:
    """The recipe without what Jaeger's build lacks (extensions, the sampler, the second backend) and without TLS."""
    recipe: dict[str, Any] = yaml.safe_load(RECIPE.read_text())
    recipe["extensions"] = {}
    recipe["service"]["extensions"] = []
    recipe["service"]["telemetry"] = {"metrics": {"level": "none"}}
    recipe["service"]["pipelines"] = {"traces/rubricd": recipe["service"]["pipelines"]["traces/rubricd"]}
    del recipe["processors"]["probabilistic_sampler/backend"], recipe["exporters"]["otlp/backend"]
    exporter = recipe["exporters"]["otlp/rubricd"]
    del exporter["auth"], exporter["sending_queue"]["storage"]
    exporter["tls"] = {"insecure": True}
    protocols = recipe["receivers"]["otlp"]["protocols"]
    protocols["grpc"]["endpoint"], protocols["http"]["endpoint"] = f"127.0.0.1:{grpc_port}", f"127.0.0.1:{http_port}"
    return recipe


@pytest.fixture
def program() -> str:
    """Jaeger 2, where it is installed."""
    found = shutil.which("jaeger")
    if found is None:
        pytest.skip("jaeger (version 2) is not on the PATH: the recipe's settings are not tried in a real Collector")
    return found


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    """A daemon that is not started yet."""
    made = Daemon(tmp_path, configuration())
    yield made
    if made.process is not None and made.process.poll() is None:
        made.kill()


@pytest.mark.service
def test_the_recipe_carries_traces_over_an_outage(program: str, daemon: Daemon, tmp_path: Path) -> None:
    """Agents send to a Collector with the recipe's settings while rubricd is down: it queues, tries again, and all is judged once rubricd is up."""
    grpc_port, http_port = free_port(), free_port()
    (tmp_path / "collector.yaml").write_text(yaml.safe_dump(reduced(grpc_port, http_port)))
    environment = {**os.environ, "RUBRICD_ENDPOINT": f"127.0.0.1:{daemon.grpc_port}"}
    with (tmp_path / "collector.log").open("wb") as log:
        process = subprocess.Popen(
            [program, "--config", str(tmp_path / "collector.yaml")], stdout=log, stderr=log, env=environment
        )
    try:
        tracers = provider(OTLPSpanExporter(endpoint=f"127.0.0.1:{grpc_port}", insecure=True))
        ids = {run_agent(tracers, "shop-bot", "A table.", "Done.") for _ in range(3)}
        tracers.shutdown()
        daemon.start()
        wait_for(
            lambda: {one["trace_id"] for one in daemon.items("/api/v1/verdicts?since=1h")} == ids,
            f"all runs to be judged; the Collector's log: {(tmp_path / 'collector.log').read_text()[-1500:]}",
            60,
        )
    finally:
        process.kill()
        process.wait(10)
    assert daemon.stop() == 0
