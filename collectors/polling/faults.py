"""Why a source could not be read."""

from __future__ import annotations

from enum import StrEnum


class FaultKind(StrEnum):
    """What kind of trouble a source is in; only `MALFORMED` and `TOO_LARGE` can be about one trace and let the others go on."""

    UNREACHABLE = "unreachable"
    TIMEOUT = "timeout"
    RATE_LIMITED = "rate_limited"
    SERVER_ERROR = "server_error"
    UNAUTHORIZED = "unauthorized"
    REFUSED = "refused"
    MALFORMED = "malformed"
    TOO_LARGE = "too_large"


TEMPORARY = frozenset({FaultKind.UNREACHABLE, FaultKind.TIMEOUT, FaultKind.RATE_LIMITED, FaultKind.SERVER_ERROR})
"""Kinds that are worth another attempt at once; the others wait for the next poll."""


class SourceFault(Exception):
    """The source did not answer as it should; the message names it and says what would be right, never any content.

    `retry_after_seconds` is what the source asked for, None where it did not.
    """

    def __init__(self, kind: FaultKind, message: str, retry_after_seconds: float | None = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.retry_after_seconds = retry_after_seconds
