"""More traces than there is room for, for minutes: what is shed says nothing of how the runs ended."""

from __future__ import annotations

import math
import random
from collections import deque
from dataclasses import dataclass

from collectors.sink import Encoding, Overloaded, Signal
from tests.intake.desk import Desk
from tests.intake.traffic import agent, tool, trace_id, traces

SECONDS = 160
OFFERED_EACH_SECOND = 3
TRIES = 8
"""An SDK gives a batch up after 10 s."""

FAILING = 0.3


@dataclass(slots=True)
class Sending:
    """A run on its way: children first, the root in a second request. Runs that fail are larger and take longer."""

    name: str
    fails: bool
    requests: deque[bytes]
    tries: int = 0


def begun(name: str, draw: random.Random) -> Sending:
    """A new run with a drawn outcome."""
    fails = draw.random() < FAILING
    children = [tool(name, number) for number in range(1, 7 if fails else 3)]
    middle = len(children) // 2
    parts = (children[:middle], children[middle:], [agent(name)])
    return Sending(name, fails, deque(traces(*part) for part in parts))


def test_shedding_is_blind_to_the_outcome_and_cuts_no_run(desk: Desk) -> None:
    """At three times what fits, with senders that give up: nearly all runs of which something was taken are whole, and as many of them fail as were offered."""
    draw = random.Random(11)
    desk.index.max_open_items = 1500
    runs: list[Sending] = []
    on_the_way: list[Sending] = []
    given_up: set[str] = set()
    for second in range(SECONDS):
        fresh = [begun(f"run{second}.{number}", draw) for number in range(OFFERED_EACH_SECOND)]
        runs += fresh
        on_the_way += fresh
        draw.shuffle(on_the_way)
        for run in on_the_way:
            try:
                desk.intake.accept(run.requests[0], Signal.TRACES, Encoding.PROTOBUF, "otlp").result(timeout=10)
            except Overloaded:
                run.tries += 1
                if run.tries == TRIES:
                    given_up.add(run.name)
                continue
            run.requests.popleft()
            run.tries = 0
        on_the_way = [run for run in on_the_way if run.requests and run.name not in given_up]
        desk.wait(1.0)
    desk.wait(3600.0)
    offered = {trace_id(run.name).hex(): run for run in runs}
    taken = {one.trace_id: one for one in desk.store.saved}
    whole = {trace for trace in taken if not offered[trace].requests}
    assert len(given_up) > 60
    assert len(whole) > 0.95 * len(taken) > 80
    assert all(taken[trace].settled_by == ("root_ended" if trace in whole else "idle") for trace in taken)
    truth = sum(run.fails for run in runs) / len(runs)
    found = sum(offered[trace].fails for trace in whole) / len(whole)
    assert abs(found - truth) < 3 * math.sqrt(truth * (1 - truth) / len(whole))
    assert desk.count("spans_rejected_total", collector="otlp", reason="overloaded") > len(given_up)
