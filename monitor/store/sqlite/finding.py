"""Finding an invocation by its id without an index of all ids.

Ids are random, so an index of them has each insertion write another page anew: the more is stored, the dearer storing becomes. An id begins with
its trace's id, and the trace leads to its invocations. The few that are not stored with the trace that their id names, those of turns over
several traces and conversations, are marked `elsewhere` and have an index. Databases of before have the index of all ids; there every old
invocation is marked, and found by it.
"""

from __future__ import annotations

_TRACE_ID = 32
"""Characters of a trace id at the beginning of an invocation's."""


def is_elsewhere(invocation_id: str, trace_id: str) -> bool:
    """Whether an invocation that is stored with that trace is not found by the trace that its id names."""
    return invocation_id[:_TRACE_ID] != trace_id


def row_of(given: str) -> str:
    """SQL for the row of the invocation of an id, NULL where there is none; `given` is SQL for the id: a column or a numbered parameter."""
    return f"""coalesce(
        (SELECT own.n FROM traces named JOIN invocations own ON own.trace = named.n
         WHERE named.trace_id = substr({given}, 1, {_TRACE_ID}) AND own.id = {given}),
        (SELECT other.n FROM invocations other WHERE other.id = {given} AND other.elsewhere = 1)
    )"""  # noqa: S608
