"""The part of the store that settling uses, in memory: small, real, and able to fail."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from monitor.model.run import JournalPosition, StoredInvocation, StoredTrace, TiedTrace, TraceSettlement, TurnTie


class MemoryStore:
    """Keeps traces and invocations. `saved` has every settlement in order; `fault` is raised by the next calls while it is set."""

    def __init__(self) -> None:
        self.saved: list[TraceSettlement] = []
        self.judged: set[str] = set()
        self.fault: Exception | None = None
        self.refused: set[str] = set()
        self._traces: dict[str, TraceSettlement] = {}
        self._invocations: dict[str, dict[str, StoredInvocation]] = {}
        self._ties: dict[str, TurnTie] = {}

    def save_traces(self, settlements: Sequence[TraceSettlement]) -> None:
        """All or nothing."""
        self._check()
        if any(settlement.trace_id in self.refused for settlement in settlements):
            raise ValueError("a fault of the store's own")
        for settlement in settlements:
            self.saved.append(settlement)
            known = self._traces.get(settlement.trace_id)
            if known is None or known.consumed < settlement.consumed:
                self._traces[settlement.trace_id] = settlement
            if settlement.tie is not None:
                self._ties[settlement.trace_id] = settlement.tie
            stored = self._invocations.setdefault(settlement.trace_id, {})
            for change in settlement.changes:
                invocation = change.invocation
                self._drop(invocation.id)
                stored[invocation.id] = StoredInvocation(invocation, change.span_ids, change.digest, False)
            for gone in settlement.merged:
                self._drop(gone)

    def _drop(self, invocation_id: str) -> None:
        for stored in self._invocations.values():
            stored.pop(invocation_id, None)

    def trace(self, trace_id: str) -> StoredTrace | None:
        """As saved; invocations in `judged` are judged."""
        self._check()
        kept = self._traces.get(trace_id)
        if kept is None:
            return None
        invocations = tuple(
            StoredInvocation(one.invocation, one.span_ids, one.digest, one.invocation.id in self.judged)
            for other in self._turn(trace_id)
            for one in self._invocations[other].values()
        )
        return StoredTrace(
            trace_id, kept.settled_at, kept.settled_by, kept.consumed, kept.late_spans, kept.spans, invocations
        )

    def consumed_positions(self, trace_ids: Collection[str]) -> Mapping[str, JournalPosition]:
        """Of those that are stored."""
        self._check()
        return {trace_id: self._traces[trace_id].consumed for trace_id in trace_ids if trace_id in self._traces}

    def tied_traces(
        self, trace_ids: Collection[str], keys: Collection[int], windows: Collection[tuple[int, int, int]], limit: int
    ) -> Sequence[TiedTrace]:
        """By looking at all of them."""
        self._check()
        wanted = [*((key, 0, 2**32) for key in keys), *windows]
        found = {
            trace_id
            for trace_id, tie in self._ties.items()
            if trace_id in trace_ids
            or any(key == one and since <= at <= until for one, since, until in wanted for key, at in tie.keys)
        }
        whole = {other for trace_id in found for other in self._turn(trace_id)}
        return [TiedTrace(one, self._ties[one].turn or one, self._ties[one].pieces) for one in sorted(whole)]

    def _turn(self, trace_id: str) -> list[str]:
        """The traces of a trace's turn."""
        tie = self._ties.get(trace_id)
        if tie is None or tie.turn is None:
            return [trace_id]
        return [other for other, its in self._ties.items() if its.turn == tie.turn]

    def _check(self) -> None:
        if self.fault is not None:
            raise self.fault

    def invocations(self, trace_id: str) -> list[StoredInvocation]:
        """What is stored of a trace."""
        return list(self._invocations.get(trace_id, {}).values())
