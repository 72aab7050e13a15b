"""Where a poller keeps how far it has read.

A cursor is saved only after the sink has made everything durable that lies before it. A crash between the two makes the poller read the
same again, and the same spans again change nothing: assembly tells copies by trace and span id. So nothing is lost, and nothing counts twice,
although journal and cursor are two files.
"""

from __future__ import annotations

import copy
from typing import Any, Protocol


class CursorStore(Protocol):
    """Keeps one JSON value for each collector. Both methods block and may be called from any thread."""

    def load(self, collector: str) -> Any:
        """The value last saved, or None."""
        ...

    def save(self, collector: str, cursor: Any) -> None:
        """Keep the value durably, in place of the last. Raises an exception when it cannot."""
        ...


class MemoryCursors:
    """Cursors that live as long as the process."""

    def __init__(self) -> None:
        self._values: dict[str, Any] = {}

    def load(self, collector: str) -> Any:
        """The value last saved, or None."""
        return copy.deepcopy(self._values.get(collector))

    def save(self, collector: str, cursor: Any) -> None:
        """Keep the value."""
        self._values[collector] = copy.deepcopy(cursor)
