"""The audit of dependencies: what it finds, and that a service which does not answer is never taken for a clean bill."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from deploy.audit import LOCK, asked, audit, drift, licences, pins
from tests.deploy.rendering import INSTALL
from tests.support.daemon import free_port

HASH = "--hash=sha256:" + "0" * 64
SMALL = f"jinja2==2.4 \\\n    {HASH}\nrich==15.0.0 \\\n    {HASH}\n"
Find = Callable[[str, str], str]


class Advisories(BaseHTTPRequestHandler):
    """OSV's protocol with one advisory."""

    def do_POST(self) -> None:
        """An advisory on old Jinja2, nothing on all else."""
        name = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["package"]["name"].lower()
        found = {
            "id": "PYSEC-2019-217",
            "aliases": ["CVE-2019-10906"],
            "details": "A sandbox escape.",
            "affected": [{"package": {"name": "jinja2", "ecosystem": "PyPI"}, "versions": ["2.4"],
                          "ranges": [{"type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": "2.10.1"}]}]}],
        }  # fmt: skip
        body = json.dumps({"vulns": [found]} if name == "jinja2" else {}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture
def service() -> Iterator[str]:
    """The address of a service on loopback."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Advisories)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/v1/query"
    server.shutdown()
    thread.join()
    server.server_close()


def test_the_lock_pins_everything() -> None:
    """Every entry of constraints.txt has a version and hashes, and entries without are found."""
    found, faults = pins(LOCK.read_text(encoding="utf-8"))
    assert faults == [] and found["aiohttp"] and len(found) > 50
    _, faults = pins(f"a==1 \\\n    {HASH}\nb>=2\nc==3\n--index-url https://mirror.example\ngit+https://host/d.git\n")
    assert [fault.partition(" is not")[0].partition(" has")[0] for fault in faults] == [
        "lock: `b>=2`", "lock: c", "lock: `--index-url https://mirror.example`", "lock: `git+https://host/d.git`",
    ]  # fmt: skip


def test_drift_is_found() -> None:
    """Another version than the locked one, and a package that is not locked, are faults; the installer itself is none."""
    assert drift({"a": "1", "b": "2"}, {"a": "1", "b": "3", "c": "1", "pip": "24"}) == [
        "installed: b 3, and the lock has 2",
        "installed: c 1, and the lock has none",
    ]


def test_licences_have_to_be_allowed() -> None:
    """Licences that fit an Apache-2.0 program pass; others, and packages without any, are named."""
    found = licences({"a": "MIT", "b": "GPL-3.0-only", "c": "", "d": "BSD-3-Clause AND Apache-2.0"})
    assert [fault.split()[1] for fault in found] == ["b", "c"]


@pytest.mark.service
def test_a_vulnerable_version_is_found(
    service: str, required_program: Find, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The real pip-audit asks the service about every locked package, and a known vulnerability is a fault with the version that mends it."""
    required_program("pip-audit", INSTALL)
    monkeypatch.setenv("RUBRICD_OSV_URL", service)
    (tmp_path / "lock.txt").write_text(SMALL)
    assert asked(tmp_path / "lock.txt")[:2] == (["vulnerable: jinja2 2.4: PYSEC-2019-217, fixed in 2.10.1"], 2)


@pytest.mark.service
def test_silence_is_no_clean_bill(
    required_program: Find, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where no service answers the audit says so in its last line, and with --require that is a fault."""
    required_program("pip-audit", INSTALL)
    monkeypatch.setenv("RUBRICD_OSV_URL", f"http://127.0.0.1:{free_port()}/")
    faults = list(audit(require=True))
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith("NOT AUDITED") and last in faults
