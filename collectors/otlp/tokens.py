"""Bearer tokens from a file that may change under us (Kubernetes swaps mounted secrets)."""

from __future__ import annotations

import hmac
import logging
from pathlib import Path

logger = logging.getLogger(__name__)

_Version = tuple[int, int, int]


class BearerTokens:
    """The accepted tokens of a file, one a line; read again when the file changes.

    Raises OSError or ValueError at construction for a file that cannot be read or holds no token. Later such a file changes
    nothing: the last tokens stay in force and `problem` says why.
    """

    def __init__(self, file: str) -> None:
        self._file = Path(file)
        self._version = self._seen()
        self._tokens = self._read()
        self._problem: str | None = None

    @property
    def problem(self) -> str | None:
        """What is wrong with the file now, or None; looks at it."""
        self._refresh()
        return self._problem

    def accept(self, authorization: str | None) -> bool:
        """Whether an Authorization header carries one of the tokens; takes the same time for any wrong one."""
        self._refresh()
        scheme, _, token = (authorization or "").partition(" ")
        given = token.strip().encode("utf-8", "surrogateescape")
        matches = [hmac.compare_digest(given, known) for known in self._tokens]
        return scheme.lower() == "bearer" and any(matches)

    def _refresh(self) -> None:
        try:
            version = self._seen()
            if version == self._version:
                self._problem = None  # it was away and is the same again
                return
            self._tokens = self._read()
        except (OSError, ValueError) as error:
            self._fail(error)
            return
        self._version = version
        self._problem = None

    def _fail(self, error: Exception) -> None:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        problem = f"{self._file}: {reason}; the tokens read before stay in force"
        if problem != self._problem:
            logger.warning("bearer tokens: %s", problem)
        self._problem = problem

    def _seen(self) -> _Version:
        status = self._file.stat()
        return status.st_mtime_ns, status.st_size, status.st_ino

    def _read(self) -> tuple[bytes, ...]:
        tokens = tuple(line.strip() for line in self._file.read_bytes().splitlines() if line.strip())
        if not tokens:
            raise ValueError("holds no token: write one a line")
        return tokens
