"""Joins what was asked for, what ran and what was answered into one list of tool calls, a sub-agent's after the call that started it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from monitor.assembly.errors import failure_text
from monitor.assembly.evidence import Call, Evidence, gather
from monitor.assembly.facts import CANDIDATES, Field, value
from monitor.assembly.logspans import is_told
from monitor.assembly.messages import lacking
from monitor.assembly.scopes import Scope
from monitor.assembly.units import fact_of, unit_messages
from monitor.model.invocation import Capture, ToolCall, ToolStatus


@dataclass(frozen=True, slots=True)
class Joined:
    """The calls in order, and why parts of them are missing, by path (`tool_calls[0].result`).

    `hidden`: there may have been calls of which the telemetry tells nothing. `evidence` is what each call was made of.
    """

    calls: tuple[ToolCall, ...]
    capture: dict[str, Capture]
    hidden: bool
    evidence: tuple[Call, ...] = ()


def join(main: Scope, *, open_ended: bool) -> Joined:
    """All calls of an invocation, a sub-agent's right after the call that started it."""
    evidence = gather(main)
    hidden = {name for scope in main.all() for name in _output_tools(scope)}
    ordered = [call for call in _ordered(main, evidence) if call.name not in hidden or call.name is None]
    capture: dict[str, Capture] = {}
    calls = [_tool_call(call, main, i, capture, open_ended=open_ended) for i, call in enumerate(ordered)]
    return Joined(tuple(calls), capture, any(map(_hides_calls, main.all())), tuple(ordered))


def _hides_calls(scope: Scope) -> bool:
    """Whether a model call asked for tools, or may have, and does not say for which.

    Below an agent's own span tools have spans too: there only a model call that says that it stopped for tools proves anything.
    """
    for unit in scope.models:
        if fact_of(unit, Field.CALLS_HIDDEN).value is True:
            return True
        asks = fact_of(unit, Field.ASKS).value
        alone = not any(node.span_class in CANDIDATES for node in scope.chain)
        unknown = asks is True or (asks is None and alone and failure_text(unit.node) is None)
        if unknown and lacking(unit_messages(unit, Field.OUTPUT)) is not None:
            return True
    return False


def _output_tools(scope: Scope) -> Iterable[str]:
    for unit in scope.models:
        for node in unit.nodes:
            yield from value(node.facts, Field.OUTPUT_TOOLS) or ()


def _ordered(main: Scope, evidence: Evidence) -> list[Call]:
    own = evidence.by_scope
    result: list[Call] = []
    stack: list[Call | Scope] = [main]
    while stack:
        item = stack.pop()
        if isinstance(item, Call):
            result.append(item)
        else:
            stack += reversed(_arranged(item, own.get(id(item), [])))
    return result


def _arranged(scope: Scope, calls: list[Call]) -> list[Call | Scope]:
    """A scope's calls in order, each followed by the sub-agents that it started; other sub-agents come by their start."""
    calls = sorted(calls, key=lambda call: call.order)
    started: dict[int, list[Scope]] = {}
    beside: list[Scope] = []
    runs = {id(node): call for call in calls if call.unit for node in call.unit.nodes}
    for child in scope.children:
        call = runs.get(id(child.via)) if child.via is not None else None
        if call is not None:
            started.setdefault(id(call), []).append(child)
        else:
            beside.append(child)
    items: list[Call | Scope] = []
    placed = 0
    for call in calls:
        while placed < len(beside) and beside[placed].start <= call.order[0]:
            items.append(beside[placed])
            placed += 1
        items.append(call)
        items += started.get(id(call), [])
    return items + beside[placed:]


def _tool_call(call: Call, main: Scope, index: int, capture: dict[str, Capture], *, open_ended: bool) -> ToolCall:
    path = f"tool_calls[{index}]"
    arguments, reason = _arguments(call)
    if reason is not None:
        capture[f"{path}.arguments"] = reason
    result, known, reason = _result(call)
    if reason is not None:
        capture[f"{path}.result"] = reason
    error = _error(call)
    span = call.unit.node if call.unit else None
    name = call.scope.name() if call.scope is not main else None
    return ToolCall(
        name=call.name or "",
        id=call.id,
        arguments=arguments,
        result=result,
        result_known=known,
        error=error,
        status=_status(call, known=known, error=error, open_ended=open_ended),
        span_id=span.span_id if span and span.span and not is_told(span.span) else None,
        agent_name=str(name.value) if name is not None else None,
        started_at=span.start if span else None,
        ended_at=span.end if span and span.span and span.span.ended else None,
    )


def _arguments(call: Call) -> tuple[Any, Capture | None]:
    """The span's arguments; the model's where the span has none, a bare scalar or text that does not parse."""
    found = fact_of(call.unit, Field.ARGUMENTS)
    asked = call.request or {}
    if found.capture is None and isinstance(found.value, dict | list):
        return found.value, None
    if isinstance(asked.get("arguments"), dict | list) or (found.value is None and "arguments" in asked):
        return asked["arguments"], None
    if found.source and found.capture is None:
        return found.value, None
    if "arguments" in asked:
        return asked["arguments"], None
    if "capture" in asked:
        return None, Capture(asked["capture"])
    return None, found.capture or Capture.NOT_CAPTURED


def _result(call: Call) -> tuple[Any, bool, Capture | None]:
    """What the model saw: the answer in its next input; else what the tool's span recorded."""
    answer = call.answer or {}
    if "response" in answer:
        return answer["response"], True, None
    found = fact_of(call.unit, Field.RESULT)
    if found.source and found.capture is None:
        return found.value, True, None
    reason = Capture(answer["capture"]) if "capture" in answer else found.capture
    return None, False, reason or Capture.NOT_CAPTURED


def _error(call: Call) -> str | None:
    """Why the tool failed, None when it did not: by its span's status or flag, or by the answer's flag."""
    if call.unit is not None:
        for node in call.unit.nodes:
            text = failure_text(node)
            if text is not None:
                return text
    flagged = fact_of(call.unit, Field.TOOL_FAILED).value is True or (call.answer or {}).get("is_error") is True
    if not flagged:
        return None
    result, known, _ = _result(call)
    return result if known and isinstance(result, str) and result else "error"


def _status(call: Call, *, known: bool, error: str | None, open_ended: bool) -> ToolStatus:
    if fact_of(call.unit, Field.TOOL_DENIED).value is True or (call.answer or {}).get("denied") is True:
        return ToolStatus.DENIED
    if fact_of(call.unit, Field.TOOL_PENDING).value is True:
        return ToolStatus.PENDING
    if error is not None:
        return ToolStatus.ERROR
    if call.unit is not None and call.unit.node.span is not None:
        return ToolStatus.OK if call.unit.node.span.ended else ToolStatus.PENDING
    if known or call.answer is not None:
        return ToolStatus.OK
    return ToolStatus.PENDING if open_ended else ToolStatus.UNKNOWN
