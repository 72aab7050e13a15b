"""`kill -9` at any moment of intake, settling and judging: what was acknowledged is there afterwards, whole, and judged exactly once."""

from __future__ import annotations

import os
import random
import threading
import time
from collections import Counter, deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.daemon import Daemon, wait_for
from tests.support.judge_server import JudgeServer, judge_server
from tests.support.load import GrpcPoster, HttpPoster, Poster, Run, agent_run

ROUNDS = int(os.environ.get("RUBRICD_KILL_ROUNDS", "3"))
"""Kills in one run of the test; `make torture` sets more."""

WITHIN_SECONDS = float(os.environ.get("RUBRICD_KILL_SECONDS", "1500"))
"""After so long no further round is begun."""

RUNS_OF_ROUND = 21
TOOLS = 2


@pytest.fixture
def judge() -> Iterator[JudgeServer]:
    """A judge slow enough to be caught in the middle of a call."""
    with judge_server(latency=0.08) as server:
        yield server


class Load:
    """Senders on both transports, as SDKs are: what was not acknowledged is sent again, also to the next process.

    `acknowledged` has the runs of which every request was acknowledged; `resent` counts requests that were sent again.
    """

    def __init__(self) -> None:
        self.acknowledged: set[str] = set()
        self.resent = 0
        self._waiting: deque[tuple[Run, int]] = deque()  # a run and how many of its requests were acknowledged
        self._lock = threading.Lock()

    def send(self, daemon: Daemon, stop: threading.Event) -> list[threading.Thread]:
        """Start to send; the threads end when `stop` is set or this round's runs are sent."""
        posters: list[Poster] = [
            HttpPoster(daemon.http_port),
            HttpPoster(daemon.http_port),
            GrpcPoster(daemon.grpc_port),
        ]
        threads = [threading.Thread(target=self._send, args=(poster, stop)) for poster in posters]
        for thread in threads:
            thread.start()
        return threads

    def _send(self, poster: Poster, stop: threading.Event) -> None:
        for number in range(RUNS_OF_ROUND // 3):
            run, done = self._next(number)
            while done < len(run.requests) and not stop.is_set() and poster.post(run.requests[done]):
                done += 1
            with self._lock:
                if done == len(run.requests):
                    self.acknowledged.add(run.trace_id)
                else:
                    self._waiting.append((run, done))
            if stop.is_set():
                break
        poster.close()

    def _next(self, number: int) -> tuple[Run, int]:
        with self._lock:
            if self._waiting:
                self.resent += 1
                return self._waiting.popleft()
        return agent_run(TOOLS, split=number % 2 == 0), 0


def configuration(judge: JudgeServer) -> dict[str, Any]:
    """One deterministic and one judged rubric, every second, without a cap."""
    return {
        "judges": {"default": {"model": "judge-model", "base_url": judge.url, "max_concurrency": 64}},
        "rubrics": [{"name": "polite", "statement": "The answer never blames the user."}],
        "monitors": {
            "all": {
                "rubrics": ["run_succeeded", "polite"],
                "sample": {"rate": 1.0, "max_per_hour": 10_000_000},
                "schedule": {"every": "1s", "catch_up": 30},  # else what a start of some seconds holds up is missed
            }
        },
    }


def kill_one(daemon: Daemon, load: Load, draw: random.Random) -> None:
    """Start, load, and kill at a random moment: now and then while it starts."""
    starting = draw.random() < 0.15
    stop = threading.Event()
    daemon.start(ready=not starting)
    threads = load.send(daemon, stop)
    time.sleep(draw.uniform(0.2, 3.0) if starting else draw.uniform(0.0, 1.5))
    daemon.kill()
    stop.set()
    for thread in threads:
        thread.join(40)


def test_nothing_acknowledged_is_lost_and_each_is_judged_once(
    tmp_path: Path, judge: JudgeServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """Through kills at random moments of start, intake and judging: every acknowledged run has one whole invocation and one verdict per rubric, and the counters agree."""
    daemon, load, draw = (
        Daemon(tmp_path, configuration(judge)),
        Load(),
        random.Random(int(os.environ.get("RUBRICD_SEED", "7"))),
    )
    began, rounds = time.monotonic(), 0
    while rounds < ROUNDS and time.monotonic() - began < WITHIN_SECONDS:
        kill_one(daemon, load, draw)
        rounds += 1
    daemon.start()
    try:
        for thread in load.send(daemon, threading.Event()):
            thread.join(60)
        invocations = "/api/v1/invocations?since=6h"
        wait_for(
            lambda: load.acknowledged <= {one["trace_id"] for one in daemon.items(invocations)}, "all invocations", 60
        )
        found = daemon.items(invocations)
        assert Counter(one["trace_id"] for one in found).most_common(1)[0][1] == 1
        whole = {one["trace_id"] for one in found if len(one["tool_calls"]) == TOOLS}
        assert load.acknowledged <= whole
        expected = 2 * (len(found) - int(daemon.metric("rubricd_not_selected_total", reason="missed") or 0))

        def ended() -> bool:
            errors = (
                daemon.metric("rubricd_evaluation_errors_total") or 0
            )  # five crashes end an evaluation (decision 22)
            return len(daemon.items("/api/v1/verdicts?since=6h")) + errors == expected

        wait_for(ended, "all evaluations to end", 90)
        keys = Counter((one["invocation_id"], one["rubric"]) for one in daemon.items("/api/v1/verdicts?since=6h"))
        assert len(keys) == keys.total()
        assert len(keys) == expected or rounds > 10
        wait_for(
            lambda: daemon.metric("rubricd_verdicts_total") == len(keys), "the counters to agree with the verdicts"
        )
        assert daemon.metric("rubricd_invocations_total") == len(found)
        assert len(load.acknowledged) > 5 * rounds
        with capsys.disabled():
            print(  # noqa: T201 - the figures of a long run
                f"\n{rounds} kills in {time.monotonic() - began:.0f} s: {len(load.acknowledged)} runs acknowledged, {load.resent} sent again, "
                f"{len(found)} invocations, {len(keys)} verdicts of {expected}, {judge.count} calls of the judge, none lost or doubled"
            ) if rounds > 10 else None
    finally:
        daemon.stop()
