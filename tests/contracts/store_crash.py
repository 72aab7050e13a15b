"""A process that works on a store until it is killed: `python -m tests.contracts.store_crash OPENER PLACE FROM`.

Saves invocations, runs ticks, claims, and finishes or postpones, one after the other and over and over, and prints a line after each round.
"""

from __future__ import annotations

import importlib
import itertools
import sys

from monitor.model.verdict import Outcome
from tests.contracts.store_material import (
    BOOKING,
    T0,
    TONE,
    failure_of,
    invocation,
    number_of,
    request,
    settlement,
    take_below,
    verdict_of,
)

PER_ROUND = 4


def main(opener: str, place: str, start: int) -> None:
    """Work until killed. Every round starts with what the last process may have left half done: the same again."""
    module, _, name = opener.partition(":")
    store = getattr(importlib.import_module(module), name)(place)
    for step in itertools.count(max(0, start - 1)):
        for again in (step, step):
            store.save_traces([settlement(invocation(f"{again}/{n}")) for n in range(PER_ROUND)])
        store.execute_run(request(tick=T0 + 60 + step, rubrics=(BOOKING, TONE)), take_below(0.7))
        claimed = store.claim_evaluations(8, T0 + 1_000 + 100 * step, 50)
        results = []
        for evaluation in claimed:
            kind = int(1_000 * number_of(f"{evaluation.invocation.id}/{evaluation.rubric.rubric}"))
            if kind % 10 == 0 and evaluation.attempts < 2:
                store.postpone_evaluation(evaluation, T0)
            elif kind % 10 == 1:
                results.append((evaluation, failure_of(evaluation)))
            else:
                results.append((evaluation, verdict_of(evaluation, Outcome.FAIL if kind % 3 == 0 else Outcome.PASS)))
        for result in results[: len(results) // 2]:
            store.finish_evaluations([result])
        store.finish_evaluations(results)
        sys.stdout.write(f"{step}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
