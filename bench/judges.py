"""Sections of `bench load`: judge calls on a scripted server, and memory with a long queue of evaluations."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.measured import Usage
from bench.target import environment

Row = dict[str, Any]
LATENCY = 0.2
SERVER = """
import asyncio, sys
from tests.support.judge_server import JudgeServer
async def main():
    async with JudgeServer(latency=float(sys.argv[1])) as server:
        print(server.url, flush=True)
        await asyncio.Event().wait()
asyncio.run(main())
"""


def throughput(given: argparse.Namespace, folder: Path) -> list[Row]:
    """The daemon's workers and the bare call, each in a process of its own, by calls in flight."""
    rows = []
    with judge_server(LATENCY) as url:
        for concurrency, calls in ((32, 200),) if given.quick else ((32, 500), (128, 2000)):
            bare, ours = _run("bare", url, calls, concurrency), _run("ours", url, calls, concurrency)
            ideal = calls / concurrency * LATENCY
            rows.append({
                "in_flight": concurrency, "calls": calls, "ideal_s": round(ideal, 2), "wall_s": ours["wall_s"], "of_ideal": round(ours["wall_s"] / ideal, 2),
                "cpu_ms": ours["cpu_ms"], "bare_wall_s": bare["wall_s"], "bare_cpu_ms": bare["cpu_ms"], "cpu_of_bare": round(ours["cpu_ms"] / bare["cpu_ms"], 2),
                "rss_mb": ours["rss_mb"],
            })  # fmt: skip
    return rows


def backlogs(given: argparse.Namespace, folder: Path) -> list[Row]:
    """Workers with few and with many evaluations waiting: memory, and how many they judge in some seconds."""
    with judge_server(0.02) as url:
        return [
            _run("backlog", url, count, 32, 2.0 if given.quick else 6.0)
            for count in ((200, 5_000) if given.quick else (1_000, 100_000))
        ]


def _run(kind: str, url: str, count: int, concurrency: int, seconds: float = 0.0) -> Row:
    command = [sys.executable, "-m", "bench.judges", kind, url, str(count), str(concurrency), str(seconds)]
    found = subprocess.run(command, env=environment(), stdout=subprocess.PIPE, text=True, check=True)
    return dict(json.loads(found.stdout.splitlines()[-1]))


@contextmanager
def judge_server(latency: float) -> Iterator[str]:
    """The scripted server of the tests in a process of its own; its base URL."""
    with subprocess.Popen(
        [sys.executable, "-c", SERVER, str(latency)], env=environment(), stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


def rows_of(count: int) -> list[dict[str, str]]:
    """Questions, contexts and answers of about 4 kB."""
    import random

    from bench.traffic import text

    dice = random.Random(5)
    return [{"query": text(dice, 200), "context": text(dice, 2800), "response": text(dice, 800)} for _ in range(count)]


async def bare(url: str, count: int, concurrency: int) -> tuple[float, float]:
    """AsyncOpenAI on its aiohttp transport with a schema, and nothing else; wall and CPU seconds."""
    from openai import AsyncOpenAI, DefaultAioHttpClient

    schema = {"type": "object", "additionalProperties": False, "required": ["reason", "verdict"], "properties": {"reason": {"type": "string"}, "verdict": {"enum": ["yes", "no"]}}}  # fmt: skip
    client = AsyncOpenAI(base_url=url, api_key="x", max_retries=0, http_client=DefaultAioHttpClient())
    slots = asyncio.Semaphore(concurrency)

    async def ask(row: dict[str, str]) -> Any:
        async with slots:
            answer = await client.chat.completions.create(
                model="m", temperature=0, response_format={"type": "json_schema", "json_schema": {"name": "verdict", "strict": True, "schema": schema}},
                messages=[{"role": "system", "content": "Judge whether the answer is grounded. Reply as JSON."}, {"role": "user", "content": "\n".join(row.values())}],
            )  # fmt: skip
        return json.loads(answer.choices[0].message.content or "{}")

    rows = rows_of(count)
    await asyncio.gather(*(ask(row) for row in rows[:2]))
    cpu, wall = time.process_time(), time.perf_counter()
    await asyncio.gather(*(ask(row) for row in rows))
    spent = time.perf_counter() - wall, time.process_time() - cpu
    await client.close()
    return spent


async def backlog(url: str, count: int, concurrency: int, seconds: float) -> Row:
    """`count` evaluations wait (each invocation by 20 rubrics); memory before any and while they are worked off."""
    import tempfile

    from bench.judging import judge_and_rubric
    from bench.population import MONITOR, Population, agents
    from monitor.clock import SystemClock
    from monitor.judging.worker import EvaluationWorkers
    from monitor.model.run import RubricRef
    from monitor.rubrics.version import definition, rubric_version

    judge, rubric = judge_and_rubric(url, concurrency)
    version = rubric_version(rubric, judge.settings)
    with tempfile.TemporaryDirectory() as folder:
        population = Population(
            Path(folder), [RubricRef(f"quality_{n}", f"{n:02d}{version[2:]}", "default") for n in range(20)]
        )
        for reference in population.rubrics:
            population.store.remember_rubric(reference.version, definition(rubric, judge.settings), time.time())
        for _ in range(max(1, count // 20 // 500)):
            population.run(agents(min(500, count // 20)))
        usage, judged = Usage(os.getpid()), 0

        def note(_: Any) -> None:
            nonlocal judged
            judged += 1

        workers = EvaluationWorkers(population.store, {"default": judge}, SystemClock(), on_verdict=note)
        waiting, before, cpu = _pending(population, MONITOR), usage.rss_mb, time.process_time()
        await workers.start()
        await asyncio.sleep(seconds)
        row = {
            "waiting": waiting, "rss_before_mb": round(before), "rss_mb": round(usage.rss_mb), "judged": judged,
            "judged_per_s": round(judged / seconds), "cpu_ms_per_judged": round((time.process_time() - cpu) / max(1, judged) * 1e3, 2),
        }  # fmt: skip
        await workers.stop(5.0)
        await judge.close()
        population.close()
        return row


def _pending(population: Any, monitor: str) -> int:
    return sum(one.count for one in population.store.pending(time.time()) if one.monitor == monitor)


def main(arguments: list[str]) -> None:
    """One measurement in this process, as JSON."""
    kind, url, count, concurrency, seconds = (
        arguments[0],
        arguments[1],
        int(arguments[2]),
        int(arguments[3]),
        float(arguments[4]),
    )
    if kind == "backlog":
        print(json.dumps(asyncio.run(backlog(url, count, concurrency, seconds))))
        return
    if kind == "bare":
        wall, cpu = asyncio.run(bare(url, count, concurrency))
    else:
        from bench.judging import by_workers

        wall, cpu, judged = asyncio.run(by_workers(url, rows_of(count), concurrency))
        assert judged == min(count, 1000), judged
    print(
        json.dumps(
            {
                "wall_s": round(wall, 2),
                "cpu_ms": round(cpu / count * 1e3, 3),
                "rss_mb": round(Usage(os.getpid()).peak_mb),
            }
        )
    )


if __name__ == "__main__":
    main(sys.argv[1:])
