"""The part of the store that settling uses, in memory: small, real, and able to fail."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from monitor.model.run import JournalPosition, StoredInvocation, StoredTrace, TraceSettlement


class MemoryStore:
    """Keeps traces and invocations. `saved` has every settlement in order; `fault` is raised by the next calls while it is set."""

    def __init__(self) -> None:
        self.saved: list[TraceSettlement] = []
        self.judged: set[str] = set()
        self.fault: Exception | None = None
        self.refused: set[str] = set()
        self._traces: dict[str, TraceSettlement] = {}
        self._invocations: dict[str, dict[str, StoredInvocation]] = {}

    def save_traces(self, settlements: Sequence[TraceSettlement]) -> None:
        """All or nothing."""
        self._check()
        if any(settlement.trace_id in self.refused for settlement in settlements):
            raise ValueError("a fault of the store's own")
        for settlement in settlements:
            self.saved.append(settlement)
            self._traces[settlement.trace_id] = settlement
            stored = self._invocations.setdefault(settlement.trace_id, {})
            for change in settlement.changes:
                invocation = change.invocation
                stored[invocation.id] = StoredInvocation(invocation, change.span_ids, change.digest, False)
            for gone in settlement.merged:
                stored.pop(gone, None)

    def trace(self, trace_id: str) -> StoredTrace | None:
        """As saved; invocations in `judged` are judged."""
        self._check()
        kept = self._traces.get(trace_id)
        if kept is None:
            return None
        invocations = tuple(
            StoredInvocation(one.invocation, one.span_ids, one.digest, one.invocation.id in self.judged)
            for one in self._invocations[trace_id].values()
        )
        return StoredTrace(
            trace_id, kept.settled_at, kept.settled_by, kept.consumed, kept.late_spans, kept.spans, invocations
        )

    def consumed_positions(self, trace_ids: Collection[str]) -> Mapping[str, JournalPosition]:
        """Of those that are stored."""
        self._check()
        return {trace_id: self._traces[trace_id].consumed for trace_id in trace_ids if trace_id in self._traces}

    def _check(self) -> None:
        if self.fault is not None:
            raise self.fault

    def invocations(self, trace_id: str) -> list[StoredInvocation]:
        """What is stored of a trace."""
        return list(self._invocations.get(trace_id, {}).values())
