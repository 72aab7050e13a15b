"""What turns are kept for, after any mixture of what may happen to conversations: the counts that decide about content stay true."""

from __future__ import annotations

import random
import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from monitor.model.invocation import Invocation
from monitor.model.run import Level
from monitor.model.verdict import NotSelected
from monitor.store.sqlite import SqliteStore
from tests.contracts.store_material import T0, invocation, leave_all, request, settlement, take_all
from tests.contracts.store_runs_contract import halve

_WRONG = """
    SELECT i.id, i.unconsidered, i.drawn, i.held, i.turns,
           (SELECT count(*) FROM waiting w WHERE w.invocation = i.n) AS waits,
           (SELECT count(*) FROM decisions d WHERE d.invocation = i.n AND d.drawn = 1) AS drawn_by
    FROM invocations i WHERE i.merged_into IS NULL AND (
        i.unconsidered <> waits + (i.held = 1) OR i.drawn <> drawn_by + (i.held = 2) OR (i.turns IS NOT NULL AND i.held <> 0)
        OR (i.held = 2 AND NOT EXISTS (
            SELECT 1 FROM invocations k WHERE k.conversation = i.conversation AND k.turns IS NOT NULL AND k.drawn > 0)))
"""


class Life:
    """A store to which things happen at random, at a time that goes on."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.store, self.chance, self.now = SqliteStore(folder), random.Random(seed), T0
        self.file = folder / "rubricd.db"
        self.turns: dict[str, Invocation] = {}

    def step(self) -> str:
        """Let something happen; what it was."""
        self.now += self.chance.choice((1.0, 40.0, 700.0))
        what = self.chance.choice((self.say, self.say, self.change, self.merge, self.complete, self.complete, self.run_talks, self.run_turns, self.cut, self.drop, self.retire))  # fmt: skip
        what()
        return what.__name__

    def save(self, one: Invocation, **changes: Any) -> None:
        given = {
            "settled_at": self.now,
            "monitors": ("m",),
            "conversation_monitors": self.chance.choice((("talks",), ("talks",), ())),
            **changes,
        }
        self.store.save_traces([settlement(one, digest=f"{self.now}", rejudge=True, **given)])
        self.turns[one.id] = one

    def say(self) -> None:
        name = f"{len(self.turns)}"
        start = int(self.now * 1e9)
        talk = self.chance.choice(("a", "b", None))
        self.save(
            invocation(name, conversation_id=talk, started_at=start, ended_at=start + 1, history=(), tool_calls=())
        )

    def change(self) -> None:
        if self.turns:
            one = self.chance.choice(list(self.turns.values()))
            self.save(replace(one, revision=one.revision + 1, conversation_id=self.chance.choice(("a", "b", None))))

    def merge(self) -> None:
        if len(self.turns) > 1:
            keeper, gone = self.chance.sample(sorted(self.turns), 2)
            one = replace(self.turns[keeper], revision=self.turns[keeper].revision + 1)
            del self.turns[gone]
            self.save(one, merged={gone: keeper})

    def complete(self) -> None:
        monitors = self.chance.choice((("talks",), ("talks",), ("talks",), ()))
        self.store.complete_conversations(self.now if not monitors else self.now - 600, monitors, self.now)

    def run_talks(self) -> None:
        decide = self.chance.choice((take_all, leave_all(NotSelected.SAMPLED_OUT)))
        self.store.execute_run(request("talks", self.now, level=Level.CONVERSATION), decide)

    def run_turns(self) -> None:
        decide = self.chance.choice((take_all, leave_all(NotSelected.SAMPLED_OUT)))
        self.store.execute_run(request("m", self.now), decide)

    def cut(self) -> None:
        for tick in self.store.pending_ticks("talks"):
            self.store.cut_run("talks", tick, halve, self.now)  # type: ignore[arg-type]

    def drop(self) -> None:
        self.store.drop_unwanted_content()

    def retire(self) -> None:
        if self.chance.random() < 0.2:
            self.store.retire_monitors(["m"])

    def wrong(self) -> list[Any]:
        """Invocations whose counts do not agree with what is there."""
        with sqlite3.connect(self.file) as connection:
            found = connection.execute(_WRONG).fetchall()
        connection.close()
        return found


@pytest.mark.parametrize("seed", range(8))
def test_counts_stay_true(tmp_path: Path, seed: int) -> None:
    """Whatever happens in whatever order: a turn counts as unconsidered and as drawn for its conversation exactly as long as it is kept for it."""
    life = Life(tmp_path, seed)
    happened: list[str] = []
    for _ in range(60):
        happened.append(life.step())
        assert life.wrong() == [], happened[-6:]
    life.store.close()
