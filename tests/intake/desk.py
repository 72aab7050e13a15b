"""A whole intake on a folder: journal, index, sink and settler over a store, on a clock that only the test moves."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from prometheus_client import CollectorRegistry

from collectors.sink import Accepted, Encoding, Signal
from monitor.clock import ManualClock, SteadyClock
from monitor.intake.index import MAX_INDEXED, Index
from monitor.intake.journal import Journal
from monitor.intake.options import SettlementOptions
from monitor.intake.settler import SettledBatch, Settler, TraceStore
from monitor.intake.settling import SettlingRules
from monitor.intake.sink import EarlyDrop, Intake
from monitor.model.run import StoredInvocation
from monitor.telemetry import Telemetry
from tests.intake.memory_store import MemoryStore
from tests.intake.traffic import trace_id

RULES = SettlingRules()


class Desk:
    """One process's life after the other on the same folder and store.

    With `max_indexed` no more than that is open in memory (see Index), and the journal is read on frame by frame.
    """

    def __init__(
        self, folder: Path, options: SettlementOptions | None = None, max_indexed: int | None = None, **journal: int
    ) -> None:
        self.clock = ManualClock(1_800_000_000.0)  # after everything recorded
        self.store = MemoryStore()
        self.settled_into: TraceStore = self.store
        self.options = options or SettlementOptions(monitors=("quality",))
        self.rules = RULES
        self._folder = folder
        self._limits = journal
        self.max_indexed = max_indexed
        self.rate: float | None = None
        self.start()

    def start(self) -> None:
        """Open everything, replay, listen."""
        self.steady = SteadyClock(self.clock)
        self.registry = CollectorRegistry()
        self.telemetry = Telemetry(self.registry)
        self.journal = Journal(self._folder, self.steady, **self._limits)
        self.index = Index(self.rules, max_indexed=MAX_INDEXED if self.max_indexed is None else self.max_indexed)
        self.intake = Intake(self.journal, self.index, self.telemetry, self.steady)
        self.settler = Settler(self.journal, self.index, self.settled_into, self.telemetry, self.options)
        if self.max_indexed is not None:
            self.settler.reading.bytes_at_once = 1
        self.intake.early_drop = EarlyDrop(self.rate)
        self.replayed = self.settler.reading.begin(self.steady.now(), self.intake.early_drop.below)
        self.settler.listen(self.steady.now())

    def drop(self, rate: float | None) -> None:
        """Change the early drop's rate while running; it holds after a restart as well."""
        self.rate = rate
        self.intake.early_drop = EarlyDrop(rate)

    def restart(self) -> None:
        """Die and come back: nothing is in memory any more."""
        self.journal.close()
        self.start()

    def configure(self, **changes: object) -> None:
        """Change settlement options while running."""
        self.options = replace(self.options, **changes)  # type: ignore[arg-type]
        self.settler.configure(self.rules, self.options, self.steady.now())

    def send(self, body: bytes, signal: Signal = Signal.TRACES, encoding: Encoding = Encoding.PROTOBUF) -> Accepted:
        """One request, until it is acknowledged."""
        return self.intake.accept(body, signal, encoding, "otlp").result(timeout=10)

    def wait(self, seconds: float) -> SettledBatch:
        """Let time pass, then settle."""
        self.clock.advance(seconds)
        return self.step()

    def step(self) -> SettledBatch:
        """Settle until nothing more is due at this moment; what the steps did together."""
        total = SettledBatch()
        while True:
            batch = self.settler.step(self.steady.now(), self.clock.now())
            total = SettledBatch(
                total.traces + batch.traces,
                total.spans + batch.spans,
                total.invocations + batch.invocations,
                total.revised + batch.revised,
                total.late + batch.late,
                total.duplicates + batch.duplicates,
                fault=batch.fault,
            )
            if not batch.more and not batch.traces:
                return total

    def stored(self, trace: str) -> list[StoredInvocation]:
        """The stored invocations of a trace by its name."""
        return self.store.invocations(trace_id(trace).hex())

    def count(self, metric: str, **labels: str) -> float:
        """The value of one of our own metrics."""
        return self.registry.get_sample_value(f"rubricd_{metric}", labels) or 0.0
