"""Backup and restore of the store, as docs/operations.md says."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

from tests.operations.conftest import Start
from tests.operations.running import configuration, send
from tests.support.daemon import Daemon, wait_for

ONE_LINE = "import sqlite3,sys; sqlite3.connect(sys.argv[1]).execute('VACUUM INTO ?', (sys.argv[2],))"
"""The command of docs/operations.md, which says it for the paths of the image."""


def passes(daemon: Daemon) -> float:
    """The counter of passed verdicts."""
    return daemon.metric("rubricd_verdicts_total", rubric="party_size_limit", verdict="pass") or 0


def test_the_documented_command_is_the_tested_one() -> None:
    """The page on operations shows the very command that is tested here."""
    page = Path(__file__).parents[2] / "docs" / "operations.md"
    assert ONE_LINE in page.read_text(encoding="utf-8")


def test_a_backup_of_a_running_daemon_is_restored(start: Start, tmp_path: Path) -> None:
    """A copy made while the daemon runs is whole; put back it has the verdicts and tallies of that time, counts on, and takes new telemetry."""
    daemon = start(configuration())
    before = send(daemon, 3)
    wait_for(lambda: passes(daemon) == 3, "verdicts")
    data, copy = tmp_path / "data", tmp_path / "copy.db"
    subprocess.run([sys.executable, "-c", ONE_LINE, str(data / "rubricd.db"), str(copy)], check=True)
    with sqlite3.connect(copy) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()
    send(daemon, 2)
    wait_for(lambda: passes(daemon) == 5, "verdicts after the backup")
    assert daemon.stop() == 0
    shutil.rmtree(data)
    data.mkdir(mode=0o700)
    shutil.copy(copy, data / "rubricd.db")
    daemon.start()
    assert {one["trace_id"] for one in daemon.items("/api/v1/verdicts?since=1h")} == before
    assert passes(daemon) == 3
    after = send(daemon, 2)
    wait_for(lambda: passes(daemon) == 5, "verdicts of new telemetry")
    assert {one["trace_id"] for one in daemon.items("/api/v1/verdicts?since=1h")} == before | after
    assert daemon.stop() == 0


def test_a_copy_of_the_whole_folder_is_restored(start: Start, tmp_path: Path) -> None:
    """What a snapshot of the volume holds after a crash is enough: what was acknowledged and had not settled is judged after the restore."""
    daemon = start(configuration(assembly={"settle_after": "2s", "idle_timeout": "5s"}))
    ids = send(daemon, 3)
    daemon.kill()
    shutil.copytree(tmp_path / "data", tmp_path / "snapshot")
    shutil.rmtree(tmp_path / "data")
    (tmp_path / "snapshot").rename(tmp_path / "data")
    daemon.start()
    wait_for(lambda: {one["trace_id"] for one in daemon.items("/api/v1/verdicts?since=1h")} == ids, "verdicts", 20)
    assert daemon.stop() == 0
