"""A real daemon process for end-to-end tests: its own folder and ports, started, killed and asked by the tests."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml

START_SECONDS = 30.0


_given: set[int] = set()


def free_port() -> int:
    """A TCP port that was free a moment ago, and was not given to anybody of this process before: the kernel repeats itself."""
    while True:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = int(probe.getsockname()[1])
        if port not in _given:
            _given.add(port)
            return port


def wait_for(condition: Callable[[], Any], what: str, seconds: float = 30.0) -> Any:
    """Ask until the condition holds, with a deadline: real processes have no fake clock."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds:g} s: {what}")
        time.sleep(0.05)


class Daemon:
    """One `rubricd run` process. `configuration` is merged over a quick test configuration."""

    def __init__(
        self, folder: Path, configuration: Mapping[str, Any], environment: Mapping[str, str] | None = None
    ) -> None:
        self.folder = folder
        self.grpc_port, self.http_port, self.server_port = free_port(), free_port(), free_port()
        self.environment = dict(environment or {})
        self.process: subprocess.Popen[bytes] | None = None
        self.command = [sys.executable, "-m", "monitor"]
        """What `run -c FILE` is appended to; changed by tests that start the daemon in surroundings of its own."""
        self.file = folder / "rubricd.yaml"
        self.write(configuration)

    def write(self, configuration: Mapping[str, Any]) -> None:
        """Write the configuration file."""
        base: dict[str, Any] = {
            "collectors": {
                "otlp": {
                    "protocols": {
                        "grpc": {"endpoint": f"127.0.0.1:{self.grpc_port}"},
                        "http": {"endpoint": f"127.0.0.1:{self.http_port}"},
                    }
                }
            },
            "storage": {"path": str(self.folder / "data")},
            "assembly": {"settle_after": "300ms", "idle_timeout": "5s"},
            "metrics": {"zero_for": "1s"},
            "server": {"endpoint": f"127.0.0.1:{self.server_port}"},
        }
        self.file.write_text(yaml.safe_dump({**base, **configuration}, allow_unicode=True), encoding="utf-8")

    @property
    def url(self) -> str:
        """The server's URL."""
        return f"http://127.0.0.1:{self.server_port}"

    @property
    def log(self) -> str:
        """What the daemon wrote to stderr so far."""
        return (self.folder / "stderr.log").read_text(encoding="utf-8", errors="replace")

    def start(self, ready: bool = True) -> Daemon:
        """Start the process, and wait until it is ready unless told otherwise."""
        import os

        with (self.folder / "stderr.log").open("ab") as log:
            self.process = subprocess.Popen(
                [*self.command, "run", "-c", str(self.file)],
                stderr=log, stdout=log, cwd=self.folder,
                env={**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2]), **self.environment},
            )  # fmt: skip
        if ready:
            wait_for(self._ready, f"the daemon to be ready; its log:\n{self.log[-3000:]}", START_SECONDS)
        return self

    def _ready(self) -> bool:
        assert self.process is not None
        if self.process.poll() is not None:
            raise AssertionError(f"the daemon ended with status {self.process.returncode}:\n{self.log[-3000:]}")
        try:
            return self.status("/readyz") == 200
        except OSError:
            return False

    def kill(self) -> None:
        """SIGKILL: no chance to tidy up."""
        assert self.process is not None
        self.process.kill()
        self.process.wait(10)

    def stop(self, seconds: float = 20.0) -> int:
        """SIGTERM, and the exit status."""
        if self.process is None:
            return 0
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(seconds)
            except subprocess.TimeoutExpired:
                self.kill()
                raise AssertionError(f"the daemon did not drain within {seconds} s:\n{self.log[-3000:]}") from None
        return self.process.returncode

    def peak_memory(self) -> float:
        """The most resident memory that the process has had, in MiB."""
        assert self.process is not None
        status = Path(f"/proc/{self.process.pid}/status").read_text(encoding="ascii")
        return int(status.partition("VmHWM:")[2].split()[0]) / 1024

    def get(self, path: str) -> Any:
        """The JSON of one API answer."""
        with urllib.request.urlopen(self.url + path, timeout=10) as answer:
            return json.loads(answer.read())

    def status(self, path: str, method: str = "GET") -> int:
        """The status of one request."""
        try:
            with urllib.request.urlopen(urllib.request.Request(self.url + path, method=method), timeout=10) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return error.code

    def items(self, path: str) -> list[dict[str, Any]]:
        """All items of a listing, page by page."""
        found, cursor = [], None
        while True:
            page = self.get(path + (("&" if "?" in path else "?") + f"limit=1000&cursor={cursor}" if cursor else ""))
            found.extend(page["items"])
            cursor = page["next_cursor"]
            if not cursor:
                return found

    def metrics(self) -> str:
        """The text exposition."""
        with urllib.request.urlopen(self.url + "/metrics", timeout=10) as answer:
            return str(answer.read().decode())

    def metric(self, name: str, **labels: str) -> float | None:
        """The sum of the samples of that name whose labels agree, None without any."""
        from prometheus_client.parser import text_string_to_metric_families

        values = [
            sample.value
            for family in text_string_to_metric_families(self.metrics())
            for sample in family.samples
            if sample.name == name and all(sample.labels.get(key) == value for key, value in labels.items())
        ]
        return sum(values) if values else None
