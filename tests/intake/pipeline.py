"""A child process for crash tests of the whole way: accepts traces in two parts, settles and stores them, until it is killed.

Usage: pipeline.py FOLDER FIRST_NUMBER [turns] [few]. With `turns`, the two parts are model calls of one turn with a trace each. With `few`,
hardly anything is open in memory at a time, and the rest is read on from the journal. Prints the number of a trace once both parts are
acknowledged.
"""

from __future__ import annotations

import os
import sys
import threading
from itertools import count
from pathlib import Path

from prometheus_client import CollectorRegistry

from collectors.sink import Encoding, Signal
from monitor.clock import SystemClock
from monitor.intake.index import MAX_INDEXED, Index
from monitor.intake.journal import Journal
from monitor.intake.later import assemble_later
from monitor.intake.options import SettlementOptions
from monitor.intake.settler import Settler
from monitor.intake.settling import SettlingRules
from monitor.intake.sink import Intake
from monitor.store.sqlite import SqliteStore
from monitor.telemetry import Telemetry
from tests.intake.traffic import agent, tool, traces, turn


class Pipeline:
    """All of intake over a real store, on the machine's clock."""

    def __init__(self, folder: Path, max_indexed: int = MAX_INDEXED) -> None:
        self.clock = SystemClock()
        telemetry = Telemetry(CollectorRegistry())
        self.journal = Journal(folder / "journal", self.clock, segment_bytes=30_000)
        self.store = SqliteStore(folder, assemble_later)
        self.index = Index(SettlingRules(settle_after=0.02), max_indexed=max_indexed)
        self.intake = Intake(self.journal, self.index, telemetry, self.clock)
        self.settler = Settler(
            self.journal, self.index, self.store, telemetry, SettlementOptions(("quality",), heads_first=True)
        )
        self.settler.reading.begin()
        self.settler.listen(self.clock.now())

    def send(self, body: bytes) -> None:
        """One request, until it is acknowledged."""
        self.intake.accept(body, Signal.TRACES, Encoding.PROTOBUF, "otlp").result(10)

    def close(self) -> None:
        """Let go of journal and store."""
        self.journal.close()
        self.store.close()


def main() -> None:
    pipeline = Pipeline(Path(sys.argv[1]), 40 if "few" in sys.argv else MAX_INDEXED)
    numbers = count(int(sys.argv[2]))
    turns = "turns" in sys.argv[3:]

    def work() -> None:
        for number in numbers:
            name = f"t{number}"
            for part in ((one,) for one in turn(name)) if turns else ((tool(name),), (tool(name), agent(name))):
                pipeline.send(traces(*part))
            os.write(1, f"{number}\n".encode())

    for _ in range(2):
        threading.Thread(target=work).start()
    while True:
        pipeline.settler.step(pipeline.clock.now())


if __name__ == "__main__":
    main()
