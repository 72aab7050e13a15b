"""A real daemon whose wall clock is put forward and back while it works."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.operations.running import configuration, send
from tests.support.daemon import Daemon, wait_for
from tests.support.judge_server import judge_server

HOUR = 3600


def test_a_clock_that_jumps_loses_and_doubles_nothing(tmp_path: Path) -> None:
    """Put forward by two hours, back by four, forward by five, each time with traces open and calls under way: each run is judged once, and none is missed."""
    offset = tmp_path / "offset"
    offset.write_text("0")
    with judge_server(latency=0.4) as judge:
        daemon = Daemon(tmp_path, configuration(judge.url))
        daemon.command = [sys.executable, "-m", "tests.support.stepped", str(offset)]
        daemon.start()
        ids: set[str] = set()
        try:
            for moved in (2 * HOUR, -2 * HOUR, 3 * HOUR):
                ids |= send(daemon, 2)
                asked = judge.count
                wait_for(lambda: judge.count > asked, "a call under way")  # noqa: B023
                ids |= send(daemon, 2)
                (tmp_path / "new").write_text(str(moved))
                (tmp_path / "new").rename(offset)
                ids |= send(daemon, 1)
            verdicts = "/api/v1/verdicts?since=100h"
            wait_for(lambda: len(daemon.items(verdicts)) >= 2 * len(ids), "all verdicts", 60)
            found = [(one["trace_id"], one["rubric"]) for one in daemon.items(verdicts)]
            assert sorted(found) == sorted((one, rubric) for one in ids for rubric in ("party_size_limit", "polite"))
            assert judge.count == len(ids)
            assert daemon.metric("rubricd_verdicts_total") == len(found)
            assert (daemon.metric("rubricd_not_selected_total", reason="missed") or 0) == 0
        finally:
            daemon.stop()
