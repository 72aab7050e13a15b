"""How far a source's clock is from ours, by the Date headers of its answers (RFC 9110 section 6.6.1, whole seconds)."""

from __future__ import annotations

from email.utils import parsedate_to_datetime

_IGNORED_SECONDS = 2.0
"""Below this it is the resolution of the header and the time that an answer takes."""
_WEIGHT = 0.2


class ClockSkew:
    """The source's time minus ours, in seconds, smoothed. 0 while it is small or unknown."""

    def __init__(self) -> None:
        self._seen: float | None = None

    def observe(self, date: str | None, sent_at: float, received_at: float) -> None:
        """An answer with that Date header; a missing or odd one says nothing."""
        try:
            stamp = parsedate_to_datetime(date or "").timestamp() + 0.5
        except (ValueError, TypeError, OverflowError):
            return
        found = stamp - (sent_at + received_at) / 2
        self._seen = found if self._seen is None else self._seen + _WEIGHT * (found - self._seen)

    @property
    def seconds(self) -> float:
        """Seconds to add to our time to get the source's."""
        return 0.0 if self._seen is None or abs(self._seen) < _IGNORED_SECONDS else self._seen
