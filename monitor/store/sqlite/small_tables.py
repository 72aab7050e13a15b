"""Rubric definitions, leases and state: small tables with a key."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from typing import Any

from monitor.store.sqlite.values import compact


def remember_rubric(connection: sqlite3.Connection, version: str, definition: Mapping[str, Any], now: float) -> None:
    """See `Store.remember_rubric`."""
    connection.execute(
        "INSERT OR IGNORE INTO rubric_versions (version, definition, created_at) VALUES (?, ?, ?)",
        (version, json.dumps(definition), now),
    )


def rubric_definition(connection: sqlite3.Connection, version: str) -> dict[str, Any] | None:
    """See `Store.rubric_definition`."""
    found = connection.execute("SELECT definition FROM rubric_versions WHERE version = ?", (version,)).fetchone()
    return None if found is None else json.loads(found[0])


def acquire_lease(connection: sqlite3.Connection, name: str, owner: str, now: float, ttl_seconds: float) -> bool:
    """See `Store.acquire_lease`."""
    connection.execute(
        """INSERT INTO leases (name, owner, expires_at) VALUES (?, ?, ?)
           ON CONFLICT (name) DO UPDATE SET owner = excluded.owner, expires_at = excluded.expires_at
           WHERE owner = excluded.owner OR expires_at <= ?""",
        (name, owner, now + ttl_seconds, now),
    )
    holder = connection.execute("SELECT owner FROM leases WHERE name = ?", (name,)).fetchone()[0]
    return bool(holder == owner)


def release_lease(connection: sqlite3.Connection, name: str, owner: str) -> None:
    """See `Store.release_lease`."""
    connection.execute("DELETE FROM leases WHERE name = ? AND owner = ?", (name, owner))


def read_state(connection: sqlite3.Connection, key: str) -> Any:
    """See `Store.state`."""
    found = connection.execute("SELECT value FROM state WHERE name = ?", (key,)).fetchone()
    return None if found is None else json.loads(found[0])


def write_state(connection: sqlite3.Connection, key: str, value: Any) -> None:
    """See `Store.set_state`."""
    connection.execute("INSERT OR REPLACE INTO state (name, value) VALUES (?, ?)", (key, compact(value)))
