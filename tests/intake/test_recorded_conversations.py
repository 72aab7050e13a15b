"""Recorded traffic of several turns: the conversations that the application had, whatever the order in which it came."""

from __future__ import annotations

import json
import random
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from monitor.intake.conversations import Conversations
from monitor.intake.options import SettlementOptions
from monitor.intake.revisions import digest
from monitor.model.conversation import conversations
from monitor.model.invocation import Invocation
from monitor.model.run import Candidate, Level
from monitor.store.sqlite import SqliteStore
from tests.assembly.recordings import reconstruct
from tests.contracts.store_material import request, take_all
from tests.intake.desk import Desk
from tests.intake.recorded_items import Piece, pieces, shuffled
from tests.intake.test_arrival_order import DIALECTS

SEVERAL = ("s4_two_turns_same_session", "s15_two_runs_at_once")
SILENCE = 1800.0
MONITOR = ("talks",)


def conversations_of(
    batches: Sequence[Sequence[Piece]], restart_at: int = -1, complete_at: int = -1
) -> dict[str, list[str]]:
    """What the stored conversations consist of, by name: the meanings of their turns. All that was sent has settled, and been silent."""
    with tempfile.TemporaryDirectory() as folder:
        store = SqliteStore(Path(folder))
        desk = Desk(Path(folder) / "journal", SettlementOptions(monitors=(), conversation_monitors=MONITOR))
        kept = Conversations(store, SILENCE, MONITOR)
        try:
            desk.settled_into = store
            desk.restart()
            kept.listen(desk.clock.now())
            for number, batch in enumerate(batches):
                if number == restart_at:
                    desk.restart()
                    kept.listen(desk.clock.now())
                if number == complete_at:
                    _be_silent(desk, kept)
                desk.send(b"".join(piece.body for piece in batch), batch[0].signal)
            _be_silent(desk, kept)
            return {name: _meanings(store.invocation(name)) for name in _considered(store, desk.clock.now())}
        finally:
            desk.journal.close()
            store.close()


def _be_silent(desk: Desk, kept: Conversations) -> None:
    for _ in range(2):
        desk.wait(901.0)
    desk.wait(SILENCE)
    while kept.step(desk.clock.now()):
        pass


def _considered(store: SqliteStore, now: float) -> list[str]:
    found: list[Candidate] = []
    run = request("talks", now + 1, level=Level.CONVERSATION)
    store.execute_run(run, lambda candidates, carry: found.extend(candidates) or take_all(candidates, carry))  # type: ignore[func-returns-value]
    return [one.invocation_id for one in found]


def _meanings(found: Invocation | None) -> list[str]:
    assert found is not None
    return [digest(turn) for turn in found.turns]


RUNS = given(
    dialect=st.sampled_from(DIALECTS),
    scenario=st.sampled_from(SEVERAL),
    draw=st.randoms(use_true_random=False),
    when=st.floats(0, 1, exclude_max=True),
)
QUICKLY = settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@QUICKLY
@RUNS
def test_the_same_conversations_whatever_the_order(
    shared: Path, dialect: str, scenario: str, draw: random.Random, when: float
) -> None:
    """In any order and batching, half of it twice, with a restart in the middle: equal conversations with equal turns in the same order."""
    recorded = pieces(shared / "traces" / dialect, scenario)
    batches = shuffled(recorded, draw, duplicated=0.5)
    found = conversations_of(batches, restart_at=int(when * len(batches)))
    assert found == conversations_of([[piece] for piece in recorded])


def test_a_conversation_that_was_complete_too_early_ends_the_same(shared: Path) -> None:
    """With silence in the middle of the traffic the rest is late turns and late spans: the same turns in the end, each conversation once."""
    for number, dialect in enumerate(DIALECTS[:6]):
        recorded = pieces(shared / "traces" / dialect, SEVERAL[0])
        batches = [[piece] for piece in recorded]
        found = conversations_of(batches, complete_at=max(1, len(batches) * (number + 1) // 8))
        expected = conversations_of(batches)
        assert {name: len(turns) for name, turns in found.items()} == {
            name: len(turns) for name, turns in expected.items()
        }


@pytest.mark.parametrize("case", SEVERAL)
def test_recorded_conversations_are_those_of_the_application(shared: Path, case: str) -> None:
    """Of every producer that records conversation ids: the conversations of the truth, with their turns' requests in order."""
    seen = 0
    for file in sorted((shared / "traces").glob(f"*/{case}.truth.json")):
        truth = json.loads(file.read_text())
        lacking = {"conversation_id", "user_input"} & {*truth["not_in_telemetry"], *truth["altered_in_telemetry"]}
        if lacking or any(one["conversation_id"] is None for one in truth["invocations"]):
            continue
        expected: dict[str, list[str]] = {}
        for one in truth["invocations"]:
            expected.setdefault(f"conversation:{one['conversation_id']}", []).append(one["user_input"])
        files = [path for kind in ("otlp", "logs") if (path := file.with_name(f"{case}.{kind}.jsonl")).is_file()]
        found = conversations(one.invocation for one in reconstruct(files))
        assert {one.id: [turn.user_input for turn in one.turns] for one in found} == expected, file.parent.name
        seen += 1
    assert seen >= 10
