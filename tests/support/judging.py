"""Short ways to an invocation and a rubric, for tests of rubrics and judging."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from monitor.model.invocation import Completeness, Invocation, SettledBy, ToolCall, ToolDefinition, ToolStatus
from monitor.rubrics.files import read_text
from monitor.rubrics.rubric import Rubric

SECOND = 1_000_000_000


def rubric(text: str) -> Rubric:
    """The one rubric of a YAML text."""
    (read,) = read_text(text, "rubric.yaml")
    return read.rubric


def call(name: str, arguments: Any = None, result: Any = "done", error: str | None = None, **other: Any) -> ToolCall:
    """A tool call that returned, or failed with `error`."""
    status = ToolStatus.ERROR if error else ToolStatus.OK
    made = ToolCall(
        name,
        arguments={} if arguments is None else arguments,
        result=result,
        result_known=True,
        error=error,
        status=status,
    )
    return replace(made, **other)


def invocation(
    *calls: ToolCall, missing: tuple[str, ...] = (), capture: dict[str, Any] | None = None, **other: Any
) -> Invocation:
    """An invocation that asked for a table and got an answer, with these tool calls."""
    plain = Invocation(
        id="a" * 32 + "-" + "b" * 16,
        trace_id="a" * 32,
        span_id="b" * 16,
        started_at=1_700_000_000 * SECOND,
        ended_at=1_700_000_002 * SECOND,
        completeness=Completeness(SettledBy.ROOT_ENDED, missing, capture or {}),
        convention="gen_ai",
        agent_name="booking",
        user_input="A table for two, please.",
        final_response="Booked: a table for two at 19:00.",
        tool_definitions=tuple(ToolDefinition(name) for name in sorted({item.name for item in calls})),
        tool_calls=calls,
        model_calls=2,
        input_tokens=100,
        output_tokens=20,
    )
    return replace(plain, **other)
