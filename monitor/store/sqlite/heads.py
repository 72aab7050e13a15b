"""Invocations as rows: the head, which outlives the content."""

from __future__ import annotations

import json
import logging
import sqlite3
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from monitor.model.invocation import Capture, Completeness, Invocation, SettledBy, ToolCall
from monitor.model.run import Candidate
from monitor.store.sqlite.content import with_content
from monitor.store.sqlite.values import compact, integer, text

_log = logging.getLogger(__name__)

HEAD = """
    i.n, i.id, t.trace_id, i.span_id, i.parent_id, i.conversation_id, p.agent, p.agent_name, p.agent_version, p.environment,
    p.service, p.model, p.operation, p.convention, p.collector, i.started_at, i.ended_at, i.settled_at, i.window_at,
    i.settled_by, i.late_spans, i.completeness, i.revision, i.has_error, i.tools, i.model_calls, i.input_tokens,
    i.output_tokens, i.attributes, i.upstream_probability, i.kept_below, i.merged_into, c.body
"""
"""The columns that `read_invocation` takes, in its order."""

_PACKED = tuple(
    HEAD.replace("\n", " ").replace(" ", "").split(",").index(name)
    for name in ("i.completeness", "i.tools", "i.attributes", "c.body")
)

FROM_HEAD = """
    FROM invocations i JOIN traces t ON t.n = i.trace JOIN profiles p ON p.n = i.profile
    LEFT JOIN invocation_content c ON c.invocation = i.n
"""

CANDIDATE = """
    i.n, i.id, t.trace_id, i.conversation_id, p.agent_name, p.agent_version, p.environment, p.service, p.model, p.operation,
    p.collector, i.settled_by, i.tools, i.has_error, i.attributes, i.window_at, i.settled_at, i.upstream_probability,
    i.kept_below, i.revision, i.turns
"""
"""The columns that `read_candidate` takes, in its order."""


def profile_of(connection: sqlite3.Connection, invocation: Invocation) -> int:
    """The row of what this invocation has in common with others, made when it is the first of them."""
    values = (
        text(invocation.label_agent), text(invocation.agent_name), text(invocation.agent_version),
        text(invocation.environment), text(invocation.service), text(invocation.model), text(invocation.operation),
        text(invocation.convention), text(invocation.collector),
    )  # fmt: skip
    found = connection.execute(
        """SELECT n FROM profiles WHERE agent = ? AND agent_name IS ? AND agent_version IS ? AND environment IS ?
           AND service IS ? AND model IS ? AND operation IS ? AND convention = ? AND collector = ?""",
        values,
    ).fetchone()
    if found is not None:
        return int(found[0])
    cursor = connection.execute(
        """INSERT INTO profiles (agent, agent_name, agent_version, environment, service, model, operation, convention, collector)
           VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)""",
        values,
    )
    return int(cursor.lastrowid or 0)


def head_values(invocation: Invocation) -> dict[str, Any]:
    """The columns of an invocation's row that come from the invocation alone."""
    done = invocation.completeness
    gaps = {"missing": list(done.missing), "capture": {path: why.value for path, why in done.capture.items()}}
    tools = [call.name for call in invocation.tool_calls]
    return {
        "span_id": text(invocation.span_id),
        "parent_id": text(invocation.parent_id),
        "conversation_id": text(invocation.conversation_id),
        "started_at": integer(invocation.started_at),
        "ended_at": integer(invocation.ended_at),
        "settled_by": done.settled_by.value,
        "late_spans": done.late_spans,
        "completeness": compact(gaps) if done.missing or done.capture else None,
        "revision": invocation.revision,
        "has_error": int(invocation.error is not None),
        "tools": compact(tools) if tools else None,
        "model_calls": invocation.model_calls,
        "input_tokens": integer(invocation.input_tokens),
        "output_tokens": integer(invocation.output_tokens),
        "attributes": compact(dict(invocation.attributes)) if invocation.attributes else None,
        "upstream_probability": invocation.inclusion_probability,
    }


def read_invocation(row: Sequence[Any]) -> Invocation:
    """An invocation from a row of HEAD; without content where that was erased, which `capture` then says."""
    *head, body = row
    (_, invocation_id, trace_id, span_id, parent_id, conversation_id, _, agent_name, agent_version, environment, service,
     model, operation, convention, collector, started_at, ended_at, _, _, settled_by, late_spans, gaps, revision, _,
     tools, model_calls, input_tokens, output_tokens, attributes, upstream, _, _) = head  # fmt: skip
    found = json.loads(gaps) if gaps else {"missing": (), "capture": {}}
    capture = {path: Capture(why) for path, why in found["capture"].items()}
    invocation = Invocation(
        id=invocation_id, trace_id=trace_id, span_id=span_id, parent_id=parent_id, conversation_id=conversation_id,
        agent_name=agent_name, agent_version=agent_version, environment=environment, service=service, model=model,
        operation=operation, convention=convention, collector=collector, started_at=started_at, ended_at=ended_at,
        revision=revision, model_calls=model_calls, input_tokens=input_tokens, output_tokens=output_tokens,
        attributes=json.loads(attributes) if attributes else {}, inclusion_probability=upstream,
        completeness=Completeness(SettledBy(settled_by), tuple(found["missing"]), capture, late_spans),
    )  # fmt: skip
    names = json.loads(tools) if tools else []
    return _erased(invocation, names) if body is None else with_content(invocation, body)


def read_or_bare(row: Sequence[Any]) -> tuple[Invocation, bool]:
    """An invocation from a row of HEAD; when its content or gaps are damaged, its ids, names and times, and True."""
    try:
        return read_invocation(row), False
    except Exception as error:
        _log.error("invocation %s cannot be read: %s", row[1], type(error).__name__)
        bare = list(row)
        for place in _PACKED:
            bare[place] = None
        return read_invocation(bare), True


def _erased(invocation: Invocation, tools: list[str]) -> Invocation:
    """What is left without content: that there was some, and which tools were called."""
    done = invocation.completeness
    absent = {field: Capture.REDACTED for field in ("user_input", "final_response") if field not in done.missing}
    for place in range(len(tools)):
        absent |= {f"tool_calls[{place}].arguments": Capture.REDACTED, f"tool_calls[{place}].result": Capture.REDACTED}
    calls = tuple(ToolCall(name) for name in tools)
    return replace(invocation, tool_calls=calls, completeness=replace(done, capture={**done.capture, **absent}))


def read_candidate(row: Sequence[Any]) -> Candidate:
    """A candidate from a row of CANDIDATE."""
    (_, invocation_id, trace_id, conversation_id, agent_name, agent_version, environment, service, model, operation,
     collector, settled_by, tools, has_error, attributes, window_at, settled_at, upstream, kept_below, revision, turns) = row  # fmt: skip
    return Candidate(
        invocation_id, trace_id, conversation_id, agent_name, agent_version, environment, service, model, operation,
        collector, settled_by, tuple(json.loads(tools)) if tools else (), bool(has_error),
        json.loads(attributes) if attributes else {}, window_at, settled_at, upstream, kept_below, revision, turns or 0,
    )  # fmt: skip
