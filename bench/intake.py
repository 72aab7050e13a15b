"""Sections of `bench load`: intake by transport beside the bare ceiling, the way to a verdict, and how cost grows with the rate."""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.measured import Daemon, Usage, ask_store, daemon, free_port, wait_for
from bench.target import environment
from bench.traffic import SPANS, Load, send

Row = dict[str, Any]
_NOISE_CPU_SECONDS = 0.1


def closed_loops(given: argparse.Namespace, folder: Path) -> list[Row]:
    """HTTP, gRPC and JSON: the daemon and the ceiling one after the other."""
    seconds = 1.5 if given.quick else 5.0
    return [_closed_loop(folder / way, way, seconds) for way in ("http", "grpc", "json")]


def _closed_loop(folder: Path, way: str, seconds: float) -> Row:
    with _ceiling(folder / "ceiling") as (ports, usage):
        send(Load(way, ports[way], 0.3))
        before = usage.cpu
        bare = send(Load(way, ports[way], seconds))
        bare_cpu = usage.cpu - before
    with daemon(folder / "daemon") as one:
        warm = send(Load(way, _port(one, way), 0.3))
        one.drained(warm.spans)
        before, began = one.usage.cpu, time.monotonic()
        sent = send(Load(way, _port(one, way), seconds))
        one.drained(warm.spans + sent.spans)
        took, cpu, peak = time.monotonic() - began, one.usage.cpu - before, one.usage.peak_mb
    ours, ceiling = sent.spans / max(0.01, cpu), bare.spans / max(0.01, bare_cpu)
    return {
        "way": way, "accepted_per_s": round(sent.spans / sent.seconds), "stored_per_s": round(sent.spans / took), "spans_per_cpu_s": round(ours),
        "ceiling_per_cpu_s": round(ceiling), "of_ceiling": round(ours / ceiling, 3), "ack_p50_ms": round(sent.quantile(0.5), 1),
        "ack_p99_ms": round(sent.quantile(0.99), 1), "ceiling_p99_ms": round(bare.quantile(0.99), 1), "peak_mb": round(peak), "refused": sent.refused,
    }  # fmt: skip


def judged(given: argparse.Namespace, folder: Path) -> list[Row]:
    """At a fixed rate, and one alone: how long from sending until the verdict is stored. Ticks come every second, traces settle after 200 ms."""
    rows = []
    with daemon(folder, every="1s") as one:
        for rate, seconds in ((80.0, 3.0), (800.0, 4.0)) if given.quick else ((80.0, 10.0), (800.0, 15.0)):
            verdicts = _verdicts(one)
            before, began = one.usage.cpu, time.monotonic()
            sent = send(Load("http", one.http_port, seconds, senders=2, rate=rate, invocations=1))
            ended, wanted = time.monotonic(), verdicts + sent.spans // SPANS
            wait_for(lambda wanted=wanted: _verdicts(one) >= wanted, "all verdicts", 120)
            rows.append({
                "spans_per_s": rate, "invocations": sent.spans // SPANS, "cpu_ms_per_invocation": round((one.usage.cpu - before) * 1e3 * SPANS / sent.spans, 2),
                "cores": round((one.usage.cpu - before) / (time.monotonic() - began), 3), "judged_after_last_s": round(time.monotonic() - ended, 2),
                "ack_p99_ms": round(sent.quantile(0.99), 1), "peak_mb": round(one.usage.peak_mb),
            })  # fmt: skip
    return rows


def growth(given: argparse.Namespace, folder: Path) -> list[Row]:
    """CPU per span from a thousand to a million spans a minute, as far as this machine carries it; what idling takes is subtracted.

    A figure per span is left out where all of them together take less than idling varies by.
    """
    steps = (
        ((10_000, 6.0), (300_000, 3.0))
        if given.quick
        else ((1_000, 20.0), (10_000, 12.0), (100_000, 8.0), (300_000, 6.0), (1_000_000, 5.0))
    )
    rows = []
    with daemon(folder) as one:
        warm = send(Load("http", one.http_port, 0.5))
        stored = one.drained(warm.spans)
        one.usage.idle()
        idle = _idle_cores(one, 3.0 if given.quick else 10.0)
        for a_minute, seconds in steps:
            before, began = one.usage.cpu, time.monotonic()
            sent = send(
                Load(
                    "http",
                    one.http_port,
                    seconds,
                    senders=1 if a_minute < 50_000 else 4,
                    rate=a_minute / 60,
                    seed=a_minute,
                )
            )
            loaded = time.monotonic() - began
            stored = one.drained(stored + sent.spans)
            took = time.monotonic() - began
            cpu = one.usage.cpu - before - idle * took
            rows.append({
                "offered_per_min": a_minute, "taken_per_min": round(sent.spans / sent.seconds * 60), "cores": round((cpu + idle * took) / took, 3), "cpu_us_per_span": round(cpu / sent.spans * 1e6, 1) if cpu >= _NOISE_CPU_SECONDS else None,
                "stored_after_last_s": round(took - loaded, 2), "ack_p99_ms": round(sent.quantile(0.99), 1), "rss_mb": round(one.usage.rss_mb),
            })  # fmt: skip
    return rows


def _idle_cores(one: Daemon, seconds: float) -> float:
    before = one.usage.cpu
    time.sleep(seconds)
    return (one.usage.cpu - before) / seconds


def _verdicts(one: Daemon) -> int:
    return int(ask_store(one.folder, "SELECT count(*) FROM verdicts") or 0)


def _port(one: Daemon, way: str) -> int:
    return one.grpc_port if way == "grpc" else one.http_port


@contextmanager
def _ceiling(folder: Path) -> Iterator[tuple[dict[str, int], Usage]]:
    """The receivers with nothing behind them but the journal, in a process of their own."""
    folder.mkdir(parents=True)
    http, grpc = free_port(), free_port()
    command = [
        sys.executable,
        "-m",
        "bench.ceiling",
        "--http-port",
        str(http),
        "--grpc-port",
        str(grpc),
        "--dir",
        str(folder),
    ]
    with subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            yield {"http": http, "json": http, "grpc": grpc}, Usage(process.pid)
        finally:
            process.terminate()
