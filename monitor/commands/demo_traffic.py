"""The traffic of the demo: recorded runs, each sent as if it had just ended, over gRPC and HTTP in turn."""

from __future__ import annotations

import itertools
import secrets
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from monitor.clock import SystemClock

if TYPE_CHECKING:
    from collectors.sink import Signal

RUNS_A_SECOND = 3.0
Run = tuple[bytes, "Signal"]


class Phase(StrEnum):
    """Where the demo stands; the value is what people read."""

    GOOD = "both agents are well"
    WORSE = "restaurant-booking 1.5.0 is rolled out: it got worse"
    LATE = "not all of it was judged in the time that was given"
    SETTLING = "the traffic has ended; the last invocations settle and are judged"


@dataclass(slots=True)
class Traffic:
    """Recorded runs and where they go. `send` blocks until all is sent; `phase` and `sent` may be read from other threads."""

    support: Sequence[Run]
    good: Sequence[Run]
    worse: Sequence[Run]
    endpoints: Sequence[str]
    seconds: float
    sent: int = 0
    phase: Phase = Phase.GOOD
    started: float = field(default_factory=SystemClock().monotonic)

    @classmethod
    def recorded(cls, folder: Path, endpoints: Sequence[str], seconds: float) -> Traffic:
        """The recordings that are shipped, for a daemon's OTLP endpoints."""
        from collectors.otlp.file import read_file

        names = ("order-support", "restaurant-booking.good", "restaurant-booking.worse")
        support, good, worse = (list(read_file(folder / f"{name}.otlp.jsonl")) for name in names)
        return cls(support, good, worse, [_as_url(endpoint) for endpoint in endpoints], seconds)

    def send(self) -> None:
        """Send runs at an even pace, the second half with the worse version of one agent."""
        from collectors.otlp.sender import sender

        senders = itertools.cycle([sender(endpoint) for endpoint in self.endpoints])
        for number, run in enumerate(self._runs()):
            wait = self.started + number / RUNS_A_SECOND - SystemClock().monotonic()
            time.sleep(max(0.0, wait))
            next(senders).send(*self._fresh(run))
            self.sent += 1

    def _runs(self) -> Iterator[Run]:
        total = int(self.seconds * RUNS_A_SECOND)
        support, good, worse = itertools.cycle(self.support), itertools.cycle(self.good), itertools.cycle(self.worse)
        for number in range(total):
            if number % 2:
                yield next(support)
            elif number < total / 2:
                yield next(good)
            else:
                self.phase = Phase.WORSE
                yield next(worse)

    @staticmethod
    def _fresh(run: Run) -> Run:
        """The run under a new trace id, ended now."""
        from collectors.otlp.rewrite import Rewrite, latest_time, rewritten

        body, signal = run
        shift = int(SystemClock().now() * 1e9) - latest_time(body, signal)
        return rewritten(body, signal, Rewrite(shift, secrets.token_hex(8))), signal


def _as_url(endpoint: str) -> str:
    """An endpoint as a sender takes it; listeners say whether they speak gRPC."""
    return endpoint if "://" in endpoint else f"grpc://{endpoint}"
