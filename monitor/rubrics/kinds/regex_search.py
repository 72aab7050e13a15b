r"""Search of a pattern in a text in time linear in the text: agents write the text, and may write it against us.

RE2, whose syntax is that of Prometheus and Go: no back-references and no look-around, `\w`, `\d` and `\b` are ASCII, `$` is the end of the text.
Python's `re` backtracks, exponentially where a pattern lets it, and holds the interpreter lock meanwhile.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

_MAX_PROGRAM_BYTES = 8 * 1024 * 1024


class PatternError(ValueError):
    """A pattern that RE2 does not take; the message says which part of it."""


class LinearPattern:
    """A compiled pattern. Raises PatternError for what RE2 does not take."""

    def __init__(self, pattern: str) -> None:
        import re2

        options = re2.Options()
        options.log_errors = False
        options.max_mem = _MAX_PROGRAM_BYTES
        try:
            self._compiled: Any = re2.compile(pattern, options=options)
        except re2.error as error:
            reason = error.args[0]
            text = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
            raise PatternError(
                f"{text}; patterns are RE2, as in Prometheus: no back-references, no look-around"
            ) from None

    def found_in(self, text: str) -> bool:
        """Whether the pattern matches anywhere in the text."""
        return self._compiled.search(text) is not None


@lru_cache(maxsize=256)
def compiled(pattern: str) -> LinearPattern:
    """A pattern, compiled once. Raises PatternError."""
    return LinearPattern(pattern)
