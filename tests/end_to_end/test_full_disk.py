"""A real daemon on a small disk of its own: it fills up, and is freed again."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.operations.running import answered, configuration, send
from tests.support.daemon import Daemon, wait_for

JSON = {"Content-Type": "application/json"}


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    """A daemon whose data lie on a file system of 24 MB that only it sees."""
    unshare = shutil.which("unshare")
    if unshare is None:
        pytest.skip("unshare is not installed (package util-linux)")
    made = Daemon(tmp_path, configuration())
    data = tmp_path / "data"
    data.mkdir()
    alone = [unshare, "--mount", "--map-root-user", "sh", "-c"]
    mount = f"mount -t tmpfs -o size=24m tmpfs {data}"
    if subprocess.run([*alone, mount], capture_output=True, timeout=30, check=False).returncode:
        pytest.skip("this machine lets no process mount a file system of its own")
    made.command = [*alone, f'{mount} && exec {sys.executable} -m monitor "$@"', "sh"]
    yield made.start()
    if made.process is not None and made.process.poll() is None:
        made.kill()


def fill(file: Path) -> None:
    """Write until the disk is full."""
    with file.open("wb", buffering=0) as filler:
        try:
            while True:
                filler.write(bytes(65536))
        except OSError:
            return


def test_a_full_disk_is_told_and_got_over(daemon: Daemon) -> None:
    """While the disk is full nothing is acknowledged, and senders, /readyz, log and metric say why; once it is freed all goes on by itself and nothing acknowledged is missing."""
    assert daemon.process is not None
    filler = Path(f"/proc/{daemon.process.pid}/root{daemon.folder}/data/filler")
    ids = send(daemon, 3)
    fill(filler)
    status, headers, _ = answered(daemon.http_port, "POST", "/v1/traces", AGENT, JSON)
    assert (status, headers["retry-after"]) == (503, "3")
    status, _, body = answered(daemon.server_port, "GET", "/readyz")
    assert (status, json.loads(body)["status"]) == (503, "unwritable")
    assert "disk or quota is full" in json.loads(body)["detail"]
    assert daemon.metric("rubricd_journal_faults_total", kind="disk_full") == 1
    assert (daemon.metric("rubricd_spans_rejected_total", reason="overloaded") or 0) >= 1
    assert "disk or quota is full" in daemon.log
    filler.unlink()
    wait_for(lambda: daemon.status("/readyz") == 200, "the daemon to be ready again", 15)
    ids |= send(daemon, 3)
    wait_for(lambda: {one["trace_id"] for one in daemon.items("/api/v1/verdicts?since=1h")} == ids, "all verdicts")
    assert len(daemon.items("/api/v1/verdicts?since=1h")) == len(ids)
    assert daemon.stop() == 0


AGENT = json.dumps(
    {
        "resourceSpans": [
            {
                "scopeSpans": [
                    {
                        "spans": [
                            {
                                "traceId": "0af7651916cd43dd8448eb211c80319c",
                                "spanId": "b7ad6b7169203331",
                                "name": "invoke_agent shop-bot",
                                "startTimeUnixNano": "1",
                                "endTimeUnixNano": "2",
                                "attributes": [
                                    {"key": "gen_ai.operation.name", "value": {"stringValue": "invoke_agent"}}
                                ],
                            }
                        ]
                    }
                ]
            }
        ]
    }
).encode()
