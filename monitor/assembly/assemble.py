"""Spans and log records of a settled trace in, invocations out: one pure function."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any

from collectors.immutable import immutable
from collectors.span import LogRecord, Span
from monitor.assembly.completeness import CUT_FIRST, missing_fields
from monitor.assembly.errors import failure_of
from monitor.assembly.explaining import explain_calls
from monitor.assembly.facts import CANDIDATES, Field, Found, SpanClass
from monitor.assembly.fields import (
    Notes,
    conversation_id,
    error_of,
    facts_of,
    final_response,
    first,
    model_name,
    system_instructions,
    tokens,
    tool_definitions,
    what_was_given,
)
from monitor.assembly.joining import joined, piece_of
from monitor.assembly.linking import Linked, linked
from monitor.assembly.neighbourhood import Surroundings
from monitor.assembly.pieces import Piece, key_of
from monitor.assembly.reading import read, segmented
from monitor.assembly.sampling_state import upstream_probability
from monitor.assembly.scopes import Scope, scope_tree
from monitor.assembly.segmentation import Segment
from monitor.assembly.standing import standing
from monitor.assembly.toolcalls import Joined, join
from monitor.assembly.tree import Node, Tree, build
from monitor.assembly.values import plain, text_of
from monitor.model.invocation import Assembled, Capture, Completeness, Invocation, SettledBy


@immutable(frozen=True, slots=True)
class AssemblyContext:
    """What assembly cannot see in the spans.

    `keep_attributes` are keys or globs to copy from the root's (or its resource's) attributes. `explain`: note where every field came from.
    """

    settled_by: SettledBy
    collector: str
    keep_attributes: tuple[str, ...] = ()
    late_spans: int = 0
    explain: bool = False


@dataclass(frozen=True, slots=True)
class SetUp:
    """A span that sets an agent up, often in a trace of its own: `key` is that of the agent and its service, `start` in nanoseconds."""

    key: int
    start: int
    trace_id: str
    span_id: str


@immutable(frozen=True, slots=True)
class Ties:
    """By what a trace hangs together with others.

    `pieces` are model calls that nothing encloses, which may be one turn with those of other traces. `agents` are the keys of agents
    whose set-up, wherever it lies, would tell more of them. `linked` is the trace that sent the messages which this one works off.
    """

    pieces: tuple[Piece, ...] = ()
    setups: tuple[SetUp, ...] = ()
    agents: frozenset[int] = frozenset()
    linked: Linked | None = None


@immutable(frozen=True, slots=True)
class Reading:
    """What was read from the spans and log records of a trace, or of traces that make one turn. `invocations` by start, then id."""

    invocations: tuple[Assembled, ...]
    ties: Ties


def assemble(
    spans: Sequence[Span], logs: Sequence[LogRecord], context: AssemblyContext, beside: Sequence[Span] = ()
) -> list[Assembled]:
    """The invocations in the spans and log records of one trace, or of traces that make one turn, by start, then id.

    `beside` are spans of other traces that set agents up. Order and repetition of the input do not matter. Whatever attributes hold,
    this does not raise.
    """
    return list(reading(spans, logs, context, beside).invocations)


def reading(
    spans: Sequence[Span],
    logs: Sequence[LogRecord],
    context: AssemblyContext,
    beside: Sequence[Span] = (),
    *,
    is_open: bool = False,
) -> Reading:
    """The invocations, as `assemble`, and by what they hang together with other traces. `is_open`: more may come of the trace; only those
    invocations are given that stand by themselves already.
    """
    tree, around, segments = segmented(spans, logs)
    own = _setups(tree.nodes)
    others = build(beside, (), read).nodes if beside else ()
    rest = _Beside(_setups((*tree.nodes, *others)) if others else own, _companions(tree, around))
    wanted = standing(tree, segments, around) if is_open else joined(segments, around)
    made = [_invocation(one, around, rest, context) for one in wanted]
    agents = (agent_key(one.invocation.service, one.invocation.agent_name) for one in made if _lacks_setup(one))
    return Reading(
        tuple(sorted(made, key=lambda one: (one.invocation.started_at, one.invocation.id))),
        Ties(_pieces(segments, around), _told(own), frozenset(agents), _linked(tree)),
    )


def ties(spans: Sequence[Span], logs: Sequence[LogRecord]) -> Ties:
    """By what a trace hangs together with others, without its invocations; `agents` are all that are named."""
    tree, around, segments = segmented(spans, logs)
    named = (node for node in tree.nodes if node.span_class in CANDIDATES and Field.AGENT_NAME in node.facts)
    agents = frozenset(agent_key(_service(node), str(node.facts[Field.AGENT_NAME].value)) for node in named)
    return Ties(_pieces(segments, around), _told(_setups(tree.nodes)), agents, _linked(tree))


def _linked(tree: Tree) -> Linked | None:
    found = linked(tree.roots)
    return next(iter(found.values())) if len(found) == 1 else None


def _pieces(segments: Sequence[Segment], around: Surroundings) -> tuple[Piece, ...]:
    return tuple(piece for one in segments if (piece := piece_of(one, around)) is not None)


def _told(setups: Mapping[tuple[str | None, str], Sequence[Node]]) -> tuple[SetUp, ...]:
    return tuple(
        SetUp(agent_key(*of), node.start, node.trace_id, node.span_id) for of, nodes in setups.items() for node in nodes
    )


@lru_cache(maxsize=4096)
def agent_key(service: str | None, name: str | None) -> int:
    """By what an agent of a service is told from others, for what it was set up with."""
    return key_of(f"agent {service} {name}")


def _lacks_setup(one: Assembled) -> bool:
    """Whether a set-up could tell what the run itself does not: who it is, but not how it was instructed or what tools it was given."""
    invocation = one.invocation
    known = invocation.system_instructions is not None and invocation.tool_definitions
    return invocation.agent_name is not None and not (
        known and "tool_definitions" not in invocation.completeness.capture
    )


@dataclass(frozen=True, slots=True)
class _Beside:
    """What lies outside of all runs: spans that set agents up, by service and name, and client calls with messages, by conversation."""

    setups: Mapping[tuple[str | None, str], Sequence[Node]]
    companions: Mapping[str, Sequence[Node]]


def _setups(nodes: Iterable[Node]) -> dict[tuple[str | None, str], list[Node]]:
    """Spans that set an agent up, by its service and name, in order of time."""
    found: dict[tuple[str | None, str], list[Node]] = {}
    for node in nodes:
        if node.span_class is SpanClass.SETUP and Field.AGENT_NAME in node.facts:
            found.setdefault((_service(node), str(node.facts[Field.AGENT_NAME].value)), []).append(node)
    return {key: sorted(nodes, key=lambda node: node.key) for key, nodes in found.items()}


def _setup_of(root: Node, name: str, rest: _Beside) -> Sequence[Node]:
    """The newest set-up of an agent before a run of it; in a list, which is empty for none."""
    setups = rest.setups.get((_service(root), name), ())
    before = bisect_right(setups, root.start, key=lambda node: node.start)
    return setups[max(0, before - 1) : before]


def _service(node: Node) -> str | None:
    return text_of(node.span.resource.attributes.get("service.name")) if node.span else None


def _companions(tree: Tree, around: Surroundings) -> dict[str, list[Node]]:
    """Client calls outside of any run that hold messages, by their conversation."""
    found: dict[str, list[Node]] = {}
    for node in tree.nodes:
        alone = node.span_class is SpanClass.STEP and around.owner[id(node)] is None
        if alone and Field.INPUT in node.facts and Field.CONVERSATION in node.facts:
            found.setdefault(str(node.facts[Field.CONVERSATION].value), []).append(node)
    return {key: sorted(nodes, key=lambda node: node.key) for key, nodes in found.items()}


def _invocation(one: Segment, around: Surroundings, rest: _Beside, context: AssemblyContext) -> Assembled:
    main = scope_tree(one.root, one.members, around)
    notes = Notes(context.explain)
    failed = error_of(main)
    conversation = conversation_id(main, one.members, notes)
    beside = rest.companions.get(conversation or "", ())
    asked = what_was_given(main.all(), beside, notes)
    open_ended = not _ended(one)
    calls = join(main, open_ended=open_ended)
    notes.capture.update(calls.capture)
    name = main.name()
    if context.explain:
        _explain(main, calls, failed[0] if failed else None, notes)
    root = one.root
    setup = _setup_of(main.chain[0], str(name.value), rest) if name is not None else ()
    invocation = Invocation(
        id=f"{root.trace_id}-{root.span_id}",
        trace_id=root.trace_id,
        span_id=root.span_id,
        started_at=_start(one),
        ended_at=_end(one),
        convention=_convention(main),
        collector=context.collector,
        conversation_id=conversation,
        agent_name=str(name.value) if name is not None else None,
        agent_version=_version(main, notes),
        environment=_environment(main, notes)
        or _resource(one, "deployment.environment.name", "environment", notes)
        or _resource(one, "deployment.environment", "environment", notes),
        service=_resource(one, "service.name", "service", notes),
        model=model_name(main, notes),
        system_instructions=system_instructions(main, setup, notes),
        user_input=asked.text,
        history=asked.history,
        tool_definitions=tool_definitions(main, setup, notes),
        tool_calls=calls.calls,
        final_response=final_response(main, beside, notes, failed=failed is not None),
        error=failed[1] if failed else None,
        model_calls=sum(len(scope.models) for scope in main.all()),
        input_tokens=tokens(main, Field.INPUT_TOKENS, notes),
        output_tokens=tokens(main, Field.OUTPUT_TOKENS, notes),
        attributes=_kept(root, context.keep_attributes),
        inclusion_probability=upstream_probability(root.span.trace_state if root.span else ""),
        operation=first("operation", facts_of(main.chain, Field.OPERATION), Notes()),
        completeness=Completeness(context.settled_by, (), notes.capture, context.late_spans),
    )
    return Assembled(
        _completed(invocation, notes, context, one, calls_hidden=calls.hidden),
        frozenset(node.span_id for node in one.members if not node.phantom),
        tuple(notes.provenance),
    )


def _completed(
    invocation: Invocation, notes: Notes, context: AssemblyContext, one: Segment, *, calls_hidden: bool
) -> Invocation:
    missing = missing_fields(invocation, calls_hidden=calls_hidden)
    for name in CUT_FIRST.intersection(missing):
        if notes.capture.get(name) in (None, Capture.NOT_CAPTURED) and _has_dropped(one):
            notes.capture[name] = Capture.TRUNCATED
    done = Completeness(context.settled_by, missing, _clean(invocation, notes), context.late_spans)
    return replace(invocation, completeness=done)


def _has_dropped(one: Segment) -> bool:
    """Whether an SDK's limits took attributes or events off a span."""
    spans = (node.record.span for node in one.members if node.record is not None)
    return any(span.dropped_attributes_count or span.dropped_events_count for span in spans)


def _clean(invocation: Invocation, notes: Notes) -> Mapping[str, Capture]:
    """Reasons only for fields that are in fact not whole; a failed run has no answer that could lack."""

    def stands(path: str) -> bool:
        if path == "final_response" and invocation.error is not None:
            return False
        return path.startswith("tool_calls[") or path == "tool_definitions" or not getattr(invocation, path, None)

    return {path: reason for path, reason in notes.capture.items() if stands(path)}


def _ended(one: Segment) -> bool:
    span = one.root.span
    return (
        span.ended
        if span is not None
        else all(child.span is not None and child.span.ended for child in one.root.children)
    )


def _start(one: Segment) -> int:
    if one.root.phantom:
        return min((node.start for node in one.members if not node.phantom), default=0)
    return one.root.start


def _end(one: Segment) -> int:
    if one.root.span is not None and one.root.span.ended and not one.joined:
        return one.root.end
    return max((node.end for node in one.members if not node.phantom), default=one.root.end)


def _convention(main: Scope) -> str:
    for node in main.chain:
        found = node.facts.get(Field.CLASS)
        if found is not None and found.convention:
            return found.convention
    for unit in (*main.models, *main.tools):
        return unit.node.facts[Field.CLASS].convention
    return "unknown"


def _version(main: Scope, notes: Notes) -> str | None:
    stated: str | None = first("agent_version", facts_of(main.chain, Field.AGENT_VERSION), notes)
    if stated is not None:
        return stated
    node = next((node for node in main.chain if node.record), None)
    version = text_of(node.record.span.resource.attributes.get("service.version")) if node and node.record else None
    if version is not None and node is not None:
        notes.source("agent_version", node, Found(version, "resource service.version"))
    return version


def _environment(main: Scope, notes: Notes) -> str | None:
    for key in ("deployment.environment.name", "deployment.environment"):
        for node in main.chain:
            stated = text_of(node.record.span.resource.attributes.get(key)) if node.record else None
            if stated is not None:
                notes.source("environment", node, Found(stated, f"resource {key}"))
                return stated
    result: str | None = first("environment", facts_of(main.chain, Field.ENVIRONMENT), notes)
    return result


def _resource(one: Segment, key: str, name: str, notes: Notes) -> str | None:
    for node in one.members:
        if node.record is not None:
            stated = text_of(node.record.span.resource.attributes.get(key))
            if stated is not None:
                notes.source(name, node, Found(stated, f"resource {key}"))
            return stated
    return None


def _explain(main: Scope, calls: Joined, failed: Node | None, notes: Notes) -> None:
    """Note where the agent's name, its error and its tool calls come from."""
    name = main.name()
    for node in (*main.chain, *(unit.node for unit in (*main.models, *main.tools))):
        if name is not None and name in (node.facts.get(Field.AGENT_NAME), node.facts.get(Field.WORKFLOW_NAME)):
            notes.source("agent_name", node, name)
            break
    if failed is not None:
        failure = failure_of(failed)
        notes.source("error", failed, Found(None, failure[1] if failure is not None else "exception event"))
    explain_calls(calls.evidence, calls.calls, main, notes)


def _kept(root: Node, patterns: tuple[str, ...]) -> Mapping[str, Any]:
    if not patterns or root.record is None:
        return {}
    span = root.record.span
    kept: dict[str, Any] = {}
    for attributes in (span.attributes, span.resource.attributes):
        for key, content in attributes.items():
            if key not in kept and any(fnmatchcase(key, pattern) for pattern in patterns):
                kept[key] = plain(content)
    return kept
