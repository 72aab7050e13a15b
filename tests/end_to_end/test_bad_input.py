"""Bad input to the real program: a clear error that names the place, the right exit status, and nothing lost."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from monitor.cli import LATER
from tests.support.daemon import Daemon, wait_for

ROOT = Path(__file__).parents[2]


def rubricd(*arguments: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    return subprocess.run(
        [sys.executable, "-m", "monitor", *arguments],
        capture_output=True, text=True, timeout=60, check=False, cwd=cwd, env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
    )  # fmt: skip


FAULTS = {
    "storge: {}\n": "rubricd.yaml:1: storge: is no key here; did you mean `storage`?",
    "monitors:\n  m:\n    rubrics: [run_succeded]\n": "rubricd.yaml:3: monitors.m.rubrics[0]: no rubric is called 'run_succeded'; did you mean `run_succeeded`?",
    "monitors:\n  m:\n    rubrics: {intent_resolution: {judge: gpt}}\n": "rubricd.yaml:3: monitors.m.rubrics.intent_resolution.judge: no judge is called 'gpt'",
    "monitors:\n  m:\n    rubrics: [run_succeeded]\n    schedule: {cron: '61 * * * *'}\n": "rubricd.yaml:4: monitors.m.schedule.cron: cron '61 * * * *': '61' is no minute",
    "collectors:\n  otlp:\n    protocols:\n      http: {endpont: 'localhost:1'}\n": "rubricd.yaml:4: collectors.otlp.protocols.http.endpont:",
    "collectors:\n  otpl: {}\n": "rubricd.yaml:2: collectors.otpl: `otpl` is no type of collector; did you mean `otlp`?",
    "rubric_files: ['rubrics/*.yaml']\n": "rubricd.yaml:1: rubric_files[0]: no file matches 'rubrics/*.yaml'",
    "rubrics:\n  - {name: x, kind: check, expect: {max_tool_cals: 3}}\n": "rubricd.yaml:2: rubrics[0].expect.max_tool_cals:",
    "judges: {default: {model: m, api_key: sk-secret}}\n": "rubricd.yaml:1: judges.default.api_key: is a literal secret",
}  # fmt: skip


@pytest.mark.parametrize("text", FAULTS)
@pytest.mark.parametrize("command", ["run", "check"])
def test_a_wrong_configuration_is_refused(tmp_path: Path, command: str, text: str) -> None:
    """Each fault ends `run` and `check` with status 2 and a line with file, line, key and what would be right; nothing is started."""
    (tmp_path / "rubricd.yaml").write_text(text)
    ended = rubricd(command, "-c", "rubricd.yaml", cwd=tmp_path)
    assert ended.returncode == 2, ended.stderr
    assert FAULTS[text] in ended.stderr
    assert "sk-secret" not in ended.stderr
    assert "Traceback" not in ended.stderr
    assert not (tmp_path / "rubricd-data").exists()


def test_a_port_in_use_is_named(tmp_path: Path) -> None:
    """A listener that is taken ends the start with status 3 and names the endpoint; a second daemon on the same folder is told so."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        for section in (
            f"collectors: {{otlp: {{protocols: {{grpc: {{endpoint: '127.0.0.1:{port}'}}}}}}}}\nserver: {{endpoint: '127.0.0.1:0'}}\n",
            f"collectors: {{otlp: {{protocols: {{http: {{endpoint: '127.0.0.1:{port}'}}}}}}}}\nserver: {{endpoint: '127.0.0.1:0'}}\n",
            f"collectors: {{otlp: {{protocols: {{grpc: {{endpoint: '127.0.0.1:0'}}}}}}}}\nserver: {{endpoint: '127.0.0.1:{port}'}}\n",
        ):
            (tmp_path / "rubricd.yaml").write_text(section)
            ended = rubricd("run", "-c", "rubricd.yaml", cwd=tmp_path)
            assert ended.returncode == 3, ended.stderr
            assert f"127.0.0.1:{port}" in ended.stderr
            assert "in use" in ended.stderr
            assert "Traceback" not in ended.stderr


def test_two_daemons_never_share_a_folder(tmp_path: Path) -> None:
    """The second daemon on a data folder ends with status 3 and names the folder; the first goes on."""
    first = Daemon(tmp_path, {}).start()
    try:
        other = tmp_path / "other.yaml"
        other.write_text(
            f"storage: {{path: '{tmp_path / 'data'}'}}\ncollectors: {{otlp: {{protocols: {{grpc: {{endpoint: '127.0.0.1:0'}}}}}}}}\nserver: {{endpoint: '127.0.0.1:0'}}\n"
        )
        ended = rubricd("run", "-c", str(other), cwd=tmp_path)
        assert ended.returncode == 3, ended.stderr
        assert str(tmp_path / "data") in ended.stderr
        assert first.status("/readyz") == 200
    finally:
        first.stop()


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    """A data folder below a file, and one on a read-only file system, end the start with status 3, naming folder and user id."""
    (tmp_path / "file").write_text("")
    for path in (str(tmp_path / "file" / "data"), "/proc/rubricd-data"):
        (tmp_path / "rubricd.yaml").write_text(f"storage: {{path: '{path}'}}\n")
        ended = rubricd("run", "-c", "rubricd.yaml", cwd=tmp_path)
        assert ended.returncode == 3, ended.stderr
        assert path in ended.stderr
        assert f"user id {os.getuid()}" in ended.stderr
        assert "Traceback" not in ended.stderr


def post(daemon: Daemon, path: str, body: bytes, content_type: str) -> tuple[int, bytes]:
    """Status and body of one POST to the OTLP/HTTP port."""
    request = urllib.request.Request(
        f"http://127.0.0.1:{daemon.http_port}{path}", data=body, headers={"Content-Type": content_type}, method="POST"
    )
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def test_malformed_otlp_is_answered_and_counted(tmp_path: Path) -> None:
    """Garbage gets 400, a wrong type 415, an unknown path 404, a bad id partial success; each is counted, and the daemon goes on taking good spans."""
    daemon = Daemon(tmp_path, {}).start()
    try:
        assert post(daemon, "/v1/traces", b"{not json", "application/json")[0] == 400
        assert post(daemon, "/v1/traces", b"\xff\xff\xff", "application/x-protobuf")[0] == 400
        assert post(daemon, "/v1/traces", b"x", "text/plain")[0] == 415
        assert post(daemon, "/v2/nothing", b"x", "application/json")[0] == 404
        good = {"traceId": "1" * 32, "spanId": "1" * 16, "name": "invoke_agent a", "startTimeUnixNano": "1", "endTimeUnixNano": "2",
                "attributes": [{"key": "gen_ai.operation.name", "value": {"stringValue": "invoke_agent"}}]}  # fmt: skip
        bad = {**good, "spanId": "zz"}
        request = {"resourceSpans": [{"scopeSpans": [{"spans": [good, bad]}]}]}
        status, body = post(daemon, "/v1/traces", json.dumps(request).encode(), "application/json; charset=utf-8")
        assert status == 200
        partial = json.loads(body)["partialSuccess"]
        assert int(partial["rejectedSpans"]) == 1
        assert "spanId" in partial["errorMessage"] or "span_id" in partial["errorMessage"]
        assert daemon.metric("rubricd_spans_rejected_total", reason="malformed") == 2
        assert daemon.metric("rubricd_spans_rejected_total", reason="invalid_id") == 1
        assert daemon.metric("rubricd_spans_received_total") == 2
        wait_for(lambda: daemon.status(f"/api/v1/traces/{'1' * 32}") == 200, "the good span's invocation")
    finally:
        daemon.stop()


def test_files_that_hold_no_otlp_are_named(tmp_path: Path) -> None:
    """`reconstruct`, `score` and `replay` name the file and the line of what they cannot read, with status 2."""
    broken = tmp_path / "broken.jsonl"
    broken.write_text('{"resourceSpans": []}\n{"resourceSpans": \n')
    for arguments in (
        ("reconstruct", str(broken)),
        ("score", str(broken), "--rubric", "run_succeeded"),
        ("replay", str(broken), "--endpoint", "http://127.0.0.1:9"),
    ):
        ended = rubricd(*arguments, cwd=tmp_path)
        assert ended.returncode == 2, ended.stderr
        assert f"{broken}:2" in ended.stderr
    missing = rubricd("reconstruct", "nothing.jsonl", cwd=tmp_path)
    assert missing.returncode == 2
    assert "nothing.jsonl: cannot be read: No such file" in missing.stderr


def test_a_daemon_that_does_not_answer_is_named(tmp_path: Path) -> None:
    """`status` and `explain` end with status 3 and name the server where nobody answers; a wrong trace id is status 2."""
    for arguments in (("status",), ("explain", "1" * 32), ("forget", "--trace-id", "1" * 32)):
        ended = rubricd(*arguments, "--server", "http://127.0.0.1:9", cwd=tmp_path)
        assert ended.returncode == 3
        assert "http://127.0.0.1:9" in ended.stderr
    assert rubricd("explain", "xyz", cwd=tmp_path).returncode == 2


def test_what_is_promised_says_so(tmp_path: Path) -> None:
    """A command or role of a later version is refused with a message that says so."""
    for arguments in (*((name,) for name in sorted(LATER)), ("run", "--role", "collect")):
        ended = rubricd(*arguments, cwd=tmp_path)
        assert ended.returncode == 2
        assert "later version" in ended.stderr
