"""Where the parts of tool calls came from, for `reconstruct --explain`. Looked up afterwards: assembly itself does not note it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from monitor.assembly.errors import failure_of
from monitor.assembly.evidence import Call
from monitor.assembly.facts import Field, Found
from monitor.assembly.fields import Notes, Origin
from monitor.assembly.scopes import Scope
from monitor.assembly.tree import Node
from monitor.model.invocation import ToolCall


def explain_calls(calls: Sequence[Call], made: Sequence[ToolCall], main: Scope, notes: Notes) -> None:
    """Note for each call where its id, name, arguments, result and error are recorded."""
    told = _told(main)
    for index, (call, result) in enumerate(zip(calls, made, strict=True)):
        asked = told.get(id(call.request)) if call.request is not None else None
        answered = told.get(id(call.answer), asked) if call.answer is not None else None
        for part, field, known, messages in (
            ("id", Field.CALL_ID, result.id is not None, asked),
            ("name", Field.TOOL_NAME, bool(result.name), asked or answered),
            ("arguments", Field.ARGUMENTS, result.arguments is not None, asked),
            ("result", Field.RESULT, result.result_known, answered),
        ):
            origin = _origin(call, field, messages, answer=part == "result", value=getattr(result, part))
            if known and origin is not None:
                notes.source(f"tool_calls[{index}].{part}", *origin)
        if result.error is not None:
            _explain_error(call, f"tool_calls[{index}].error", answered, notes)


def _origin(call: Call, field: Field, messages: Origin | None, *, answer: bool, value: object) -> Origin | None:
    """The message where that is what counts (answers) or where the span says something else; else the span."""
    own = _of_unit(call, field)
    if messages is not None and (answer or own is None or own[1].value != value):
        return messages
    return own


def _of_unit(call: Call, field: Field) -> Origin | None:
    nodes = call.unit.nodes if call.unit is not None else ()
    return next(((node, found) for node in nodes if (found := node.facts.get(field)) is not None), None)


def _explain_error(call: Call, path: str, answered: Origin | None, notes: Notes) -> None:
    for node in call.unit.nodes if call.unit is not None else ():
        failure = failure_of(node)
        if failure is not None:
            notes.source(path, node, Found(None, failure[1]))
            return
    flagged = _of_unit(call, Field.TOOL_FAILED) or answered
    if flagged is not None:
        notes.source(path, *flagged)


def _told(main: Scope) -> dict[int, Origin]:
    """Message parts by identity, with the span and the fact that first tells of them."""
    found: dict[int, Origin] = {}
    for node in _tellers(main):
        for field in (Field.OUTPUT, Field.INPUT):
            fact = node.facts.get(field)
            for message in (fact.value or ()) if fact is not None else ():
                for part in message.parts:
                    found.setdefault(id(part), (node, fact)) if fact is not None else None
    return found


def _tellers(main: Scope) -> Iterator[Node]:
    for scope in main.all():
        for unit in scope.models:
            yield from (*unit.nodes, *unit.steps)
        yield from scope.chain
        yield from scope.submitted
