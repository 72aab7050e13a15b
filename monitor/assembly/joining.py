"""Model calls that each have a trace of their own: which of them make one turn (reference: conventions, section 8.7).

Evidence, strongest first: the same response (recorded twice), an answer to a tool call that the earlier one asked for, the previous
response's id, a history that is the earlier call word for word. Where content is switched off, a call that says nothing goes to the one
turn of its process that waits for tools, if there is exactly one.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from monitor.assembly.facts import CANDIDATES, Field, SpanClass, value
from monitor.assembly.messages import answers_in, calls_in, fingerprint, lacking
from monitor.assembly.neighbourhood import Surroundings, Unit
from monitor.assembly.segmentation import Segment
from monitor.assembly.tree import Node, Tree
from monitor.assembly.turns import given

_LOOKED_AT = 8
"""With more turns waiting than this nobody can tell which one goes on."""

PATIENCE_NS = 5 * 60 * 1_000_000_000
"""How long a turn without content waits for its next model call."""


def joined(segments: Sequence[Segment], around: Surroundings) -> list[Segment]:
    """The segments, with lone model calls that make one turn put together. Others stay as they are."""
    turns = _Turns()
    kept: list[Segment] = []
    for one in sorted(segments, key=lambda segment: (segment.root.start, -segment.root.end, segment.root.span_id)):
        if not is_lone(one.root):
            kept.append(one)
            continue
        turn = turns.waiting_for(one, around)
        if turn is None:
            kept.append(one)
            turn = one
        else:
            turn.members += one.members
            turn.joined = True
        turns.note(turn, _models(one, around))
    return kept


def is_lone(root: Node) -> bool:
    """Whether a root is a model call that nothing encloses."""
    return root.span_class is SpanClass.MODEL and (root.parent is None or root.parent.phantom)


def _models(one: Segment, around: Surroundings) -> list[Unit]:
    units = [around.units[id(node)] for node in one.members if id(node) in around.units]
    return [unit for unit in units if unit.node.span_class is SpanClass.MODEL]


class _Turns:
    """Turns by what would continue them."""

    def __init__(self) -> None:
        self._by_key: dict[str, tuple[Segment, Node]] = {}
        self._open: dict[str, dict[int, tuple[Segment, int]]] = {}
        self._asked: dict[str, dict[int, tuple[Segment, int]]] = {}
        self._newest: dict[str, tuple[Segment, Node]] = {}

    def waiting_for(self, one: Segment, around: Surroundings) -> Segment | None:
        """The turn that a segment continues, None for a turn of its own."""
        models = _models(one, around)
        for key in needed(models):
            turn, earlier = self._by_key.get(key, (None, None))
            if turn is None or earlier is None:
                continue
            if not key.startswith(_RESPONSE) or _same_call(earlier, models[0].node):
                return turn
        return self._beside(models[0]) or self._only_open(models[0]) if models else None

    def _beside(self, unit: Unit) -> Segment | None:
        """The turn whose newest call a record without content repeats: another instrumentation's, within its time."""
        newest = self._newest.get(_talk(unit.node))
        if newest is None or not _says_nothing(unit):
            return None
        turn, other = newest
        inside = other.start <= unit.node.start and unit.node.end <= other.end
        return turn if inside and _scope(other) != _scope(unit.node) and _model(other) == _model(unit.node) else None

    def _only_open(self, unit: Unit) -> Segment | None:
        """The one turn of the process that waits for tools, for a call that says nothing, or only repeats what that turn was asked."""
        if _says_nothing(unit):
            return _only(self._open.get(_talk(unit.node), {}), unit.node.start)
        return _only(self._asked.get(_asked_for(unit), {}), unit.node.start)

    def note(self, turn: Segment, models: Sequence[Unit]) -> None:
        """Remember what a turn's newest model calls may be continued by."""
        for unit in models:
            for key in left(unit):
                self._by_key[key] = turn, unit.node
        if not models:
            return
        last = models[-1]
        self._newest[_talk(last.node)] = turn, last.node
        waits = value(last.node.facts, Field.ASKS) is True or bool(calls_in(value(last.node.facts, Field.OUTPUT) or ()))
        for known in (self._open.setdefault(_talk(last.node), {}), self._asked.setdefault(_asked_for(last), {})):
            known.pop(id(turn), None)
            if waits:
                known[id(turn)] = turn, last.node.end


def _only(waiting: dict[int, tuple[Segment, int]], now: int) -> Segment | None:
    """The one turn that waits at a time; turns that have waited too long are forgotten."""
    for key in [key for key, (_, since) in itertools.islice(waiting.items(), _LOOKED_AT) if since + PATIENCE_NS < now]:
        del waiting[key]
    fit = [turn for turn, since in itertools.islice(waiting.values(), _LOOKED_AT) if since <= now]
    return fit[0] if len(fit) == 1 and len(waiting) <= _LOOKED_AT else None


def _set_up(node: Node) -> str:
    return f"setup {value(node.facts, Field.AGENT_NAME)} {_service(node)}"


_RESPONSE = "response "


def _same_call(earlier: Node, node: Node) -> bool:
    """Whether two records of one response are of one call: of two emitters, at once, or the earlier one without its answer yet.

    A cache hands out an old response, id included, for a new call.
    """
    if (_scope(earlier), _service(earlier)) != (_scope(node), _service(node)):
        return node.start <= earlier.end + PATIENCE_NS
    return node.start <= earlier.end or not value(earlier.facts, Field.OUTPUT)


def needed(models: Sequence[Unit]) -> Iterator[str]:
    """Keys of what the first of a trace's model calls goes on from."""
    if not models:
        return
    facts, service = models[0].node.facts, _service(models[0].node)
    response, previous = value(facts, Field.RESPONSE_ID), value(facts, Field.PREVIOUS_RESPONSE)
    if response:
        yield f"{_RESPONSE}{response}"
    messages = value(facts, Field.INPUT) or ()
    parts = given(messages)
    if parts.asked and not parts.after:
        return  # a new user message begins a new turn
    for part in reversed(answers_in(parts.after or messages)):
        if part.get("id"):
            yield f"call {part['id']} {service}"
    for part in reversed(calls_in(parts.after)):
        if part.get("id"):
            yield f"call {part['id']} {service}"
    if previous:
        yield f"after {previous} {service}"
    told = [message for message in messages if message.role != "system"]
    while told and told[-1].role == "tool":
        told.pop()
    if told and told[-1].role == "assistant":
        yield f"said {fingerprint(told)} {service}"


def left(unit: Unit) -> Iterator[str]:
    """Keys of what may go on from a model call."""
    facts, service = unit.node.facts, _service(unit.node)
    response = value(facts, Field.RESPONSE_ID)
    if response:
        yield f"{_RESPONSE}{response}"
        yield f"after {response} {service}"
    spoken = value(facts, Field.OUTPUT) or ()
    for part in calls_in(spoken):
        if part.get("id"):
            yield f"call {part['id']} {service}"
    if calls_in(spoken):
        yield f"said {fingerprint((*(value(facts, Field.INPUT) or ()), *spoken))} {service}"


def _says_nothing(unit: Unit) -> bool:
    """Whether a call's input is not recorded, so that it cannot tell what it goes on from."""
    return lacking(value(unit.node.facts, Field.INPUT) or ()) is not None


def _asked_for(unit: Unit) -> str:
    return _talk(unit.node) + fingerprint(value(unit.node.facts, Field.INPUT) or ())


def _scope(node: Node) -> str:
    return node.span.scope.name if node.span else ""


def _service(node: Node) -> str:
    return str(node.span.resource.attributes.get("service.name")) if node.span else ""


def _model(node: Node) -> str | None:
    model: str | None = value(node.facts, Field.MODEL)
    return model


def _talk(node: Node) -> str:
    """The process and the conversation that a call names."""
    attributes = node.span.resource.attributes if node.span else {}
    process = f"{attributes.get('service.name')} {attributes.get('service.instance.id')}"
    return f"{process} {value(node.facts, Field.CONVERSATION)} "


@dataclass(frozen=True, slots=True)
class Ties:
    """Keys by which a trace hangs together with others: what it goes on from, and what may go on from it.

    Traces with a common key are candidates: to assemble them together never joins what does not belong together.
    """

    needs: frozenset[str]
    leaves: frozenset[str]


def ties_of(tree: Tree, around: Surroundings, segments: Sequence[Segment]) -> Ties:
    """The ties of a trace's lone model calls (none where an agent or a request encloses them), of set-ups and of the agents set up."""
    named = [node for node in tree.nodes if Field.AGENT_NAME in node.facts]
    needs = {_set_up(node) for node in named if node.span_class in CANDIDATES}
    leaves = {_set_up(node) for node in named if node.span_class is SpanClass.SETUP}
    for one in segments:
        models = _models(one, around) if is_lone(one.root) else []
        if not models:
            continue
        needs.update(needed(models), [f"asked {_asked_for(models[0])}"])
        leaves.update(key for unit in models for key in left(unit))
        leaves.update([f"talk {_talk(models[-1].node)}", f"asked {_asked_for(models[-1])}"])
        if _says_nothing(models[0]):
            needs.add(f"talk {_talk(models[0].node)}")
    return Ties(frozenset(needs), frozenset(leaves))
