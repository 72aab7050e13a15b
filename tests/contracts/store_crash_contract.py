"""The process may die at any line."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from monitor.model.run import Query
from monitor.model.tallies import TallyName
from monitor.store.protocol import Store
from tests.contracts.store_crash import PER_ROUND
from tests.contracts.store_material import BOOKING, T0, TONE, figures, invocation, number_of, pages, request, take_below

ROOT = Path(__file__).parents[2]


def work_until_killed(opener: str, place: str, start: int, lines: int, delay: float) -> int:
    """Run the worker, kill it hard some time after so many rounds, and return the next round."""
    worker = subprocess.Popen(
        [sys.executable, "-m", "tests.contracts.store_crash", opener, place, str(start)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert worker.stdout is not None
    last = start - 1
    with worker:
        for _ in range(lines):
            last = int(worker.stdout.readline())
        try:
            worker.wait(delay)
        except subprocess.TimeoutExpired:
            worker.send_signal(signal.SIGKILL)
        rest = worker.stdout.read().split()
    assert worker.returncode == -signal.SIGKILL
    return int(rest[-1]) + 1 if rest and rest[-1].isdigit() else last + 1


def recount(store: Store, traces: list[str]) -> Mapping[str, Counter[tuple[str, ...]]]:
    """What the tallies must be, counted again from rows."""
    counted: dict[str, Counter[tuple[str, ...]]] = {name: Counter() for name in TallyName}
    for item in pages(store.list_invocations, limit=1_000):
        labels = (item["agent_name"], item["agent_version"], item["environment"], item["completeness"]["settled_by"])
        counted[TallyName.INVOCATIONS][labels] += 1
    for trace in traces:
        for decision in store.decisions(trace):
            if decision["decision"] == "drawn":
                counted[TallyName.SELECTED]["m",] += 1
            elif decision["decision"] == "not_selected":
                counted[TallyName.NOT_SELECTED]["m", decision["reason"]] += 1
    for item in pages(store.list_verdicts, limit=1_000):
        key = (
            item["agent_name"],
            item["agent_version"],
            item["environment"],
            "m",
            item["rubric"],
            item["rubric_version"],
        )
        counted[TallyName.VERDICTS][*key, item["verdict"]] += 1
        counted[TallyName.SCORE_BUCKET][item["agent_name"], "0.8", "m", item["rubric"]] += 1
    for item in pages(store.list_evaluations, limit=1_000, state="error"):
        counted[TallyName.EVALUATION_ERRORS]["m", item["error"]["type"], item["rubric"]] += 1
    for item in pages(store.list_runs, limit=1_000):
        counted[TallyName.RUNS]["m", item["outcome"]] += 1
    return counted


class CrashContract:
    """What a store promises when the process dies."""

    def test_a_killed_process_leaves_a_consistent_store(
        self, opener: str, place: str, open_again: Callable[[], Store]
    ) -> None:
        """After kill -9 in the middle of work, several times: one verdict a key, and tallies that equal a recount of the rows."""
        chance, step = random.Random(4), 0
        for _ in range(4):
            step = work_until_killed(opener, place, step, lines=3, delay=chance.uniform(0, 0.03))
        store = open_again()
        store.execute_run(request(tick=T0 + 10**6, rubrics=(BOOKING, TONE)), take_below(0.7))
        ids = [invocation(f"{n}/{m}").id for n in range(step + 1) for m in range(PER_ROUND)]
        traces = [one.partition("-")[0] for one in ids]
        stored = {item["id"] for item in pages(store.list_invocations, limit=1_000)}
        assert {one for one in ids if int(ids.index(one)) < PER_ROUND * step} <= stored
        drawn = {one for one in stored if number_of(one) < 0.7}
        evaluations = list(pages(store.list_evaluations, limit=1_000))
        keys = Counter((item["invocation_id"], item["rubric_version"]) for item in evaluations)
        assert keys == Counter((one, ref.version) for one in drawn for ref in (BOOKING, TONE))
        self._check_verdicts(store, evaluations)
        counted = recount(store, traces)
        for name in TallyName:
            if name in (TallyName.SCORE_SUM, TallyName.RUN_LAST_SUCCESS) or name.startswith("dimension"):
                continue
            assert figures(store, name) == dict(counted[name]), name

    def _check_verdicts(self, store: Store, evaluations: list[Mapping[str, Any]]) -> None:
        """Each done evaluation has one verdict, and no other has one."""
        verdicts = Counter((v["invocation_id"], v["rubric_version"]) for v in pages(store.list_verdicts, limit=1_000))
        done = Counter((e["invocation_id"], e["rubric_version"]) for e in evaluations if e["state"] == "done")
        assert verdicts == done
        assert sum(done.values()) > 10
        assert len(store.judged("m", 0, T0 * 2)) == sum(done.values())
        assert store.list_verdicts(Query(limit=1)).items != ()
