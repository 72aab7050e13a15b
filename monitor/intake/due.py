"""A trace that is due and was read, and what the settling of turns asks of the store."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from collectors.immutable import immutable
from monitor.intake.index import Taken
from monitor.intake.material import Material
from monitor.intake.settlement import Settled
from monitor.intake.turns import Window
from monitor.model.run import StoredTrace, TiedTrace


class TieStore(Protocol):
    """The part of the Store protocol that turns need."""

    def trace(self, trace_id: str) -> StoredTrace | None:
        """See Store."""
        ...

    def tied_traces(
        self, trace_ids: Collection[str], keys: Collection[int], windows: Collection[Window], limit: int
    ) -> Sequence[TiedTrace]:
        """See Store."""
        ...


@immutable(frozen=True, slots=True)
class Due:
    """A trace that is due: what was read of it, and its settlement if nothing else belongs to it."""

    taken: Taken
    material: Material
    stored: StoredTrace | None
    alone: Settled
