"""Putting a revision in the place of an invocation or a conversation: what was decided and drawn stays, what was judged is judged again."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from typing import Any


def revise(connection: sqlite3.Connection, row: int, values: Mapping[str, Any], at: float, *, rejudge: bool) -> None:
    """Put a revision in place. It keeps its first settling, its decisions, its place in the queue and with what probability its
    trace was kept; claims of the old one are void.

    What was judged is found here, in the writer's transaction: a verdict may have come since the settler looked.
    """
    assignments = ", ".join(f"{name} = :{name}" for name in values if name != "kept_below")
    connection.execute(f"UPDATE invocations SET {assignments} WHERE n = :row", {**values, "row": row})  # noqa: S608
    place = (values["window_at"], row)
    connection.execute(
        "UPDATE verdicts SET window_at = ?, counted = 1 WHERE evaluation IN (SELECT n FROM evaluations WHERE invocation = ?)",
        place,
    )
    connection.execute(
        "UPDATE decisions SET window_at = ?, profile = ? WHERE invocation = ?", (place[0], values["profile"], row)
    )
    connection.execute(
        """UPDATE evaluations SET revision = ?, available_at = iif(claimed, 0, available_at), claimed = 0
           WHERE invocation = ? AND state = 'pending'""",
        (values["revision"], row),
    )
    if rejudge:
        connection.execute(
            """UPDATE evaluations SET revision = ?, state = 'pending', attempts = 0, crashes = 0, available_at = 0, claimed = 0,
               created_at = ?, failure = NULL WHERE invocation = ? AND state <> 'pending'""",
            (values["revision"], at, row),
        )
