"""Globs (`*`, `?`, `[abc]`, `!` before one excludes) as they are written in configuration."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator


def _some(globs: str | list[str]) -> str | list[str]:
    """A list without a glob would select nothing, and silently."""
    if not globs or not {"", "!"}.isdisjoint([globs] if isinstance(globs, str) else globs):
        raise ValueError("is empty: give a glob or a list of globs, `!` excludes; leave the key out to take all")
    for glob in [globs] if isinstance(globs, str) else globs:
        if _open_class(glob):
            raise ValueError(
                f"{glob!r} has a [ without its ]: close it as in [a-c], or write [[] for the character itself"
            )
    return globs


def _open_class(glob: str) -> bool:
    """Whether a class of characters has no end, as `fnmatch` reads them: a ] that comes first stands for itself."""
    start = glob.find("[")
    while start >= 0:
        first = start + 1 + glob.startswith("!", start + 1)
        end = glob.find("]", first + glob.startswith("]", first))
        if end < 0:
            return True
        start = glob.find("[", end)
    return False


Globs = Annotated[str | list[str], AfterValidator(_some)]
"""A glob or a list of globs."""
