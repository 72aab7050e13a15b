"""A store with many agents, invocations, runs and verdicts in it, made by the store's own methods."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from monitor.model.invocation import Invocation
from monitor.model.run import InvocationChange, JournalPosition, RubricRef, RunRequest, TraceSettlement
from monitor.model.verdict import Judgement, Outcome, Verdict
from monitor.model.wire import invocation_from_json
from monitor.sampling import SamplingRule, draw
from monitor.store.sqlite import SqliteStore

MONITOR, RUBRIC = "bench", "final_answer_present"
BATCH = 500


class Population:
    """Fills a store. Everything is counted as a daemon counts it; times are seconds before now."""

    def __init__(self, folder: Path, rubrics: Sequence[RubricRef] = (RubricRef(RUBRIC, "aaaaaaaaaaaa"),)) -> None:
        self.store = SqliteStore(folder)
        self.rubrics = tuple(rubrics)
        self._made = int(time.time()) << 24
        self._tick = time.time() - 60

    def run(self, agents: Iterable[str], **content: Any) -> int:
        """Settle one invocation of each agent and let a run draw all; how many were drawn. They wait to be judged."""
        made = [self._invocation(agent, **content) for agent in agents]
        self._tick += 0.001
        for part in _parts(made):
            self.store.save_traces([self._settlement(one) for one in part])
        request = RunRequest(MONITOR, self._tick, self._tick + 1, self.rubrics, self._tick)
        self.store.execute_run(request, lambda candidates, _: draw(candidates, SamplingRule()))
        return len(made)

    def judge(self, failing: int = 10) -> int:
        """Judge all that waits, every `failing`th one as failed; how many there were."""
        judged = 0
        while claimed := self.store.claim_evaluations(BATCH, time.time(), 600.0):
            now = time.time()
            results = []
            for evaluation in claimed:
                judged += 1
                outcome, score = (Outcome.FAIL, 0.25) if judged % failing == 0 else (Outcome.PASS, 0.95)
                one = evaluation.invocation
                results.append((
                    evaluation,
                    Verdict(
                        one.id, one.trace_id, one.span_id, one.conversation_id, one.agent_name, one.agent_version, one.environment,
                        self._tick, evaluation.monitor, evaluation.rubric.rubric, evaluation.rubric.version, None,
                        Judgement(outcome, score=score), evaluation.inclusion_probability, evaluation.revision, now, one.label_agent,
                    ),
                ))  # fmt: skip
            self.store.finish_evaluations(results)
        return judged

    def _invocation(self, agent: str, **content: Any) -> Invocation:
        self._made += 1
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self._tick))
        trace = f"{self._made:032x}"
        return invocation_from_json({
            "id": f"{trace}-{self._made:016x}", "trace_id": trace, "started_at": at, "ended_at": at, "agent_name": agent,
            "environment": "production", "user_input": "Where is my order?", "final_response": "On its way.",
            "completeness": {"settled_by": "root_ended"}, **content,
        })  # fmt: skip

    def _settlement(self, one: Invocation) -> TraceSettlement:
        change = InvocationChange(one, frozenset({one.span_id}), "d")
        return TraceSettlement(
            one.trace_id, "otlp", "root_ended", self._tick, JournalPosition(1, 1), 1, 0, (change,), (MONITOR,)
        )

    def close(self) -> None:
        """Close the store."""
        self.store.close()


def agents(count: int) -> list[str]:
    """Names of agents."""
    return [f"agent-{number:05d}" for number in range(count)]


def _parts(items: Sequence[Any]) -> Iterator[Sequence[Any]]:
    for start in range(0, len(items), BATCH):
        yield items[start : start + BATCH]
