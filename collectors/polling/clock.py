"""What pollers know of time; the program's clock fits."""

from __future__ import annotations

from typing import Protocol


class PollClock(Protocol):
    """Wall time and waiting."""

    def now(self) -> float:
        """Seconds since 1970-01-01Z."""
        ...

    def monotonic(self) -> float:
        """Seconds of a clock that never goes back."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait on the event loop."""
        ...


class NoClock:
    """Stands in where a collector needs no time; whoever asks for it made a mistake."""

    def now(self) -> float:
        """Raises RuntimeError."""
        raise RuntimeError("this collector polls: build_collector needs a clock")

    def monotonic(self) -> float:
        """Raises RuntimeError."""
        return self.now()

    async def sleep(self, seconds: float) -> None:
        """Raises RuntimeError."""
        self.now()
