"""Traces that are linked to others: which are waited for, and whether what came is where a message was sent from (see linking.py)."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from collectors.span import LogRecord, Span
from monitor.assembly.linking import Linked, Senders
from monitor.assembly.reading import senders
from monitor.intake import stored_spans
from monitor.intake.due import Due, TieStore
from monitor.intake.faults import place_of
from monitor.intake.held import Held
from monitor.intake.index import Index
from monitor.intake.linking import linked_pairs
from monitor.intake.loose import ANY_LINKED, Loose, unpacked
from monitor.intake.material import Material, decoded
from monitor.intake.opentrace import OpenTrace
from monitor.intake.options import SettlementOptions
from monitor.intake.settlement import is_ignored
from monitor.model.run import NOT_READ, StoredTrace

logger = logging.getLogger(__name__)

MAX_AWAITED = 100_000
"""Traces that others are linked to, the newest, in memory: about 15 MB. One that comes past it stays apart from what is linked to it."""

_AT_START = 10_000
"""Stored traces, the newest, whose links are remembered after a start."""

Peek = Callable[[OpenTrace], Material | None]
"""Reads back an open trace."""


class Links:
    """Used by the settler's thread only."""

    def __init__(self, index: Index, store: TieStore, held: Held, peek: Peek) -> None:
        self._index = index
        self._store = store
        self._held = held
        self._peek = peek
        self._awaited: OrderedDict[str, None] | None = None

    def remember(self) -> None:
        """Learn from the store what was waited for when the process ended, once. Raises StoreUnwritable."""
        if self._awaited is None:
            found = [one for one in self._store.tied_traces([], [ANY_LINKED], [], _AT_START) if one.pieces]
            self._awaited = OrderedDict()
            for one in found:
                self.note(unpacked(one.trace_id, one.turn, one.pieces).linked)

    def note(self, linked: Linked | None) -> None:
        """Some trace is linked to another one."""
        if linked is None or self._awaited is None:
            return
        self._awaited[linked.trace_id] = None
        self._awaited.move_to_end(linked.trace_id)
        if len(self._awaited) > MAX_AWAITED:
            self._awaited.popitem(last=False)

    def awaited(self, trace_id: str) -> bool:
        """Whether some trace is linked to one."""
        return self._awaited is not None and trace_id in self._awaited

    def find(self, trace_id: str) -> Loose | None:
        """A trace by its id: one that waits, or a stored one that has no ties."""
        if trace_id in self._held:
            return self._held.get(trace_id)
        stored = self._store.trace(trace_id)
        if stored is None or stored.consumed == NOT_READ:
            return None
        start = min((one.invocation.started_at for one in stored.invocations), default=0)
        return Loose(trace_id, trace_id, start=start)

    def is_open(self, trace_id: str) -> bool:
        """Whether a trace has come and not settled yet."""
        return bytes.fromhex(trace_id) in self._index

    def pairs(
        self, due: Mapping[str, Due], known: Mapping[str, Loose], options: SettlementOptions
    ) -> list[tuple[str, str]]:
        """The pairs of known traces that are tied by links."""
        if all(one.linked is None for one in known.values()):
            return []
        read: dict[str, Senders] = {}

        def belongs(one: Loose, sender: Loose) -> bool:
            if one.linked is None or self._too_late(one, sender, due, options):
                return False
            if sender.trace_id not in read:
                read[sender.trace_id] = _senders(sender.trace_id, *self._items(sender.trace_id, due))
            return read[sender.trace_id].sent(one.linked)

        return linked_pairs(due.keys(), known, belongs)

    def _too_late(self, one: Loose, sender: Loose, due: Mapping[str, Due], options: SettlementOptions) -> bool:
        """Whether one of two traces came when what is stored of the other may not change any more: then it stands by itself."""
        if one.turn is not None and one.turn == sender.turn:
            return False
        return any(
            fresh.trace_id in due
            and old.turn is not None
            and (stored := self._stored(old.trace_id, due)) is not None
            and is_ignored(due[fresh.trace_id].taken, stored, options)
            for fresh, old in ((one, sender), (sender, one))
        )

    def _stored(self, trace_id: str, due: Mapping[str, Due]) -> StoredTrace | None:
        stored = due[trace_id].stored if trace_id in due else self._store.trace(trace_id)
        return None if stored is None or stored.consumed == NOT_READ else stored

    def _items(self, trace_id: str, due: Mapping[str, Due]) -> tuple[list[Span], list[LogRecord]]:
        """All that is here of a trace, stored or not."""
        found: list[Material] = []
        if trace_id in due:
            found.append(due[trace_id].material)
        elif trace_id in self._held:
            trace = self._index.copy(bytes.fromhex(trace_id))
            waiting = None if trace is None else self._peek(trace)
            found += [] if waiting is None else [waiting]
        stored = self._stored(trace_id, due) if trace_id not in self._held else None
        if stored is not None and stored.spans is not None:
            with suppress(stored_spans.UnknownCodec):
                found.append(decoded(*stored_spans.unpack(stored.spans), NOT_READ))
        spans = [span for one in found for span in one.spans.spans]
        return spans, [record for one in found for record in one.records.logs]


def _senders(trace_id: str, spans: Sequence[Span], logs: Sequence[LogRecord]) -> Senders:
    """What in a trace may have sent messages; nothing where it cannot be told, by a fault of ours that must not stop all others."""
    try:
        return senders(spans, logs)
    except Exception as error:
        logger.error("what trace %s sent cannot be told: %s", trace_id, place_of(error))
        return Senders(())
