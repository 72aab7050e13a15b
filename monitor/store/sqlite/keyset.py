"""Listings page by page, newest first: the keys of a page's last row are the cursor, and the next page begins behind them."""

from __future__ import annotations

import base64
import binascii
import json
import sqlite3
from collections.abc import Callable, Sequence
from typing import Any

from monitor.model.run import Page
from monitor.store.protocol import InvalidCursor

MAX_LIMIT = 1000


class Conditions:
    """The WHERE of a listing: only given conditions, each with its values."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.values: list[Any] = []

    def add(self, condition: str, *values: Any) -> None:
        """Add a condition unless a value of it is None."""
        if None not in values:
            self.texts.append(condition)
            self.values.extend(values)

    def __str__(self) -> str:
        return " AND ".join(self.texts) or "1"


def keyset_page(
    connection: sqlite3.Connection,
    cursor: str | None,
    limit: int,
    select: str,
    conditions: Conditions,
    keys: Sequence[str],
    item: Callable[[Sequence[Any]], dict[str, Any]],
) -> Page:
    """A page of `select` (columns and FROM), its rows made items. Raises InvalidCursor for a cursor that is none of this listing."""
    if cursor is not None:
        conditions.add(f"({', '.join(keys)}) < ({', '.join('?' * len(keys))})", *_keys_of(cursor, len(keys)))
    limit = max(1, min(MAX_LIMIT, limit))
    order = ", ".join(f"{key} DESC" for key in keys)
    rows = connection.execute(
        f"SELECT {', '.join(keys)}, {select} WHERE {conditions} ORDER BY {order} LIMIT ?",
        (*conditions.values, limit + 1),
    ).fetchall()
    items = tuple(item(row[len(keys) :]) for row in rows[:limit])
    return Page(items, _cursor_of(rows[limit - 1][: len(keys)]) if len(rows) > limit else None)


def _cursor_of(keys: Sequence[Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(keys).encode()).decode().rstrip("=")


def _keys_of(cursor: str, count: int) -> list[Any]:
    try:
        keys = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    except (ValueError, binascii.Error):
        keys = None
    if not isinstance(keys, list) or len(keys) != count or not all(isinstance(key, (int, float, str)) for key in keys):
        raise InvalidCursor(
            "cursor: is none of this listing; use the next_cursor of its last page, with the same filters"
        )
    return keys
