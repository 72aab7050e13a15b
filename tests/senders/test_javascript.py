"""Agents that are written in JavaScript: the exporters of its OpenTelemetry SDK, HTTP with JSON and protobuf and gRPC, packed and not."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.operations.running import configuration
from tests.support.daemon import Daemon, wait_for

FOLDER = Path(__file__).parent / "javascript"
INSTALLED = Path(os.environ.get("RUBRICD_SENDERS", "/usr/local/lib/rubricd-senders"))


@pytest.mark.service
def test_every_exporter_of_javascript(tmp_path: Path, required_program: Callable[[str, str], str]) -> None:
    """Each exporter's runs arrive whole, with their texts, and are judged once."""
    install = "bash deploy/ci-tools.sh, which installs tests/senders/javascript"
    node = required_program("node", install)
    if not (INSTALLED / "node_modules").is_dir():
        if os.environ.get("RUBRICD_REQUIRE_SERVICES") == "1":
            pytest.fail(f"no exporters in {INSTALLED}: {install}")
        pytest.skip(f"no exporters in {INSTALLED}: {install}")
    daemon = Daemon(tmp_path, configuration()).start()
    try:
        command = [node, str(FOLDER / "send.mjs"), str(daemon.http_port), str(daemon.grpc_port), "2"]
        environment = {**os.environ, "RUBRICD_SENDERS": str(INSTALLED)}
        sent = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
        assert sent.returncode == 0, sent.stderr
        ids = json.loads(sent.stdout)
        assert len(set(ids)) == 12
        wait_for(lambda: len(daemon.items("/api/v1/verdicts?since=1h")) >= len(ids), "all verdicts")
        found: list[Mapping[str, Any]] = daemon.items("/api/v1/invocations?since=1h")
        assert {one["trace_id"] for one in found} == set(ids)
        for one in found:
            assert one["user_input"] == "Ein Tisch für zwei, bitte."
            (call,) = one["tool_calls"]
            assert (call["arguments"], call["result"], call["status"]) == ({"party_size": 2}, "gebucht ✓", "ok")
        assert len(daemon.items("/api/v1/verdicts?since=1h")) == len(ids)
        assert daemon.metric("rubricd_duplicate_spans_total") == 0
    finally:
        daemon.stop()
