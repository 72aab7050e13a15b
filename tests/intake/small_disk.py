"""A child process on a small file system: fills it, frees it, makes it read-only, and prints the faults it met.

Usage: small_disk.py FOLDER, where FOLDER is a mount point of its own.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from collectors.sink import Signal
from monitor.clock import SystemClock
from monitor.intake.faults import JournalUnwritable
from monitor.intake.journal import Journal


def main() -> None:
    disk = Path(sys.argv[1])
    filler = disk / "filler"
    filler.write_bytes(bytes(200_000))
    journal = Journal(disk / "journal", SystemClock(), probe_seconds=60.0)
    taken: list[bytes] = []

    def put(body: bytes) -> None:
        journal.append(body, Signal.TRACES, "otlp", 0.0).result(10)
        taken.append(body)

    try:
        for number in range(100):
            put(bytes([number]) * 10_000)
    except JournalUnwritable as fault:
        sys.stdout.write(f"{fault.kind.value}\n")
    filler.unlink()
    put(b"again" * 1000)
    journal.close()
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    try:
        Journal(disk / "journal", SystemClock())
    except JournalUnwritable as fault:
        sys.stdout.write(f"{fault.kind.value}\n")
        sys.stdout.write(f"{fault}\n")
    subprocess.run(["mount", "-o", "remount,rw", str(disk)], check=True)
    journal = Journal(disk / "journal", SystemClock())
    assert [frame.body for frame in journal.replay()] == taken
    assert journal.damages == []
    journal.close()


if __name__ == "__main__":
    main()
