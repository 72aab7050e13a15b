"""Small tools of the benchmarks: free ports, processes with their CPU and memory, what a store holds, tables, and where figures go."""

from __future__ import annotations

import json
import os
import platform
import signal
import socket
import sqlite3
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.target import command, configuration, environment, write

TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")


def free_port() -> int:
    """A TCP port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def say(text: str) -> None:
    """Progress, on stderr."""
    print(f"[{time.strftime('%H:%M:%S')}] {text}", file=sys.stderr, flush=True)


def wait_for(condition: Callable[[], Any], what: str, seconds: float, every: float = 0.05) -> Any:
    """What the condition says as soon as it is true; TimeoutError after `seconds`."""
    ends = time.monotonic() + seconds
    while not (found := condition()):
        if time.monotonic() > ends:
            raise TimeoutError(f"not within {seconds:g} s: {what}")
        time.sleep(every)
    return found


class Usage:
    """CPU seconds and resident bytes of one process."""

    def __init__(self, pid: int) -> None:
        self.pid = pid

    @property
    def cpu(self) -> float:
        """CPU seconds since its start."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    @property
    def rss_mb(self) -> float:
        """Resident memory now, in 10^6 bytes."""
        return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * PAGE / 1e6

    @property
    def peak_mb(self) -> float:
        """The largest resident memory so far, in 10^6 bytes."""
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024 / 1e6
        return self.rss_mb

    def idle(self, seconds: float = 60.0, below: float = 0.15) -> None:
        """Wait until it takes less than `below` of a core for three half seconds."""
        calm, before, ends = 0, self.cpu, time.monotonic() + seconds
        while calm < 3 and time.monotonic() < ends:
            time.sleep(0.5)
            now = self.cpu
            calm, before = (calm + 1 if now - before < 0.5 * below else 0), now


class Daemon:
    """`rubricd run` in a folder of its own. `settings` is what `bench.target.configuration` takes besides folder and ports."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.folder = folder
        self.http_port, self.grpc_port, self.server_port = free_port(), free_port(), free_port()
        self.folder.mkdir(parents=True, exist_ok=True)
        write(folder, configuration(folder, self.http_port, self.grpc_port, self.server_port, **settings))
        self.process: subprocess.Popen[bytes] | None = None
        self.started_in = 0.0

    @property
    def url(self) -> str:
        """Where the server port answers."""
        return f"http://127.0.0.1:{self.server_port}"

    @property
    def usage(self) -> Usage:
        """CPU and memory of the process."""
        assert self.process is not None
        return Usage(self.process.pid)

    def start(self, seconds: float = 60.0) -> Daemon:
        """Start it and wait until it is ready; `started_in` has the seconds that took."""
        began = time.perf_counter()
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                command(self.folder), stdout=log, stderr=log, cwd=self.folder, env=environment()
            )
        wait_for(self._ready, f"a daemon that is ready; see {self.folder / 'log'}", seconds, 0.02)
        self.started_in = time.perf_counter() - began
        return self

    def _ready(self) -> bool:
        assert self.process is not None
        if self.process.poll() is not None:
            raise RuntimeError(f"the daemon ended: {(self.folder / 'log').read_text()[-2000:]}")
        try:
            with urllib.request.urlopen(f"{self.url}/readyz", timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def stop(self, how: int = signal.SIGTERM) -> None:
        """Stop it; twice does no harm."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(how)
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def get(self, path: str) -> bytes:
        """The body of an answer of the server port."""
        with urllib.request.urlopen(self.url + path, timeout=60) as answer:
            return bytes(answer.read())

    @property
    def stored(self) -> int:
        """Spans of stored traces, asked of the database file: the daemon spends nothing on it."""
        return stored_spans(self.folder)

    def drained(self, want: int | None = None, seconds: float = 300.0) -> int:
        """Wait until so many spans are stored, or without a figure until the number no longer grows and the process idles; returns it."""
        last, ends = self.stored, time.monotonic() + seconds
        while time.monotonic() < ends and (want is None or last < want):
            if want is None:
                self.usage.idle(ends - time.monotonic(), below=0.04)
            else:
                time.sleep(0.1)
            before, last = last, self.stored
            if want is None and before == last:
                break
        return last


@contextmanager
def daemon(folder: Path, ready_within: float = 60.0, **settings: Any) -> Iterator[Daemon]:
    """A daemon that is ready within so many seconds, and stopped at the end."""
    one = Daemon(folder, **settings)
    try:
        yield one.start(ready_within)
    finally:
        one.stop()


def stored_spans(folder: Path) -> int:
    """Spans of the traces that the database in `folder` holds; 0 while there is none."""
    return int(ask_store(folder, "SELECT total(span_count) FROM traces") or 0)


def ask_store(folder: Path, query: str) -> Any:
    """The one figure that a query of the database finds; None while it cannot be asked."""
    try:
        connection = sqlite3.connect(f"file:{folder}/data/rubricd.db?mode=ro", uri=True, timeout=5)
    except sqlite3.OperationalError:
        return None
    try:
        return connection.execute(query).fetchone()[0]
    except sqlite3.OperationalError:
        return None
    finally:
        connection.close()


def bytes_of(folder: Path) -> int:
    """The bytes of all files of a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def machine() -> dict[str, Any]:
    """What the figures were measured on."""
    return {
        "date": time.strftime("%Y-%m-%d %H:%M"),
        "cores": len(os.sched_getaffinity(0)),
        "load_average": round(os.getloadavg()[0], 2),
        "python": platform.python_version(),
        "kernel": platform.release(),
    }


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows of the same keys as a table in Markdown."""
    if not rows:
        return ""
    names = list(rows[0])
    cells = [names, *[[_cell(row.get(name)) for name in names] for row in rows]]
    widths = [max(len(line[column]) for line in cells) for column in range(len(names))]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) + " |" for line in cells
    ]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(lines)


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}" if abs(value) < 10 else f"{value:.1f}"
    return "-" if value is None else f"{value:,}" if isinstance(value, int) else str(value)


def keep(path: Path | None, found: Mapping[str, Any]) -> None:
    """Write figures as JSON where a path is given."""
    if path is not None:
        path.write_text(json.dumps(found, indent=1), encoding="utf-8")
