"""`python -m tests.support.stepped OFFSET_FILE run …`: rubricd with a wall clock that is off by the seconds in a file.

The daemon's one clock and APScheduler's are stepped; monotonic time is not, as on a machine whose clock is set.
"""

from __future__ import annotations

import sys
import time
from datetime import datetime, tzinfo
from pathlib import Path

import apscheduler.schedulers.base

import monitor.app
from monitor.cli import main
from monitor.clock import SystemClock

FILE = Path(sys.argv[1])


def offset() -> float:
    """Seconds that the wall clock is ahead."""
    return float(FILE.read_text() or 0)


class SteppedClock(SystemClock):
    """The machine's clock, put forward or back."""

    def now(self) -> float:
        """Wall time."""
        return time.time() + offset()


class SteppedDatetime(datetime):
    """For APScheduler, which asks the clock itself."""

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> SteppedDatetime:
        """Wall time."""
        return cls.fromtimestamp(time.time() + offset(), tz)


if __name__ == "__main__":
    monitor.app.SystemClock = SteppedClock  # type: ignore[misc]
    apscheduler.schedulers.base.datetime = SteppedDatetime
    del sys.argv[1]
    sys.exit(main())
