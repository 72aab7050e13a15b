"""A child process for crash tests: appends numbered frames from two threads and prints a number once it is durable.

Usage: appender.py FOLDER FIRST_NUMBER. Runs until it is killed.
"""

from __future__ import annotations

import os
import sys
import threading
from itertools import count
from pathlib import Path

from collectors.sink import Signal
from monitor.clock import SystemClock
from monitor.intake.journal import Journal


def body_of(number: int) -> bytes:
    """A body of 10 bytes to 40 kB that tells its number, so that a mixed-up frame is seen."""
    return f"{number:010d}".encode() * (1 + number * 7919 % 4000)


def main() -> None:
    journal = Journal(Path(sys.argv[1]), SystemClock(), segment_bytes=400_000)
    numbers = count(int(sys.argv[2]))

    def work() -> None:
        for number in numbers:
            journal.append(body_of(number), Signal.TRACES, "otlp", float(number)).result()
            os.write(1, f"{number}\n".encode())

    for _ in range(3):
        threading.Thread(target=work).start()


if __name__ == "__main__":
    main()
