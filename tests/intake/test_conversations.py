"""When conversations become complete: after silence that counts only while the collectors are open."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from monitor.intake.conversations import AT_ONCE, Conversations
from monitor.intake.options import SettlementOptions


@dataclass
class Completions:
    """Stands for a store: it has so many conversations to complete, and keeps what it was asked."""

    left: int = 0
    asked: list[tuple[float, tuple[str, ...]]] = field(default_factory=list)

    def complete_conversations(
        self, silent_since: float, monitors: tuple[str, ...], now: float, limit: int = AT_ONCE
    ) -> int:
        """As many as there are left, `limit` at most."""
        self.asked.append((silent_since, monitors))
        taken = min(limit, self.left)
        self.left -= taken
        return taken


@pytest.fixture
def store() -> Completions:
    """Nothing to complete."""
    return Completions()


def test_silence_counts_from_when_the_collectors_are_open(store: Completions) -> None:
    """Nothing is complete before the collectors have been open for the idle time, after a restart neither; then what was silent as long is."""
    kept = Conversations(store, 1800.0, ("talks",))
    kept.step(10_000)
    kept.listen(10_000)
    kept.step(11_799)
    assert store.asked == []
    kept.step(11_800)
    kept.pause()
    kept.step(20_000)
    kept.listen(20_000)
    kept.step(21_000)
    assert store.asked == [(10_000, ("talks",))]


def test_many_are_completed_in_steps(store: Completions) -> None:
    """A step says that there may be more as long as it was full."""
    store.left = AT_ONCE + 1
    kept = Conversations(store, 1.0, ("talks",), listening_since=0.0)
    assert [kept.step(10), kept.step(10)] == [True, False]


def test_without_monitors_conversations_are_let_go(store: Completions) -> None:
    """A reload that leaves no monitor of conversations has nothing kept for them, at once."""
    kept = Conversations(store, 1800.0, ("talks",), listening_since=10_000)
    kept.configure(60.0, SettlementOptions())
    kept.step(10_001)
    assert store.asked == [(10_001, ())]
