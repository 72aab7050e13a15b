"""Sections of `bench load`: memory by open traces and by backlog, and the start with a journal to replay."""

from __future__ import annotations

import argparse
import itertools
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from bench.measured import bytes_of, daemon
from bench.target import environment
from bench.traffic import SPANS, Load, send, templates

Row = dict[str, Any]
NEVER = {"assembly": {"settle_after": "1h", "max_open_spans": 10_000_000}}
INDEX_ALONE = """
import sys
from bench.room import fill_index
fill_index(int(sys.argv[1]))
"""


def open_traces(given: argparse.Namespace, folder: Path) -> list[Row]:
    """Resident memory of a daemon with so many open traces, whole bodies in the journal; the last row is the index alone in a process of its own."""
    counts = (1_000, 5_000) if given.quick else (1_000, 10_000, 100_000)
    rows: list[Row] = []
    with daemon(folder / "daemon", more=NEVER) as one:
        idle, have = one.usage.rss_mb, 0
        for count in counts:
            sent = send(Load("http", one.http_port, 600.0, spans=(count - have) * SPANS))
            have += sent.spans // SPANS
            rows.append(
                {
                    "open_traces": have,
                    "spans": have * SPANS,
                    "rss_mb": round(one.usage.rss_mb),
                    "over_idle_mb": round(one.usage.rss_mb - idle, 1),
                }
            )
    alone = 125_000 if given.quick else 1_000_000
    rows.append(_index_alone(alone))
    return rows


def _index_alone(count: int) -> Row:
    found = subprocess.run(
        [sys.executable, "-c", INDEX_ALONE, str(count)], env=environment(), capture_output=True, text=True, check=True
    )
    over = float(found.stdout)
    return {"open_traces": count, "spans": count * SPANS, "rss_mb": None, "over_idle_mb": round(over, 1)}


def fill_index(count: int) -> None:
    """Note so many traces of eight spans, and print how much memory that took (10^6 bytes)."""
    import os

    from bench.measured import Usage
    from collectors.otlp.request import split
    from collectors.sink import Signal
    from monitor.intake.index import Arrival, Index
    from monitor.intake.settling import SettlingRules
    from monitor.model.run import JournalPosition

    (template,) = templates(1)
    items = list(enumerate(split(template.body(bytes(8)), Signal.TRACES).items))
    index, usage = Index(SettlingRules(3600.0), 100_000_000), Usage(os.getpid())
    before = usage.rss_mb
    for number in range(count // 8):
        own = [(n, item._replace(trace_id=number.to_bytes(8, "big") + item.trace_id[8:])) for n, item in items]
        index.note(Arrival(JournalPosition(1, number), Signal.TRACES, "otlp", 1.0, 1.0, own))
    print(usage.rss_mb - before)


def unsettled(given: argparse.Namespace, folder: Path) -> list[Row]:
    """Spans that wait in the journal, of traces that do not settle for an hour: memory, and what it costs to take one more."""
    steps = (0, 50_000, 100_000) if given.quick else (0, 500_000, 1_000_000, 2_000_000)
    rows: list[Row] = []
    with daemon(folder, more=NEVER) as one:
        have, taken_in = 0, 20_000 if given.quick else 50_000
        for step in steps:
            if step > have:
                have += send(Load("http", one.http_port, 900.0, spans=step - have, small=True)).spans
            before = one.usage.cpu
            sent = send(Load("http", one.http_port, 120.0, spans=taken_in, small=True))
            have += sent.spans
            cpu = one.usage.cpu - before
            rows.append({
                "backlog_spans": have, "rss_mb": round(one.usage.rss_mb), "cpu_us_per_span_taken": round(cpu / sent.spans * 1e6, 1),
                "ack_p99_ms": round(sent.quantile(0.99), 1), "journal_mb": round(bytes_of(folder / "data" / "journal") / 1e6),
            })  # fmt: skip
    before, last = rows[
        -2:
    ]  # what is open in memory is bounded: only what comes behind that bound tells how it goes on
    slope = (last["rss_mb"] - before["rss_mb"]) / (last["backlog_spans"] - before["backlog_spans"])
    rows.append({
        "backlog_spans": 10_000_000, "rss_mb": round(last["rss_mb"] + slope * (10_000_000 - last["backlog_spans"])),
        "cpu_us_per_span_taken": "extrapolated", "ack_p99_ms": None, "journal_mb": None,
    })  # fmt: skip
    return rows


def start(given: argparse.Namespace, folder: Path) -> list[Row]:
    """A journal of so many bytes, written as the daemon writes it, and how long the daemon takes until it is ready; the first row is without any."""
    return [_started(folder / str(size), size) for size in (0.0, 0.2 if given.quick else given.journal_gb)]


def _started(folder: Path, size: float) -> Row:
    spans = _written_journal(folder / "data" / "journal", size)
    room = {"path": str(folder / "data"), "journal": {"max_size": f"{int(size * 2) + 10}GiB"}}
    with daemon(folder, 60.0 + 300.0 * size, more={**NEVER, "storage": room}) as one:
        return {
            "journal_gb": round(size, 1), "spans": spans, "ready_after_s": round(one.started_in, 2), "cpu_s": round(one.usage.cpu, 2),
            "rss_mb": round(one.usage.rss_mb),
        }  # fmt: skip


def _written_journal(folder: Path, size: float) -> int:
    """Fill a journal with requests; the number of spans."""
    from collectors.sink import Signal
    from monitor.clock import SystemClock
    from monitor.intake.journal import Journal

    journal = Journal(folder, SystemClock(), max_bytes=int(size * 2e9) + 10**9)
    made, serials, spans = templates(8), itertools.count(1), 0
    while journal.size < size * 1e9:
        written = [
            journal.append(one.body(next(serials).to_bytes(8, "big")), Signal.TRACES, "otlp", time.time())
            for one in made
        ]
        spans += sum(one.spans for one in made)
        written[-1].result()
    journal.close()
    return spans
