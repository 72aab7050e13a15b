"""Which traces a reading of the past has come upon already: a trace that lies in two stretches counts once."""

from __future__ import annotations

from collections.abc import Iterable

REMEMBERED = 100_000


class SeenTraces:
    """The newest trace ids of a reading, bounded: one that shows up again after very many others counts again."""

    def __init__(self) -> None:
        self._ids: dict[str, None] = {}
        self._reached = 0.0

    def begin(self, since: float) -> None:
        """A stretch begins; one that does not go on where the last one ended is of another reading."""
        if since != self._reached:
            self._ids.clear()

    def new(self, trace_ids: Iterable[str]) -> list[str]:
        """Those that were not seen before, each once. They are seen only once their stretch is done: what broke off is read again."""
        return [one for one in dict.fromkeys(trace_ids) if one not in self._ids]

    def reached(self, until: float, trace_ids: Iterable[str]) -> None:
        """The stretch is done up to there, with these new traces."""
        self._reached = until
        self._ids.update(dict.fromkeys(trace_ids))
        if len(self._ids) > REMEMBERED:
            self._ids = dict.fromkeys(list(self._ids)[-REMEMBERED // 2 :])
