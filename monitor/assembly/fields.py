"""The fields of an invocation, each from the first usable source in order of preference (reference: conventions, section 7)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from monitor.assembly.answers import answer_of, model_text, returned_text
from monitor.assembly.definitions import united
from monitor.assembly.errors import ended_by_exception, exception_text, failure_text
from monitor.assembly.facts import Field, Found, SpanClass, better, value
from monitor.assembly.logspans import is_told
from monitor.assembly.messages import lacking, message_text, text_in, withheld_text
from monitor.assembly.neighbourhood import UNITS, Unit
from monitor.assembly.scopes import Scope
from monitor.assembly.tree import Node
from monitor.assembly.turns import Given, given
from monitor.assembly.units import unit_fact, unit_messages
from monitor.model.invocation import Capture, Provenance, ToolDefinition


@dataclass(slots=True)
class Notes:
    """Where each field came from, if `explain` asks for it, and why fields are not whole."""

    explain: bool = False
    provenance: list[Provenance] = field(default_factory=list)
    capture: dict[str, Capture] = field(default_factory=dict)

    def source(self, name: str, node: Node, found: Found) -> None:
        """Note a field's origin, if that is wanted."""
        if self.explain and node.record is not None:
            where, span = found.source, node.record.span
            if is_told(span):
                self.provenance.append(Provenance(name, "", f"log {span.name} {where}", found.convention))
            else:
                self.provenance.append(Provenance(name, node.span_id, where, found.convention or "attributes"))


Origin = tuple[Node, Found]


def first(name: str, origins: Iterable[Origin], notes: Notes) -> Any:
    """The value of the first whole origin, else of the most usable one; notes its source or why there is none."""
    best: Origin | None = None
    for node, found in origins:
        if best is None or better(best[1], found) is found:
            best = node, found
            if found.capture is None and not found.weak and found.value is not None:
                break
    if best is None:
        return None
    if best[1].value is None:
        notes.capture[name] = best[1].capture or Capture.NOT_CAPTURED
        return None
    notes.source(name, *best)
    return best[1].value


def facts_of(nodes: Iterable[Node], which: Field) -> Iterator[Origin]:
    """The nodes' facts of one kind, in their order."""
    for node in nodes:
        found = node.facts.get(which)
        if found is not None:
            yield node, found


def unit_facts(units: Iterable[Unit], which: Field) -> Iterator[Origin]:
    """The units' facts of one kind, in their order."""
    for unit in units:
        found = unit_fact(unit, which)
        if found is not None:
            yield unit.node, found


def system_instructions(main: Scope, setup: Sequence[Node], notes: Notes) -> str | None:
    """The agent's own, else the first model call's, else the system messages that lead its input, else those of the agent's set-up."""
    speaker = first_speaker(main)
    frames = _frames(main)

    def origins() -> Iterator[Origin]:
        yield from facts_of(frames, Field.SYSTEM)
        if speaker is not main:
            yield from facts_of(speaker.frames, Field.SYSTEM)
        yield from unit_facts(speaker.models[:1], Field.SYSTEM)
        for node, found in (*unit_facts(speaker.models[:1], Field.INPUT), *facts_of(frames, Field.INPUT)):
            leading = [message for message in found.value or () if message.role == "system"]
            if leading:
                text = text_in(leading, separator="\n\n")
                reason = None if text else withheld_text(leading) or Capture.NOT_CAPTURED
                yield node, Found(text, found.source, found.convention, reason)
        yield from unit_facts(speaker.models[1:], Field.SYSTEM)
        yield from facts_of(setup, Field.SYSTEM)

    result: str | None = first("system_instructions", origins(), notes)
    return result


def what_was_given(scopes: Sequence[Scope], beside: Sequence[Node], notes: Notes) -> Given:
    """What the run was given: by its own spans, else by its first model call, else by the earliest sub-agent's.

    `beside` are client calls of the same conversation outside the run, which some services use to hand over messages.
    """
    best: tuple[Node, Found, Given] | None = None
    before = [node for node in reversed(beside) if node.start <= scopes[0].start]
    for node, found in (*_given_origins(scopes), *facts_of(before, Field.INPUT)):
        split = given(found.value or ())
        if split.text is not None:
            notes.source("user_input", node, found)
            return _with_history(split, scopes, (node, found), notes)
        reason = split.capture or found.capture
        if best is None and reason is not None:
            best = node, Found((), found.source, found.convention, reason), split
    if best is not None:
        notes.capture["user_input"] = best[1].capture or Capture.NOT_CAPTURED
        return Given(best[2].history)
    return Given()


def _given_origins(scopes: Sequence[Scope]) -> Iterator[Origin]:
    for scope in scopes:
        yield from facts_of(scope.frames, Field.INPUT)
        yield from unit_facts(scope.models[:1], Field.INPUT)


def _with_history(split: Given, scopes: Sequence[Scope], origin: Origin, notes: Notes) -> Given:
    """The history of the first model call where the agent's span holds only the new message."""
    models = scopes[0].carriers()[-1].models[:1]
    if split.history or not models:
        if split.history:
            notes.source("history", *origin)
        return split
    own = given(unit_messages(models[0], Field.INPUT))
    if not own.history or own.text != split.text:
        return split
    for told in unit_facts(models, Field.INPUT):
        notes.source("history", *told)
    return Given(own.history, split.asked, split.after)


def final_response(main: Scope, beside: Sequence[Node], notes: Notes, *, failed: bool) -> str | None:
    """The recorded answer of the run, else of the agent that spoke last (after a hand-over not the first), else its last model call's."""
    speaker = _last_speaker(main)
    own = [node for node in _frames(main) if speaker is main or node not in main.lead]
    own = _newest_run_first(own)

    def origins() -> Iterator[Origin]:
        for node in own:
            found = answer_of(node)
            if found is not None and not (failed and _unstructured(node)):
                yield node, found
        if failed:
            return
        yield from _scope_answer(speaker)
        for node, found in facts_of(own, Field.OUTPUT):
            text = returned_text(found.value or ())
            if text is not None:
                yield node, Found(text, found.source + " (tool)", found.convention, weak=True)
        for node, found in facts_of([node for node in beside if node.start >= main.start], Field.INPUT):
            told = [text for m in found.value or () if m.role == "assistant" and (text := message_text(m))]
            if told:
                yield node, Found(told[0], found.source, found.convention)

    result: str | None = first("final_response", origins(), notes)
    said = next((found.value for _, found in _last_model_answer(speaker)), None)
    # Some frameworks add line breaks to the model's words: the words as they were said are the answer.
    return said if result and said and result.strip() == said.strip() else result


def _frames(main: Scope) -> list[Node]:
    """The spans of the agent, and of the one that did all the work for it."""
    return [node for node in main.spans() if node.span_class not in UNITS]


def _newest_run_first(frames: Sequence[Node]) -> list[Node]:
    """The spans of an agent, those of a run that went on in another trace before those of the run that it went on with."""
    runs: list[list[Node]] = []
    for node in frames:
        if not runs or (node.parent is None and node.trace_id != runs[-1][0].trace_id):
            runs.append([])
        runs[-1].append(node)
    return [node for run in reversed(runs) for node in run]


def _last_speaker(main: Scope) -> Scope:
    """Of the agent and those that it handed over to the one that worked last."""
    return max(_handed_over(main), key=lambda scope: _worked_at(scope, frame=scope is main))


def _worked_at(scope: Scope, *, frame: bool) -> tuple[int, str]:
    """When a scope last worked: by its last model call, else by its span; a mere frame around others never did."""
    if scope.models:
        return scope.models[-1].node.key
    own = scope.lead if frame else scope.frames
    return max(((node.start, node.span_id) for node in own), default=(0, ""))


def first_speaker(main: Scope) -> Scope:
    """The agent itself, or where it is only the frame of others the first of them that worked."""
    if main.models:
        return main
    working = [scope for scope in _handed_over(main) if scope.models]
    return min(working, key=lambda scope: scope.models[0].node.key, default=main.carriers()[-1])


def _handed_over(main: Scope) -> list[Scope]:
    """The scope and its sub-agents that no tool started, theirs included."""
    found: list[Scope] = []
    stack = [main]
    while stack:
        scope = stack.pop()
        found.append(scope)
        stack += [child for child in scope.children if child.via is None]
    return found


def _unstructured(node: Node) -> bool:
    """Whether a span's output is some JSON without messages: of a failed run that is a report, no answer."""
    parts = [part for message in value(node.facts, Field.OUTPUT) or () for part in message.parts]
    return bool(parts) and all(part.get("unstructured") for part in parts)


def _scope_answer(scope: Scope) -> Iterator[Origin]:
    for node in scope.lead or scope.frames:
        found = answer_of(node)
        if found is not None:
            yield node, found
    yield from _last_model_answer(scope)


def _last_model_answer(scope: Scope) -> Iterator[Origin]:
    if not scope.models:
        return
    last = scope.models[-1]
    found = unit_fact(last, Field.OUTPUT)
    if found is None or failure_text(last.node) is not None:
        return
    looped = any(tool.node.parent is last.node for tool in scope.tools)
    text = model_text(found.value or (), looped=looped)
    reason = None if text else withheld_text(found.value or ()) or found.capture
    if text is not None or reason is not None:
        yield last.node, Found(text, found.source, found.convention, reason)


def error_of(main: Scope) -> tuple[Node, str] | None:
    """Why the run failed: its own spans, else a last model call that failed with nothing after it; None when it went well."""
    for node in _frames(main):
        if node.span_class is SpanClass.OTHER:
            continue  # a web request's status says nothing about the agent
        text = failure_text(node)
        if text is not None:
            return node, text
    speaker = _last_speaker(main)
    for node in speaker.frames if speaker is not main else ():
        text = failure_text(node)
        if text is not None:
            return node, text
    if not speaker.models:
        return None
    last = speaker.models[-1]
    text = failure_text(last.node)
    if text is None and ended_by_exception(last.node) and lacking(unit_messages(last, Field.OUTPUT)) is not None:
        text = exception_text(last.node)
    return (last.node, text) if text is not None else None


def tool_definitions(main: Scope, setup: Sequence[Node], notes: Notes) -> tuple[ToolDefinition, ...]:
    """What the agent was offered: by its spans and its model calls together, each tool once; else by the agent's set-up."""
    speaker = first_speaker(main)
    frames = [*_frames(main), *(speaker.frames if speaker is not main else ())]
    origins = [*facts_of(frames, Field.DEFINITIONS), *unit_facts(speaker.models, Field.DEFINITIONS)]
    whole = [origin for origin in origins if origin[1].value]
    whole = whole or [origin for origin in facts_of(setup, Field.DEFINITIONS) if origin[1].value]
    if not whole:
        if origins:
            notes.capture["tool_definitions"] = origins[0][1].capture or Capture.NOT_CAPTURED
        return _observed(main.carriers()[-1], notes)
    notes.source("tool_definitions", *whole[0])
    outputs = {name for _, found in unit_facts(speaker.models, Field.OUTPUT_TOOLS) for name in found.value}
    found = united(one for _, found in whole for one in found.value if one.name not in outputs)
    schemas = {value(unit.node.facts, Field.TOOL_NAME): unit_fact(unit, Field.TOOL_SCHEMA) for unit in speaker.tools}
    return tuple(_completed(one, schemas.get(one.name)) for one in found)


def _observed(main: Scope, notes: Notes) -> tuple[ToolDefinition, ...]:
    """The tools that ran, where their spans hold the schemas: a part of what was offered, and marked so."""
    origins = [
        (node, found) for node, found in unit_facts(main.tools, Field.TOOL_SCHEMA) if found.value.parameters is not None
    ]
    if not origins:
        return ()
    notes.source("tool_definitions", *origins[0])
    notes.capture["tool_definitions"] = Capture.TRUNCATED
    return united(found.value for _, found in origins)


def _completed(one: ToolDefinition, schema: Found | None) -> ToolDefinition:
    return united((one, schema.value))[0] if schema is not None and one.parameters is None else one


def model_name(main: Scope, notes: Notes) -> str | None:
    """The model as asked for; the answering one where the request's is not recorded."""
    worked = main.carriers()[-1]

    def origins() -> Iterator[Origin]:
        for which in (Field.MODEL, Field.RESPONSE_MODEL):
            yield from unit_facts(worked.models, which)
            yield from facts_of(main.spans(), which)
        for child in main.all()[1:]:
            yield from unit_facts(child.models, Field.MODEL)
            yield from unit_facts(child.models, Field.RESPONSE_MODEL)

    result: str | None = first("model", origins(), notes)
    return result


def conversation_id(main: Scope, members: Sequence[Node], notes: Notes) -> str | None:
    """The root's, else its ancestors', else the most frequent among the members that belong to no sub-agent."""
    root, worked = main.chain[0], main.carriers()[-1]
    responses = {value(node.facts, Field.RESPONSE_ID) for node in members}
    for node, found in facts_of((*main.spans(), *root.ancestors()), Field.CONVERSATION):
        if found.value not in responses:
            notes.source("conversation_id", node, found)
            return str(found.value)
    own = [node for unit in (*worked.models, *worked.tools) for node in unit.nodes]
    for nodes in (own, members):
        origins = [(node, found) for node, found in facts_of(nodes, Field.CONVERSATION) if found.value not in responses]
        if origins:
            (common, _), *_ = Counter(found.value for _, found in origins).most_common(1)
            notes.source("conversation_id", *next(origin for origin in origins if origin[1].value == common))
            return str(common)
    return None


def tokens(main: Scope, which: Field, notes: Notes) -> int | None:
    """The sum over all model calls of the tree; the agent span's own figure only where no call has one."""
    total: int | None = None
    answered: set[str] = set()
    for scope in main.all():
        for unit in scope.models:
            counted = _usage(unit, which)
            identifier = value(unit.node.facts, Field.RESPONSE_ID)
            if not counted or (identifier and identifier in answered):
                continue
            if identifier:
                answered.add(identifier)
            for node, found in counted:
                total = (total or 0) + int(found.value)
                if notes.explain:
                    notes.source(which.value, node, found)
    if total is not None:
        return total
    result: int | None = first(which.value, facts_of(main.spans(), which), notes)
    return result


def _usage(unit: Unit, which: Field) -> list[Origin]:
    """A call's tokens: the provider's own record, else the standing span's, else those of the spans inside it (tries of one call)."""
    native = [node for node in unit.copies if Field.NATIVE in node.facts] if unit.copies else []
    if Field.NATIVE in unit.node.facts:
        native.append(unit.node)
    for node in (native[0] if len(native) == 1 else unit.node, unit.node):
        found = node.facts.get(which)
        if found is not None and found.value is not None:
            return [(node, found)]
    return [
        (node, found)
        for node in unit.copies
        if (found := node.facts.get(which)) is not None and found.value is not None
    ]
