"""What `check` says of a configuration whose keys are right: what `run` would refuse, and what would do nothing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from monitor.cli import main

MONITOR = "monitors: {m: {rubrics: [tool_calls_known]}}\n"


def check(folder: Path, text: str, capsys: pytest.CaptureFixture[str], *more: str) -> tuple[int, str, str]:
    """Status, standard output and standard error of `check` on a configuration in the folder."""
    file = folder / "r.yaml"
    file.write_text(text)
    status = main(["check", "-c", str(file), *more])
    shown = capsys.readouterr()
    return status, shown.out.replace(f"{folder}/", ""), shown.err.replace(f"{folder}/", "")


def test_a_data_folder_that_cannot_be_is_a_fault(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A folder below a file is refused by `check` as by `run`, together with other faults; for another machine it is a warning. Nothing is made."""
    (tmp_path / "file").write_text("")
    text = f"{MONITOR}storage: {{path: '{tmp_path}/file/a/data'}}\n"
    said = "r.yaml:2: storage.path: file/a/data: cannot be made: file is no folder\n"
    status, out, err = check(tmp_path, text, capsys)
    assert (status, out) == (2, "")
    assert err.endswith(f"1 fault:\n{said}")
    status, _, err = check(tmp_path, text + "servre: {}\n", capsys)
    assert (status, err.splitlines()[1:]) == (
        2,
        [said.strip(), "r.yaml:3: servre: is no key here; did you mean `server`?"],
    )
    status, out, err = check(tmp_path, text, capsys, "--elsewhere")
    assert (status, err) == (0, f"warning: {said}")
    assert "r.yaml: right" in out
    assert sorted(one.name for one in tmp_path.iterdir()) == ["file", "r.yaml"]


@pytest.mark.skipif(not Path("/proc/self/mounts").exists(), reason="a machine without /proc")
def test_a_file_system_of_the_kernel_holds_no_data(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Root is told, too, that nothing can be made below /proc, although its permissions say otherwise."""
    status, _, err = check(tmp_path, MONITOR + "storage: {path: /proc/nope}\n", capsys)
    assert status == 2
    assert "r.yaml:2: storage.path: /proc/nope: cannot be made by user id" in err


@pytest.mark.parametrize("there", ["", "data", "data/journal"])
def test_a_folder_of_somebody_else_is_a_fault(
    there: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The data folder, what lies in it, or else the nearest folder above has to be writable by the user, who is named."""
    (tmp_path / there).mkdir(parents=True, exist_ok=True)
    text = f"{MONITOR}storage: {{path: '{tmp_path}/data'}}\n"
    assert check(tmp_path, text, capsys)[0] == 0
    refused, access = tmp_path / there, os.access
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != refused and access(path, mode))
    status, _, err = check(tmp_path, text, capsys)
    assert status == 2
    what = {"": "cannot be made", "data": "cannot be written", "data/journal": "journal in it cannot be written"}[there]
    assert f"storage.path: data: {what} by user id {os.getuid()}" in err


def test_a_configuration_without_monitors_is_pointed_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An empty file is right, and would judge nothing: that is said."""
    status, out, err = check(tmp_path, "", capsys)
    assert (status, out) == (0, "r.yaml: right\n")
    assert err == "warning: r.yaml:1: monitors: there is none: what arrives is stored, and nothing of it is judged\n"


@pytest.mark.parametrize("endpoint", ["0.0.0.0:8464", ":8464", "[::]:8464", "192.0.2.7:8464"])
def test_an_open_server_without_authorisation_is_pointed_out(
    endpoint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """On an address of other machines without `auth` content is refused with 403: `check` says so and names the keys."""
    status, _, err = check(tmp_path, MONITOR + f"server: {{endpoint: '{endpoint}'}}\n", capsys)
    assert status == 0
    assert err.startswith(f"warning: r.yaml:2: server.endpoint: {endpoint} is open to other machines")
    assert "403" in err
    assert "server.auth.bearer_token_file" in err


def test_nothing_is_pointed_out_where_all_is_meant(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A local server, and an open one with a token, give no word."""
    (tmp_path / "t").write_text("secret")
    for server in (
        "{endpoint: '127.0.0.2:1'}",
        "{endpoint: '[::1]:1'}",
        "{endpoint: '0.0.0.0:1', auth: {bearer_token_file: t}}",
    ):
        status, _, err = check(tmp_path, MONITOR + f"server: {server}\n", capsys)
        assert (status, err) == (0, "")
