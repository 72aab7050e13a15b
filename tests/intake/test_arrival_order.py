"""Whatever the order, batching, duplication, restarts and settling in between: the same invocations."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from monitor.intake.revisions import digest
from monitor.model.invocation import Invocation
from tests.intake.desk import Desk
from tests.intake.recorded_items import Piece, pieces, shuffled

SCENARIOS = (
    "s1_one_tool",
    "s4_two_turns_same_session",
    "s12_same_tool_twice_parallel",
    "s11_run_fails",
    "s15_two_runs_at_once",
)
DIALECTS = (
    "google-adk", "google-adk--openinference", "langgraph--openllmetry", "langgraph--openlit", "openai-agents--openinference",
    "openai-agents--otel-v2", "openai--otel-v2-latest-events", "pydantic-ai", "pydantic-ai-1.0--logs", "strands-agents",
    "vercel-ai-sdk", "agent-framework", "autogen", "anthropic--otel-genai",
)  # fmt: skip


def invocations_of(batches: Sequence[Sequence[Piece]], restart_at: int = -1, settle_at: int = -1) -> list[Invocation]:
    """What is stored after all batches were sent and everything has settled; checks that nothing is left open or unread."""
    with tempfile.TemporaryDirectory() as folder:
        desk = Desk(Path(folder) / "journal")
        try:
            for number, batch in enumerate(batches):
                if number == restart_at:
                    desk.restart()
                if number == settle_at:
                    desk.wait(901.0)
                desk.send(b"".join(piece.body for piece in batch), batch[0].signal)
            for _ in range(2):
                desk.wait(901.0)
            assert desk.index.open_items == 0
            saved = {settlement.trace_id for settlement in desk.store.saved}
            return [stored.invocation for trace in sorted(saved) for stored in desk.store.invocations(trace)]
        finally:
            desk.journal.close()


RUNS = given(
    dialect=st.sampled_from(DIALECTS),
    scenario=st.sampled_from(SCENARIOS),
    draw=st.randoms(use_true_random=False),
    when=st.floats(0, 1, exclude_max=True),
)
QUICKLY = settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@QUICKLY
@RUNS
def test_the_same_invocations_whatever_the_order(
    shared: Path, dialect: str, scenario: str, draw: random.Random, when: float
) -> None:
    """Recorded traffic in any order and batching, half of it twice, with a restart in the middle: equal ids and meanings."""
    recorded = pieces(shared / "traces" / dialect, scenario)
    batches = shuffled(recorded, draw, duplicated=0.5)
    found = invocations_of(batches, restart_at=int(when * len(batches)))
    expected = invocations_of([[piece] for piece in recorded])
    assert {one.id: digest(one) for one in found} == {one.id: digest(one) for one in expected}


@QUICKLY
@RUNS
def test_late_data_ends_at_the_same_invocations(
    shared: Path, dialect: str, scenario: str, draw: random.Random, when: float
) -> None:
    """If everything settles in between, the rest is late data: the revisions end with the same meanings, under ids that never changed."""
    recorded = pieces(shared / "traces" / dialect, scenario)
    batches = shuffled(recorded, draw, duplicated=0.5)
    found = invocations_of(batches, settle_at=int(when * len(batches)))
    expected = invocations_of([[piece] for piece in recorded])
    assert sorted(map(_meaning, found)) == sorted(map(_meaning, expected))


def _meaning(invocation: Invocation) -> str:
    """What it says, whatever id it was first stored under."""
    return digest(replace(invocation, id=""))
