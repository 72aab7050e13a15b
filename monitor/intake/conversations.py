"""Completes conversations: when the last turn has been silent for long enough. Silence counts only while the collectors are open."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from monitor.intake.options import SettlementOptions

AT_ONCE = 100
"""Conversations that one transaction completes: others wait for it."""


class ConversationStore(Protocol):
    """The part of the Store protocol that completing needs."""

    def complete_conversations(
        self, silent_since: float, monitors: tuple[str, ...], now: float, limit: int = AT_ONCE
    ) -> int:
        """See Store."""
        ...


@dataclass(slots=True)
class Conversations:
    """Completes conversations step by step. `listen`, `pause` and `configure` may be called between steps.

    A turn is heard of when it settles, so silence counts from there: what is still open is not known to belong to a conversation.
    `idle` is in seconds.
    """

    store: ConversationStore
    idle: float
    monitors: tuple[str, ...] = ()
    listening_since: float | None = None

    def listen(self, now: float) -> None:
        """The collectors are open: silence counts from now on."""
        self.listening_since = now

    def pause(self) -> None:
        """The collectors are closed: nothing becomes complete."""
        self.listening_since = None

    def configure(self, idle: float, options: SettlementOptions) -> None:
        """Another configuration is in force, for open conversations as well."""
        self.idle, self.monitors = idle, options.conversation_monitors

    def step(self, now: float) -> bool:
        """Complete what is due, `now` in seconds since 1970-01-01Z; whether there may be more at once. Raises StoreUnwritable."""
        if self.listening_since is None:
            return False
        if not self.monitors:  # nobody waits for them: what is kept for them is let go
            return self.store.complete_conversations(now, (), now, AT_ONCE) == AT_ONCE
        if now - self.listening_since < self.idle:
            return False
        return self.store.complete_conversations(now - self.idle, self.monitors, now, AT_ONCE) == AT_ONCE
