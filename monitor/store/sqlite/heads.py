"""Invocations as rows: the head, which outlives the content."""

from __future__ import annotations

import json
import logging
import sqlite3
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from monitor.model.invocation import Capture, Completeness, Invocation, SettledBy, ToolCall
from monitor.model.run import AssembleLater, Candidate, InvocationChange
from monitor.store.sqlite.blobs import unpacked
from monitor.store.sqlite.content import with_content
from monitor.store.sqlite.values import compact, integer, text

_log = logging.getLogger(__name__)

HEAD = """
    i.n, i.id, t.trace_id, i.span_id, i.parent_id, i.conversation_id, p.agent, p.agent_name, p.agent_version, p.environment,
    p.service, p.model, p.operation, p.convention, p.collector, i.started_at, i.ended_at, i.settled_at, i.window_at,
    i.settled_by, i.late_spans, i.completeness, i.revision, i.has_error, i.tools, i.model_calls, i.input_tokens,
    i.output_tokens, i.attributes, i.upstream_probability, i.kept_below, i.assembled, i.merged_into, c.body, s.body
"""
"""The columns that `read_or_bare` takes, in its order."""

_PACKED = tuple(
    HEAD.replace("\n", " ").replace(" ", "").split(",").index(name)
    for name in ("i.completeness", "i.tools", "i.attributes", "c.body", "s.body")
)

FROM_HEAD = """
    FROM invocations i JOIN traces t ON t.n = i.trace JOIN profiles p ON p.n = i.profile
    LEFT JOIN invocation_content c ON c.invocation = i.n
    LEFT JOIN trace_spans s ON i.assembled = 0 AND i.has_content = 1 AND s.trace = i.trace
"""

CANDIDATE = """
    i.n, i.id, t.trace_id, i.conversation_id, p.agent_name, p.agent_version, p.environment, p.service, p.model, p.operation,
    p.collector, i.settled_by, i.tools, i.has_error, i.attributes, i.window_at, i.settled_at, i.upstream_probability,
    i.kept_below, i.revision, i.turns
"""
"""The columns that `read_candidate` takes, in its order."""


class Profiles:
    """The rows of what invocations have in common, each looked up once; for one transaction."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._known: dict[tuple[str | None, ...], int] = {}

    def of(self, invocation: Invocation) -> int:
        """The row of an invocation, made when it is the first of its kind."""
        key = (
            invocation.label_agent, invocation.agent_name, invocation.agent_version, invocation.environment, invocation.service,
            invocation.model, invocation.operation, invocation.convention, invocation.collector,
        )  # fmt: skip
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._row(tuple(map(text, key)))
        return found

    def _row(self, values: tuple[str | None, ...]) -> int:
        found = self._connection.execute(
            """SELECT n FROM profiles WHERE agent = ? AND agent_name IS ? AND agent_version IS ? AND environment IS ?
               AND service IS ? AND model IS ? AND operation IS ? AND convention = ? AND collector = ?""",
            values,
        ).fetchone()
        if found is not None:
            return int(found[0])
        cursor = self._connection.execute(
            """INSERT INTO profiles (agent, agent_name, agent_version, environment, service, model, operation, convention, collector)
               VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)""",
            values,
        )
        return int(cursor.lastrowid or 0)


HEAD_COLUMNS = (
    "span_id", "parent_id", "conversation_id", "started_at", "ended_at", "settled_by", "late_spans", "completeness", "revision",
    "has_error", "tools", "model_calls", "input_tokens", "output_tokens", "attributes", "upstream_probability",
)  # fmt: skip
"""The columns of `head_values`, in its order."""


def head_values(invocation: Invocation) -> tuple[Any, ...]:
    """The columns of an invocation's row that come from the invocation alone: those of HEAD_COLUMNS."""
    done = invocation.completeness
    calls, attributes = invocation.tool_calls, invocation.attributes
    return (
        text(invocation.span_id),
        text(invocation.parent_id),
        text(invocation.conversation_id),
        integer(invocation.started_at),
        integer(invocation.ended_at),
        done.settled_by.value,
        done.late_spans,
        _gaps(done) if done.missing or done.capture else None,
        invocation.revision,
        int(invocation.error is not None),
        compact([call.name for call in calls]) if calls else None,
        invocation.model_calls,
        integer(invocation.input_tokens),
        integer(invocation.output_tokens),
        compact(dict(attributes)) if attributes else None,
        invocation.inclusion_probability,
    )


def _gaps(done: Completeness) -> str:
    return compact({"missing": list(done.missing), "capture": {path: why.value for path, why in done.capture.items()}})


def read_head(row: Sequence[Any]) -> Invocation:
    """What a row of HEAD says by itself: without content, and where only the head was read without tools and gaps."""
    *head, _, _, _, _ = row
    (_, invocation_id, trace_id, span_id, parent_id, conversation_id, _, agent_name, agent_version, environment, service,
     model, operation, convention, collector, started_at, ended_at, _, _, settled_by, late_spans, gaps, revision, _,
     tools, model_calls, input_tokens, output_tokens, attributes, upstream, _) = head  # fmt: skip
    found = json.loads(gaps) if gaps else {"missing": (), "capture": {}}
    capture = {path: Capture(why) for path, why in found["capture"].items()}
    return Invocation(
        id=invocation_id, trace_id=trace_id, span_id=span_id, parent_id=parent_id, conversation_id=conversation_id,
        agent_name=agent_name, agent_version=agent_version, environment=environment, service=service, model=model,
        operation=operation, convention=convention, collector=collector, started_at=started_at, ended_at=ended_at,
        revision=revision, model_calls=model_calls, input_tokens=input_tokens, output_tokens=output_tokens,
        tool_calls=tuple(ToolCall(name) for name in json.loads(tools)) if tools else (),
        attributes=json.loads(attributes) if attributes else {}, inclusion_probability=upstream,
        completeness=Completeness(SettledBy(settled_by), tuple(found["missing"]), capture, late_spans),
    )  # fmt: skip


def read_stored(row: Sequence[Any]) -> Invocation:
    """An invocation from a row of HEAD, with the content that is stored as such."""
    *_, assembled, _, body, _ = row
    return (
        with_content(read_head(row), body) if body is not None else _erased(read_head(row), assembled=bool(assembled))
    )


def has_stored_content(row: Sequence[Any]) -> bool:
    """Whether the content of the invocation in a row of HEAD is stored as such."""
    return row[-2] is not None


def is_assembled(row: Sequence[Any]) -> bool:
    """Whether more than the head of the invocation in a row of HEAD was read."""
    return bool(row[-4])


def read_late(row: Sequence[Any], assemble: AssembleLater) -> InvocationChange | None:
    """Of a row of HEAD whose head only was read: all of it, assembled now. None for one that was assembled, or has no content any more."""
    *_, assembled, _, _, spans = row
    return None if assembled or spans is None else assemble(unpacked(spans), read_head(row))


def read_or_bare(row: Sequence[Any], assemble: AssembleLater) -> tuple[Invocation, InvocationChange | None, bool]:
    """An invocation from a row of HEAD, and it as a change where it was assembled now; when its content or gaps are damaged, its ids,
    names and times, None and True.
    """
    try:
        late = read_late(row, assemble)
        return (late.invocation if late is not None else read_stored(row)), late, False
    except Exception as error:
        _log.error("invocation %s cannot be read: %s", row[1], type(error).__name__)
        bare = list(row)
        for place in _PACKED:
            bare[place] = None
        return read_stored(bare), None, True


def _erased(invocation: Invocation, *, assembled: bool) -> Invocation:
    """What is left without content: that there was some, and which tools were called, where that was ever read."""
    done = invocation.completeness
    gone = ("user_input", "final_response") if assembled else ("user_input", "tool_calls", "final_response")
    absent = {field: Capture.REDACTED for field in gone if field not in done.missing}
    for place in range(len(invocation.tool_calls)):
        absent |= {f"tool_calls[{place}].arguments": Capture.REDACTED, f"tool_calls[{place}].result": Capture.REDACTED}
    return replace(invocation, completeness=replace(done, capture={**done.capture, **absent}))


def read_candidate(row: Sequence[Any]) -> Candidate:
    """A candidate from a row of CANDIDATE."""
    (_, invocation_id, trace_id, conversation_id, agent_name, agent_version, environment, service, model, operation,
     collector, settled_by, tools, has_error, attributes, window_at, settled_at, upstream, kept_below, revision, turns) = row  # fmt: skip
    return Candidate(
        invocation_id, trace_id, conversation_id, agent_name, agent_version, environment, service, model, operation,
        collector, settled_by, tuple(json.loads(tools)) if tools else (), bool(has_error),
        json.loads(attributes) if attributes else {}, window_at, settled_at, upstream, kept_below, revision, turns or 0,
    )  # fmt: skip


def with_tools(connection: sqlite3.Connection, row: int, candidate: Candidate, assemble: AssembleLater) -> Candidate:
    """A candidate with its tools, for which it is assembled where only its head was read. One that cannot be read has none."""
    found = connection.execute(
        f"SELECT {HEAD} {FROM_HEAD} WHERE i.n = ? AND i.assembled = 0 AND i.has_content = 1",
        (row,),
    ).fetchone()
    if found is None:
        return candidate
    invocation, *_ = read_or_bare(found, assemble)
    return replace(candidate, tools=tuple(call.name for call in invocation.tool_calls))
