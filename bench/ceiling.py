"""`python -m bench.ceiling`: the same receivers as the daemon's with next to nothing behind them, as the bare ceiling of intake.

`answer` acknowledges at once, `durable` writes the request to the journal as it came and acknowledges when it is on the disk. Neither looks into it.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path

from collectors.otlp.config import OtlpConfig, ReceiverConfig
from collectors.otlp.receiver import OtlpReceiver
from collectors.sink import Accepted, Encoding, RejectReason, Signal
from monitor.clock import SystemClock
from monitor.intake.journal import Journal


class Bare:
    """A sink that writes what it gets, or not even that; also the meter that nobody reads."""

    def __init__(self, journal: Journal | None) -> None:
        self._journal = journal

    def pressure(self) -> float:
        """There is always room."""
        return 0.0

    def accept(self, body: bytes, signal: Signal, encoding: Encoding, collector: str) -> Future[Accepted]:
        """Durable, or taken as it is."""
        answer: Future[Accepted] = Future()
        if self._journal is None:
            answer.set_result(Accepted(0))
        else:
            written = self._journal.append(body, signal, collector, 0.0)
            written.add_done_callback(lambda _: answer.set_result(Accepted(0)))
        return answer

    def rejected(self, collector: str, reason: RejectReason, count: int = 1) -> None:
        """Nobody asks."""


async def serve(folder: Path, http: int, grpc: int, mode: str) -> None:
    """Serve until the process is ended."""
    journal = Journal(folder, SystemClock()) if mode == "durable" else None
    sink = Bare(journal)
    config = OtlpConfig(ReceiverConfig(f"127.0.0.1:{grpc}"), ReceiverConfig(f"127.0.0.1:{http}"))
    receiver = OtlpReceiver("otlp", config, sink, sink)
    await receiver.start()
    print("ready", flush=True)
    await asyncio.Event().wait()


def main(arguments: Sequence[str]) -> None:
    """Serve on the ports that are given."""
    parser = argparse.ArgumentParser(prog="python -m bench.ceiling", description=__doc__)
    parser.add_argument("--http-port", type=int, required=True)
    parser.add_argument("--grpc-port", type=int, required=True)
    parser.add_argument("--dir", type=Path, required=True)
    parser.add_argument("--mode", choices=("answer", "durable"), default="durable")
    given = parser.parse_args(arguments)
    asyncio.run(serve(given.dir, given.http_port, given.grpc_port, given.mode))


if __name__ == "__main__":
    main(sys.argv[1:])
