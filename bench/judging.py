"""`python -m bench judging`: what a judge call costs here, beside the bare AsyncOpenAI call and the peers' runners, on one scripted server.

The server, the peers' clients and the job (500 invocations with about 4 kB of prompt, one rubric, one call each, 200 ms latency) are those of
judge_bench.py in the shared folder (`--shared`, else RUBRICD_SHARED, else ../shared). Peers live in environments of their own: `--python
pydantic=/path/bin/python`. Our side is this file's adapter: it maps the rows to invocations and times the evaluation alone, once by `rubricd score`'s way
and once by the daemon's (`--way workers`: claims from a store, votes, verdicts stored).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RUBRIC = "The answer must address the question, be grounded in the context, and contain no claim that the context contradicts."
COLUMNS = ("client", "wall_s", "calls_per_s", "cpu_ms_per_call", "rss_peak_mb", "peak_in_flight", "scored")


def main(arguments: Sequence[str]) -> int:
    """Run the comparison and print a table, or be the adapter of one run."""
    parser = argparse.ArgumentParser(prog="python -m bench judging", description=__doc__)
    parser.add_argument("--shared", type=Path, default=Path(os.environ.get("RUBRICD_SHARED", ROOT.parent / "shared")))
    parser.add_argument(
        "--python", action="append", default=[], metavar="NAME=INTERPRETER", help="a peer's environment"
    )
    parser.add_argument(
        "--clients",
        default="openai_async",
        help="clients of judge_bench.py (default: %(default)s); peers of --python are added",
    )
    parser.add_argument("--n", type=int, default=500)
    parser.add_argument("--concurrency", type=int, default=32)
    parser.add_argument("--latency", type=float, default=0.2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--way",
        choices=("score", "workers"),
        default="score",
        help="by `rubricd score`'s way or by the daemon's workers",
    )
    parser.add_argument(
        "--adapter", nargs=2, metavar=("URL", "DATA"), help="evaluate the rows of DATA with the judge at URL"
    )
    given = parser.parse_args(arguments)
    if given.adapter:
        return adapter(given.adapter[0], Path(given.adapter[1]), given.concurrency, given.way)
    return compare(given)


def compare(given: argparse.Namespace) -> int:
    """Run judge_bench.py with us as its target, and print the medians of its rounds."""
    peers = [one.partition("=")[0] for one in given.python]
    clients = ",".join([*given.clients.split(","), *peers, "target"])
    us = f"{sys.executable} -m bench judging --adapter {{url}} {{data}} --concurrency {{concurrency}} --way {given.way}"
    command = [
        sys.executable, str(given.shared / "bench" / "judge_bench.py"), "--clients", clients, "--n", str(given.n), "--concurrency",
        str(given.concurrency), "--latency", str(given.latency), "--rounds", str(given.rounds), "--target-cmd", us,
        *[part for one in given.python for part in ("--python", one)],
    ]  # fmt: skip
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    rows: list[dict[str, Any]] = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        for line in process.stdout or ():
            found = json.loads(line)
            print(line.rstrip(), file=sys.stderr)
            if found["bench"] == "judge_summary":
                rows.append(found)
    print("  ".join(f"{name:>16}" for name in COLUMNS))
    for row in rows:
        print("  ".join(f"{row.get(name, '-')!s:>16}" for name in COLUMNS))
    return process.returncode


def adapter(url: str, data: Path, concurrency: int, way: str) -> int:
    """Evaluate the rows and print wall and processor seconds of the evaluation alone."""
    rows = [json.loads(line) for line in data.read_text().splitlines()]
    run = by_score if way == "score" else by_workers
    wall, cpu, scored = asyncio.run(run(url, rows, concurrency))
    print(json.dumps({"wall_s": round(wall, 3), "cpu_s": round(cpu, 3), "scored": scored}))
    return 0


def invocations(rows: Sequence[dict[str, Any]]) -> list[Any]:
    """A row as an invocation: what was asked, what a search returned, what was answered."""
    from monitor.model.wire import invocation_from_json

    at = "2026-11-18T09:00:00Z"
    return [
        invocation_from_json({
            "id": f"{index:032x}-{index:016x}", "trace_id": f"{index:032x}", "started_at": at, "ended_at": at, "user_input": row["query"],
            "final_response": row["response"], "completeness": {"settled_by": "root_ended"},
            "tool_calls": [{"name": "search", "arguments": {}, "result": row["context"], "status": "ok"}],
        })
        for index, row in enumerate(rows, start=1)
    ]  # fmt: skip


def judge_and_rubric(url: str, concurrency: int) -> tuple[Any, Any]:
    """The judge as it is configured, and the rubric of the job."""
    from monitor.clock import SystemClock
    from monitor.judging.clients.openai_client import OpenAIClient
    from monitor.judging.judge import Judge
    from monitor.rubrics.files import read_text
    from monitor.settings.privacy import USUAL
    from monitor.settings.tree import JudgeSettings

    settings = JudgeSettings.model_validate(
        {"model": "gpt-4o-mini", "base_url": url, "api_key": "x", "max_concurrency": concurrency}
    )
    (read,) = read_text(json.dumps({"name": "quality", "statement": RUBRIC}), "bench")
    clock = SystemClock()
    return Judge("default", settings, OpenAIClient(settings, clock), clock, redaction=USUAL), read.rubric


async def by_score(url: str, rows: Sequence[dict[str, Any]], concurrency: int) -> tuple[float, float, int]:
    """`rubricd score`: invocations in memory, verdicts in memory."""
    from monitor.clock import SystemClock
    from monitor.offline import Scoring, score

    judge, rubric = judge_and_rubric(url, concurrency)
    read = invocations(rows)
    await score(
        Scoring(read[:2], [rubric], judge), SystemClock(), lambda _: None, close=False
    )  # imports, first connections
    cpu, wall = time.process_time(), time.perf_counter()
    verdicts = await score(Scoring(read, [rubric], judge), SystemClock(), lambda _: None)
    return (
        time.perf_counter() - wall,
        time.process_time() - cpu,
        sum(one.judgement.score is not None for one in verdicts),
    )


async def by_workers(url: str, rows: Sequence[dict[str, Any]], concurrency: int) -> tuple[float, float, int]:
    """The daemon: evaluations pending in a store are claimed, judged and stored."""
    from monitor.clock import SystemClock
    from monitor.judging.worker import EvaluationWorkers
    from monitor.model.run import InvocationChange, JournalPosition, Query, RubricRef, RunRequest, TraceSettlement
    from monitor.rubrics.version import definition, rubric_version
    from monitor.sampling import SamplingRule, draw
    from monitor.store.sqlite import SqliteStore

    judge, rubric = judge_and_rubric(url, concurrency)
    version = rubric_version(rubric, judge.settings)
    with tempfile.TemporaryDirectory() as folder:
        store = SqliteStore(Path(folder))
        now = time.time()
        store.remember_rubric(version, definition(rubric, judge.settings), now)
        store.save_traces([
            TraceSettlement(one.trace_id, "otlp", "root_ended", now, JournalPosition(1, 1), 1, 0, (InvocationChange(one, frozenset({one.span_id}), "d"),), ("m",))
            for one in invocations(rows)
        ])  # fmt: skip
        request = RunRequest("m", now + 1, now + 1, (RubricRef("quality", version, "default"),), now)
        store.execute_run(request, lambda candidates, _: draw(candidates, SamplingRule()))
        await judge.evaluate(rubric, invocations(rows)[0])
        stored, all_stored = [], asyncio.Event()

        def note(verdict: Any) -> None:
            stored.append(verdict)
            if len(stored) == len(rows):
                all_stored.set()

        workers = EvaluationWorkers(store, {"default": judge}, SystemClock(), on_verdict=note)
        cpu, wall = time.process_time(), time.perf_counter()
        await workers.start()
        await asyncio.wait_for(all_stored.wait(), 600.0)
        spent = time.perf_counter() - wall, time.process_time() - cpu
        await workers.stop(5.0)
        scored = len(store.list_verdicts(Query(limit=1000)).items)
        store.close()
        await judge.close()
    return (*spent, scored)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
