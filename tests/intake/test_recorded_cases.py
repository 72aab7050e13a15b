"""The recorded traffic of every producer through the real intake into the real store: the very invocations that `reconstruct` gives.

A sample runs always, all cases with RUBRICD_ALL_CASES=1. What `reconstruct` does is what its own functions do here. Two things are compared apart: the collector's name, which files do not have,
and by what it settled, which is `idle` at the end of a file.
"""

from __future__ import annotations

import json
import os
import random
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from collectors.otlp.request import split
from monitor.assembly import AssemblyContext, assemble
from monitor.intake.later import assemble_later
from monitor.intake.options import SettlementOptions
from monitor.intake.recorded import recorded_traces
from monitor.model.invocation import SettledBy
from monitor.model.run import Query
from monitor.model.wire import invocation_json
from monitor.store.sqlite import SqliteStore
from tests.intake.desk import Desk
from tests.intake.recorded_items import Piece, pieces, shuffled

SAMPLED = 18
"""Cases of the sample, those whose turns lie in several traces first."""

SEVERAL_TRACES = (
    "anthropic--openllmetry/s11_run_fails", "anthropic--openllmetry/s4_two_turns_same_session", "anthropic--openllmetry/s8_content_capture_off",
    "anthropic--otel-genai/s9_policy_violation", "anthropic--otel-genai/s8_content_capture_off", "google-genai--otel/s4_two_turns_same_session",
    "langgraph--openllmetry/s8_content_capture_off", "openai--openinference/s15_two_runs_at_once", "openai--openlit/s11_run_fails",
    "openai--openlit/s14_streaming_responses_api", "openai--openlit/s4_two_turns_same_session", "openai--openlit/s8_content_capture_off",
)  # fmt: skip


def cases(shared: Path) -> Iterator[tuple[Path, str]]:
    """(folder, scenario) of the cases to look at."""
    found = sorted((file.parent, file.name.split(".")[0]) for file in (shared / "traces").glob("*/*.otlp.jsonl"))
    if os.environ.get("RUBRICD_ALL_CASES"):
        yield from found
        return
    named = [(shared / "traces" / case.split("/")[0], case.split("/")[1]) for case in SEVERAL_TRACES]
    others = [case for case in found if case not in named]
    yield from named + random.Random(11).sample(others, SAMPLED - len(named))


def in_order(recorded: Sequence[Piece], draw: random.Random) -> list[list[Piece]]:
    """As it came."""
    return [[piece] for piece in recorded]


def reversed_order(recorded: Sequence[Piece], draw: random.Random) -> list[list[Piece]]:
    """The last first."""
    return [[piece] for piece in reversed(recorded)]


def any_order(recorded: Sequence[Piece], draw: random.Random) -> list[list[Piece]]:
    """In any order and batching, half of it twice."""
    return shuffled(recorded, draw, duplicated=0.5)


Sending = Callable[[Sequence[Piece], random.Random], list[list[Piece]]]


@pytest.mark.parametrize("restarts", [False, True], ids=["one process", "restart"])
@pytest.mark.parametrize("sending", [in_order, reversed_order, any_order])
def test_the_daemon_stores_what_reconstruct_gives(shared: Path, sending: Sending, restarts: bool) -> None:
    """In order, reversed, shuffled with half of it twice; with and without a restart in the middle: equal JSON for every case."""
    differing = []
    for folder, scenario in cases(shared):
        draw = random.Random(f"{folder.name}/{scenario}")
        batches = sending(pieces(folder, scenario), draw)
        restart_at = draw.randrange(len(batches)) if restarts else -1
        if stored(batches, restart_at) != reconstructed(folder, scenario):
            differing.append(f"{folder.name}/{scenario}")
    assert differing == []


def stored(batches: Sequence[Sequence[Piece]], restart_at: int) -> list[dict[str, Any]]:
    """What is in the store after all was sent and has settled; nothing is left open."""
    with tempfile.TemporaryDirectory() as folder:
        store = SqliteStore(Path(folder), assemble_later)
        desk = Desk(Path(folder) / "journal", SettlementOptions(("quality",), heads_first=True))
        try:
            desk.settled_into = store
            desk.restart()
            for number, batch in enumerate(batches):
                if number == restart_at:
                    desk.restart()
                desk.send(b"".join(piece.body for piece in batch), batch[0].signal)
                desk.wait(0.25)
            for _ in range(3):
                desk.wait(901.0)
            assert desk.index.open_items == 0
            return compared(store.list_invocations(Query(limit=1000)).items)
        finally:
            desk.journal.close()
            store.close()


def reconstructed(folder: Path, scenario: str) -> list[dict[str, Any]]:
    """What the files hold, without log records that have no trace id: the daemon keeps none (contract section 3)."""
    context = AssemblyContext(SettledBy.IDLE, "file")
    requests = [
        (piece.body, piece.signal)
        for piece in pieces(folder, scenario)
        if all(item.trace_id for item in split(piece.body, piece.signal).items)
    ]
    found = [
        made.invocation
        for one in recorded_traces(requests)
        for made in assemble(one.spans, one.logs, context, one.beside)
    ]
    return compared([json.loads(json.dumps(invocation_json(one))) for one in found])


def compared(invocations: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Invocations by id, without what files cannot have."""
    for one in invocations:
        one["collector"] = one["completeness"]["settled_by"] = ""
    return sorted(json.loads(json.dumps(list(invocations))), key=lambda one: str(one["id"]))
