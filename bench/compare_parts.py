"""What one round of `bench compare` measures, part by part. Each returns figures by the names that `compare_rows` uses."""

from __future__ import annotations

import argparse
import importlib.util
import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from bench import scrape as scraping
from bench.measured import bytes_of, daemon, say, stored_spans
from bench.stalls import longest_acknowledgement
from bench.target import environment

FIGURES = {
    "stored_spans_per_s": "stored/s", "spans_per_cpu_s": "spans/CPU-s", "rss_peak_mb": "peak MB", "rss_idle_mb": "idle MB",
    "lat_p99_ms": "p99 ms", "disk_bytes_per_span": "disk bytes/span", "missing_spans": "missing",
}  # fmt: skip
_CUT_SECONDS = 150.0


def peers(given: argparse.Namespace, number: int) -> dict[str, float]:
    """peers_ingest.py: Phoenix, MLflow and this checkout, one after the other. What is stored is counted here, not by the daemon."""
    with _counting() as port, tempfile.TemporaryDirectory(dir=given.dir) as folder:
        us = f"{sys.executable} -m bench.target --http-port {{http_port}} --grpc-port {{grpc_port}} --server-port {{metrics_port}} --dir {{dir}}"
        server = "http://127.0.0.1:{metrics_port}"
        command = [
            sys.executable, str(given.shared / "bench" / "peers_ingest.py"), "--rounds", "1", "--seconds", str(given.seconds), "--dir", folder,
            "--target-cmd", us, "--target-ready-url", f"{server}/readyz", "--target-trace-url", f"{server}/api/v1/traces/{{trace_id}}",
            "--target-count-url", f"http://127.0.0.1:{port}{{dir}}",
        ]  # fmt: skip
        for peer in ("phoenix", "mlflow"):
            if python := getattr(given, f"{peer}_python"):
                command += [f"--{peer}-python", python]
        found: dict[str, float] = {}
        for line in _lines(command):
            if line["bench"] == "peers_ingest":
                name = f"{line['server']}-{line['proto']}"
                say(
                    f"  {name}: "
                    + (
                        line.get("error")
                        or f"{line.get('stored_spans_per_s')} stored spans/s, {line.get('spans_per_cpu_s')} spans/CPU-s"
                    )
                )
                found |= {f"{name} {short}": line[key] for key, short in FIGURES.items() if line.get(key) is not None}
        return found


def upb(given: argparse.Namespace, number: int) -> dict[str, float]:
    """The ceiling of limits_micro.py: upb parses requests and nothing is read."""
    code = "import limits_micro as m\nb = m.bodies()\nm.interleave('parse', {'upb_parse': lambda: [m.Req.FromString(x) for x in b]}, 5, 64 * len(b))"
    found = [line["value"] for line in _lines([sys.executable, "-c", code], cwd=given.shared / "bench")]
    return {"upb spans/CPU-s": statistics.median(found)}


def kept(given: argparse.Namespace, number: int) -> dict[str, float]:
    """Accepted spans per CPU second with all traces kept and with a tenth kept by the hash of their id, until what is kept is stored."""
    load = _otlp_load(given.shared)
    found: dict[str, float] = {}
    for way in ("http", "grpc"):
        for rate in (1, 0.1):
            with tempfile.TemporaryDirectory(dir=given.dir) as folder, daemon(Path(folder), rate=rate) as one:
                target = f"http://127.0.0.1:{one.http_port}" if way == "http" else f"127.0.0.1:{one.grpc_port}"
                load.run_load(way, target, 0.5, 1, 8, templates=4, seed=55, max_spans=1500)
                warm = one.drained()
                before = one.usage.cpu
                sent = load.run_load(way, target, given.seconds, 1, 8, templates=8, seed=7 + number)
                one.drained(warm + sent["accepted_spans"] if rate == 1 else None)
                found[f"kept-{way} {rate:g} accepted/CPU-s"] = sent["accepted_spans"] / max(
                    0.01, one.usage.cpu - before
                )
    return found


def disk(given: argparse.Namespace, number: int) -> dict[str, float]:
    """Bytes of the whole storage folder for each stored span, once the journal has been cut behind what is stored."""
    load = _otlp_load(given.shared)
    with tempfile.TemporaryDirectory(dir=given.dir) as folder, daemon(Path(folder)) as one:
        sent = load.run_load(
            "http", f"http://127.0.0.1:{one.http_port}", given.seconds, 1, 8, templates=8, seed=70 + number
        )
        stored = one.drained(sent["accepted_spans"])
        journal, ends = one.folder / "data" / "journal", time.monotonic() + _CUT_SECONDS
        while bytes_of(journal) > 100_000 and time.monotonic() < ends:
            time.sleep(1)
        return {"disk bytes/span": bytes_of(one.folder / "data") / stored}


def scrape(given: argparse.Namespace, number: int) -> dict[str, float]:
    """CPU of a page of 10,000 series beside prometheus_client's, and how long acknowledgements take while a daemon makes one."""
    with tempfile.TemporaryDirectory(dir=given.dir) as folder:
        cost = scraping.measure(Path(folder), 10_000, 5)
        stall = longest_acknowledgement(Path(folder) / "daemon", 10_000)
    say(f"  {cost}; {stall}")
    return {
        "scrape text ratio": cost["ratio"], "scrape openmetrics ratio": cost["openmetrics_ratio"], "scrape stall ms": stall["stall_ms"],
    }  # fmt: skip


def judge(given: argparse.Namespace, number: int) -> dict[str, float]:
    """judge_bench.py: 500 invocations, 32 in flight, 200 ms, by the daemon's workers from claim to stored verdict, beside the bare call."""
    us = f"{sys.executable} -m bench judging --adapter {{url}} {{data}} --concurrency {{concurrency}} --way workers"
    command = [
        sys.executable, str(given.shared / "bench" / "judge_bench.py"), "--clients", "openai_aiohttp,target", "--rounds", "1", "--target-cmd", us,
    ]  # fmt: skip
    found: dict[str, float] = {}
    for line in _lines(command):
        if line["bench"] == "judge" and line["client"] == "target":
            found |= {
                "judge wall s": line["wall_s"],
                "judge ideal s": line["n"] / line["concurrency"] * line["latency_s"],
            }
            found["judge CPU ms"] = line["cpu_ms_per_call"]
        elif line["bench"] == "judge":
            found["bare CPU ms"] = line["cpu_ms_per_call"]
    say(f"  {found}")
    return found


def _otlp_load(shared: Path) -> Any:
    """The load generator of the shared folder; its workers are processes that import it by its name."""
    folder = str(shared / "bench")
    if folder not in sys.path:
        sys.path.insert(0, folder)
    if importlib.util.find_spec("otlp_load") is None:
        raise RuntimeError(f"{folder} has no otlp_load.py: give --shared")
    return importlib.import_module("otlp_load")


def _lines(command: list[str], cwd: Path | None = None) -> Iterator[dict[str, Any]]:
    """The JSON lines that a program prints."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment(), cwd=cwd) as process:
        for line in process.stdout or ():
            if line.startswith("{"):
                yield json.loads(line)
    if process.returncode:
        raise RuntimeError(f"{Path(command[1]).name} ended with {process.returncode}")


@contextmanager
def _counting() -> Iterator[int]:
    """A port that answers GET /FOLDER with the number of spans stored there, so that counting costs the daemon nothing; as Phoenix's are counted."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Count)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Count(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = f"{stored_spans(Path(self.path))}\n".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Nothing is logged."""
