"""How long acknowledgements take while a page of many series is made, beside how long they take otherwise."""

from __future__ import annotations

import itertools
import os
import statistics
import threading
import time
from pathlib import Path

from bench.measured import daemon
from bench.population import Population, agents
from bench.scrape import LINES_AN_AGENT
from bench.traffic import HttpSender, templates

Times = list[tuple[float, float]]


def longest_acknowledgement(folder: Path, series: int, seconds: float = 16.0, every: float = 2.0) -> dict[str, float]:
    """One sender without a pause, one small request after the other; every two seconds somebody scrapes. Figures change meanwhile: a run a second.

    `stall_ms` is the longest acknowledgement that overlaps a scrape, `usual_ms` the median of all, `control_ms` the longest in equally many and long
    stretches without a scrape: what else happens on this machine. The first two are told apart by subtracting.
    """
    population = Population(folder / "data")
    for _ in range(2):
        population.run(agents(max(1, series // LINES_AN_AGENT)))
        population.judge()
    population.close()
    with daemon(
        folder, every="1s", more={"metrics": {"max_series_per_metric": max(10_000, series), "zero_for": "1s"}}
    ) as one:
        one.usage.idle(20)
        one.get("/metrics")
        before = one.usage.cpu
        acknowledged, scraped = _watch(one.http_port, lambda: one.get("/metrics"), seconds, every)
        cpu = one.usage.cpu - before
    usual = statistics.median(end - begin for begin, end in acknowledged)
    quiet = [(begin - every / 2, end - every / 2) for begin, end in scraped]
    return {
        "stall_ms": round((_longest(acknowledged, scraped) - usual) * 1e3, 1),
        "control_ms": round((_longest(acknowledged, quiet) - usual) * 1e3, 1),
        "usual_ms": round(usual * 1e3, 2),
        "scrape_ms": round(statistics.median(end - begin for begin, end in scraped) * 1e3, 1),
        "scrapes": len(scraped),
        "daemon_cpu_s": round(cpu, 2),
    }


def _watch(port: int, scrape: object, seconds: float, every: float) -> tuple[Times, Times]:
    acknowledged: Times = []
    scraped: Times = []
    ends = time.monotonic() + seconds

    def sending() -> None:
        sender, made = HttpSender(port), templates(4, invocations=1)
        serials = itertools.count(int.from_bytes(os.urandom(4), "big") << 24)
        for template in itertools.cycle(made):
            began = time.monotonic()
            if began > ends:
                break
            sender.send(template.body(next(serials).to_bytes(8, "big")))
            acknowledged.append((began, time.monotonic()))
            time.sleep(0.002)
        sender.close()

    thread = threading.Thread(target=sending)
    thread.start()
    while time.monotonic() < ends - every:
        time.sleep(every)
        began = time.monotonic()
        scrape()  # type: ignore[operator]
        scraped.append((began, time.monotonic()))
    thread.join()
    return acknowledged, scraped


def _longest(acknowledged: Times, stretches: Times) -> float:
    return max(
        (end - begin for begin, end in acknowledged if any(begin < last and end > first for first, last in stretches)),
        default=0.0,
    )
