"""What an import gives: rubric documents to review, and remarks on what could not be taken over. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_NOT_SNAKE = re.compile(r"[^\w.~-]+")


class NotImportable(ValueError):
    """The file is not what it was said to be; the message says what was looked for."""


@dataclass(frozen=True, slots=True)
class Imported:
    """Rubric documents as they are written to a file, and remarks for people (never content of the file but names)."""

    documents: tuple[Mapping[str, Any], ...]
    remarks: tuple[str, ...] = ()


def either(data: Mapping[str, Any], *names: str) -> Any:
    """The value under the first of the names that is there: exporters write one key in several ways."""
    return next((data[name] for name in names if data.get(name) is not None), None)


def name_of(text: str) -> str:
    """A rubric name or criterion id of at most 64 printable characters."""
    plain = _NOT_SNAKE.sub("_", text.strip()).strip("_")[:64]
    return plain or "imported"


def share(value: Any, otherwise: float) -> float:
    """A threshold between 0 and 1. Raises NotImportable for another number."""
    if value is None:
        return otherwise
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1:
        raise NotImportable("a threshold is no number from 0 to 1")
    return value
