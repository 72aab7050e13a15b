"""Which spans make one invocation: its root and its members (reference: conventions, section 8.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from monitor.assembly.answers import answer_of, model_text
from monitor.assembly.facts import CANDIDATES, Field, SpanClass, value
from monitor.assembly.neighbourhood import Surroundings
from monitor.assembly.tree import Node, Tree
from monitor.assembly.turns import Given, given, split_turns

_REQUEST_KINDS = (2, 5)  # SERVER, CONSUMER


@dataclass(slots=True, eq=False)
class Segment:
    """One invocation: the root that gives it its id and times, and its nodes, parents first.

    `inferred` roots are no agent's span: a web request, a lost parent, a model call. `joined` ones have members beside their root.
    """

    root: Node
    members: list[Node]
    inferred: bool = False
    joined: bool = False


def segment(tree: Tree, around: Surroundings) -> list[Segment]:
    """The invocations of a tree, in no particular order."""
    tops: dict[int, list[Node]] = {}
    loose: dict[int, list[Node]] = {}
    root_of: dict[int, Node] = {}
    for node in tree.nodes:
        root = root_of[id(node)] = node if node.parent is None else root_of[id(node.parent)]
        above = around.owner[id(node.parent)] if node.parent is not None else None
        if above is not None:
            continue
        if node.span_class in CANDIDATES:
            tops.setdefault(id(root), []).append(node)
        elif id(node) in around.units:
            loose.setdefault(id(root), []).append(node)
    segments: list[Segment] = []
    for root in tree.roots:
        segments += _under(root, tops.get(id(root), []), loose.get(id(root), []), around)
    return segments


def _under(root: Node, tops: list[Node], loose: list[Node], around: Surroundings) -> list[Segment]:
    bound = [node for node in tops if around.starter[id(node)] is not None]
    free = [node for node in tops if around.starter[id(node)] is None]
    segments: list[Segment] = []
    if loose and (bound or not free):
        segments += _inferred(root, loose, around)
    opened = [node for top in free for node in _opened(top, around)]
    return segments + _grouped(root, opened, around)


def _inferred(root: Node, loose: list[Node], around: Surroundings) -> list[Segment]:
    """Model calls and tools with no agent's span around them: one invocation per root, split where the history shows turns."""
    models = [around.units[id(node)] for node in loose if node.span_class is SpanClass.MODEL]
    models.sort(key=lambda unit: unit.node.key)
    turns = split_turns(models)
    if len(turns) < 2:
        return [Segment(root, list(root.subtree()), inferred=True)]
    starts = [turn[0].node.start for turn in turns]
    members: list[list[Node]] = [[] for _ in turns]
    for node in loose:
        at = max((i for i, start in enumerate(starts) if start <= node.start), default=0)
        members[at] += node.subtree()
    return [
        Segment(turn[0].node, nodes, inferred=True, joined=True) for turn, nodes in zip(turns, members, strict=True)
    ]


def _opened(top: Node, around: Surroundings) -> list[Node]:
    """The candidate itself, or the runs inside where it is only the container of a conversation."""
    found, stack = [], [top]
    while stack:
        node = stack.pop()
        inner = _direct(node, around)
        if len(inner) > 1 and _is_conversation(inner, around):
            stack += reversed(inner)
        else:
            found.append(node)
    return found


def _direct(candidate: Node, around: Surroundings) -> list[Node]:
    """The candidates directly below; empty when the candidate does work of its own or has a tool in between."""
    inner: list[Node] = []
    stack = list(reversed(candidate.children))
    while stack:
        node = stack.pop()
        if id(node) in around.units:
            return []
        if node.span_class in CANDIDATES:
            inner.append(node)
        else:
            stack += reversed(node.children)
    return inner


def _is_conversation(runs: Sequence[Node], around: Surroundings) -> bool:
    """Whether each run but the first goes on from the answer of the one before with a new user message."""
    before = ""
    for number, run in enumerate(runs):
        asked = first_given(run, around)
        said = [
            part.get("content", "").strip()
            for message in asked.history
            for part in message.parts
            if part.get("type") == "text"
        ]
        if number and (not before or before not in said or asked.after or not asked.asked):
            return False
        before = (last_answer(run, around) or "").strip()
    return True


@dataclass(slots=True, eq=False)
class _Group:
    """Top candidates that serve one request."""

    tops: list[Node]
    asked: Given
    end: int


def _grouped(root: Node, tops: list[Node], around: Surroundings) -> list[Segment]:
    """One invocation per top candidate, except where several serve one request of their common root."""
    groups: list[_Group] = []
    for top in sorted(tops, key=lambda node: node.key):
        asked = first_given(top, around) if len(tops) > 1 else Given()
        if groups and root.span_class is not SpanClass.SESSION and _belongs(top, asked, groups[-1], root):
            groups[-1].tops.append(top)
            groups[-1].end = max(groups[-1].end, top.end)
        else:
            groups.append(_Group([top], asked, top.end))
    segments = []
    for group in groups:
        if len(group.tops) == 1:
            segments.append(Segment(group.tops[0], list(group.tops[0].subtree())))
        elif len(groups) == 1:
            segments.append(Segment(root, list(root.subtree()), inferred=True))
        else:
            members = [node for top in group.tops for node in top.subtree()]
            segments.append(Segment(group.tops[0], members))
    return segments


def _belongs(top: Node, asked: Given, group: _Group, root: Node) -> bool:
    """Whether a further candidate under the same root serves the same request as the group."""
    request = root.span is not None and root.span.kind in _REQUEST_KINDS
    if request and top.start < group.end:
        return True
    if asked.text is not None and group.asked.text is not None:
        return asked.text == group.asked.text
    if asked.asked or group.asked.asked or not request:
        return False
    return bool(value(top.facts, Field.AGENT_NAME) != value(group.tops[-1].facts, Field.AGENT_NAME))


def first_given(node: Node, around: Surroundings) -> Given:
    """What a run was given: by its own span, else by the first model call below it."""
    for inside in node.subtree():
        messages = value(inside.facts, Field.INPUT)
        if messages and (
            inside.span_class in CANDIDATES or (id(inside) in around.units and inside.span_class is SpanClass.MODEL)
        ):
            found = given(messages)
            if found.asked:
                return found
    return Given()


def last_answer(node: Node, around: Surroundings) -> str | None:
    """The text that a run ended with: by its own span, else by the last model call below it."""
    own = answer_of(node)
    if own is not None and own.value:
        return str(own.value)
    models = [
        inside for inside in node.subtree() if id(inside) in around.units and inside.span_class is SpanClass.MODEL
    ]
    last = max(models, key=lambda inside: inside.key, default=None)
    return model_text(value(last.facts, Field.OUTPUT) or ()) if last is not None else None
