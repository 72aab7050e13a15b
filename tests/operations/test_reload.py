"""Reload of the configuration by the real process: by signal, by API, by a swapped ConfigMap; all or nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import yaml

from tests.operations.conftest import Start
from tests.operations.running import LIMIT, configuration, polite, reload, send, versions
from tests.support.daemon import Daemon, wait_for
from tests.support.judge_server import JudgeServer


def successful(daemon: Daemon) -> float | None:
    """The gauge of the last reload."""
    return daemon.metric("rubricd_config_last_reload_successful")


def test_sighup_puts_a_changed_rubric_in_force(start: Start, judge: JudgeServer) -> None:
    """After SIGHUP new invocations are judged by the new version in the same process, and what was judged keeps its own."""
    daemon = start(configuration(judge.url))
    assert daemon.process is not None
    before = versions(daemon)
    send(daemon, 1)
    wait_for(lambda: len(daemon.items("/api/v1/verdicts?since=1h&rubric=polite")) == 1, "a verdict of the old version")
    daemon.write(configuration(judge.url, [LIMIT, polite(0.9)]))
    daemon.process.send_signal(signal.SIGHUP)
    wait_for(lambda: versions(daemon)["polite"] != before["polite"], "the new version")
    assert versions(daemon)["party_size_limit"] == before["party_size_limit"]
    send(daemon, 1)
    wait_for(lambda: len(daemon.items("/api/v1/verdicts?since=1h&rubric=polite")) == 2, "a verdict of the new version")
    judged = {verdict["rubric_version"] for verdict in daemon.items("/api/v1/verdicts?since=1h&rubric=polite")}
    assert judged == {before["polite"], versions(daemon)["polite"]}
    assert successful(daemon) == 1
    assert daemon.stop() == 0


def test_a_wrong_configuration_changes_nothing(start: Start, judge: JudgeServer) -> None:
    """A reload by API of a configuration with two faults names both and leaves the old one in force, shown by the gauge; the next right one is taken."""
    daemon = start(configuration(judge.url))
    before = versions(daemon)
    good = daemon.file.read_text()
    daemon.write(configuration(judge.url, [LIMIT, polite(0.9)], assembly={"settle": "1s"}, logging={"level": "loud"}))
    status, said = reload(daemon)
    assert status == 400
    assert any("assembly.settle" in fault for fault in said["faults"])
    assert any("logging.level" in fault for fault in said["faults"])
    assert versions(daemon) == before
    assert successful(daemon) == 0
    assert daemon.status("/readyz") == 200
    daemon.file.write_text(good)
    assert reload(daemon) == (200, {"status": "reloaded"})
    assert successful(daemon) == 1


def swap(folder: Path, name: str, text: str, age: int) -> None:
    """What a kubelet does: a new folder, a link to it renamed over `..data`, the old folder removed; modification times stay the same."""
    (folder / name).mkdir()
    (folder / name / "rubricd.yaml").write_text(text)
    os.utime(folder / name / "rubricd.yaml", (age, age))
    old = (folder / "..data").resolve() if (folder / "..data").is_symlink() else None
    (folder / "..data_tmp").symlink_to(name)
    (folder / "..data_tmp").rename(folder / "..data")
    if old is not None:
        (old / "rubricd.yaml").unlink()
        old.rmdir()


def test_a_swapped_configmap_is_taken_over(start: Start, judge: JudgeServer, tmp_path: Path) -> None:
    """The link of a mounted ConfigMap turns to a file of the same size and time: taken over without a signal; a wrong one is not, and is healed by the next."""
    made = Daemon(tmp_path, configuration(judge.url))
    texts = {
        threshold: yaml.safe_dump({**yaml.safe_load(made.file.read_text()), "rubrics": [LIMIT, polite(threshold)]})
        for threshold in (0.8, 0.9)
    }
    assert len({len(text) for text in texts.values()}) == 1
    mounted = tmp_path / "config"
    mounted.mkdir()
    swap(mounted, "..2026_11_18_09_00", texts[0.8], 1_700_000_000)
    (mounted / "rubricd.yaml").symlink_to("..data/rubricd.yaml")
    made.file = mounted / "rubricd.yaml"
    daemon = made.start()
    try:
        first = versions(daemon)["polite"]
        swap(mounted, "..2026_11_18_09_05", texts[0.9], 1_700_000_000)
        wait_for(lambda: versions(daemon)["polite"] != first, "the new version", 10)
        second = versions(daemon)["polite"]
        swap(mounted, "..2026_11_18_09_10", texts[0.8].replace("polite", "polite: ["), 1_700_000_000)
        wait_for(lambda: successful(daemon) == 0, "the refusal", 10)
        assert versions(daemon)["polite"] == second
        swap(mounted, "..2026_11_18_09_15", texts[0.8], 1_700_000_000)
        wait_for(lambda: successful(daemon) == 1, "the healing", 10)
        assert versions(daemon)["polite"] == first
        assert daemon.stop() == 0
    finally:
        if daemon.process is not None and daemon.process.poll() is None:
            daemon.kill()


def test_check_says_what_a_rollout_starts_anew(start: Start, judge: JudgeServer, tmp_path: Path) -> None:
    """`rubricd check --against URL` names the rubric whose version would change, and only that."""
    daemon = start(configuration(judge.url))
    candidate = tmp_path / "candidate.yaml"
    sections = {**yaml.safe_load(daemon.file.read_text()), "rubrics": [LIMIT, polite(0.9)]}
    candidate.write_text(yaml.safe_dump(sections))
    found = subprocess.run(
        [sys.executable, "-m", "monitor", "check", "-c", str(candidate), "--against", daemon.url],
        capture_output=True, text=True, cwd=Path(__file__).parents[2], check=False,
    )  # fmt: skip
    assert found.returncode == 0, found.stderr
    anew = [line for line in found.stdout.splitlines() if line.startswith("starts anew")]
    assert len(anew) == 1
    assert f"bookings / polite: version {versions(daemon)['polite']}" in anew[0]
