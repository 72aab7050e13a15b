"""Messages between agents: which roots are hung below the span that sent them, in their trace or in another (reference: conventions, 8.3, 8.7).

A link says what came before, not what stands above. It is followed from the roots of message passing only: from what frameworks start
per message (AutoGen, Agent Framework) to any span of a run, from what takes a message out of a queue to a span inside of a run, not to the run
itself: a new turn links so to the one before. A run of an agent is nobody's message; it goes on with the run that it is linked to if it was given
what tools answered and no new user message. A trace whose roots link to several others works a batch off: it belongs to none of them.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

from monitor.assembly.facts import CANDIDATES, Field, SpanClass, value
from monitor.assembly.segmentation import Segment
from monitor.assembly.tree import Node, Tree
from monitor.model.invocation import Message

_PRODUCER, _CONSUMER = 4, 5
_INTERNAL = (0, 1)
_ANSWERS = ("tool_call_response", "tool_approval_response")
_FRAMEWORKS = ("executor.", "message.", "edge_group.")

MAX_TARGETS = 64
"""Senders in another trace that are kept of a trace: one of them inside a run is enough to look at both together."""


class How(IntEnum):
    """What a root that links to another trace is to the span there: a framework's message, one out of a queue, or a run that goes on."""

    PASSED = 0
    QUEUED = 1
    RESUMED = 2


@dataclass(frozen=True, slots=True)
class Target:
    """A span that a root links to."""

    span_id: str
    how: How


@dataclass(frozen=True, slots=True)
class Linked:
    """The one other trace that a trace was sent messages from, or goes on with; and the spans there that its roots name."""

    trace_id: str
    targets: tuple[Target, ...]


def follow_links(tree: Tree) -> bool:
    """Hang roots of message passing below the span of their own trace that they link to; whether there was any."""
    if not any(root.span is not None and root.span.links for root in tree.roots):
        return False
    known = {(node.trace_id, node.span_id): node for node in tree.nodes if not node.phantom}
    changed = False
    for root in tree.roots:
        span = root.span
        if span is None or not span.links or _is_queued(root) is None:
            continue
        for link in span.links:
            target = known.get((link.trace_id, link.span_id)) if link.trace_id == root.trace_id else None
            if target is not None and target.span_class is not SpanClass.SETUP and not _within(target, root):
                _hang(root, target)
                changed = True
                break
    return changed


def _is_queued(root: Node) -> bool | None:
    """Whether a root took a message out of a queue; False for a framework's own message, None for what passes no message."""
    if root.span is None:
        return None
    if root.span.kind == _PRODUCER or root.name.startswith(_FRAMEWORKS):
        return False
    is_queue = root.span.kind in _INTERNAL and any(key.startswith("messaging.") for key in root.span.attributes)
    return True if root.span.kind == _CONSUMER or is_queue else None


def linked(roots: Iterable[Node]) -> Mapping[str, Linked]:
    """By trace, from which other one its roots were sent messages; not those sent from several, or from none."""
    found: dict[str, dict[str, dict[Target, None]]] = {}
    for root in roots:
        for trace_id, target in _sent_by(root):
            found.setdefault(root.trace_id, {}).setdefault(trace_id, {})[target] = None
    return {
        trace_id: Linked(other, tuple(targets)[:MAX_TARGETS])
        for trace_id, others in found.items()
        if len(others) == 1
        for other, targets in others.items()
    }


def _sent_by(root: Node) -> list[tuple[str, Target]]:
    """The spans of other traces that a root links to as the senders of its message."""
    if root.span is None or not root.span.links:
        return []
    how = _how(root)
    if how is None:
        return []
    return [(link.trace_id, Target(link.span_id, how)) for link in root.span.links if link.trace_id != root.trace_id]


def _how(root: Node) -> How | None:
    if root.span_class in CANDIDATES:
        return How.RESUMED if _goes_on(root) else None
    queued = _is_queued(root)
    return None if queued is None else How(queued)


def _goes_on(run: Node) -> bool:
    """Whether a run was given what tools or people answered to its calls, and no new message: by its own span, else by its first model call."""
    asked = (node for node in run.subtree() if node.span_class in CANDIDATES or node.span_class is SpanClass.MODEL)
    messages: Sequence[Message] = next((found for node in asked if (found := value(node.facts, Field.INPUT))), ())
    parts = messages[-1].parts if messages else ()
    return bool(parts) and all(part.get("type") in _ANSWERS for part in parts)


class Senders:
    """The spans inside of runs, by trace and id: what a message may have come from."""

    def __init__(self, segments: Sequence[Segment]) -> None:
        self._inside: dict[tuple[str, str], Node] = {}
        for one in segments:
            self.add(one.members)

    def add(self, nodes: Iterable[Node]) -> None:
        """More spans are inside of a run."""
        self._inside.update(((node.trace_id, node.span_id), node) for node in nodes if not node.phantom)

    def sent(self, told: Linked) -> bool:
        """Whether one of them sent a message to the trace that says so."""
        return any(self.find(told.trace_id, target) is not None for target in told.targets)

    def find(self, trace_id: str, target: Target, *, agents: bool = False) -> Node | None:
        """The span, if a message that links to it is a part of its run. `agents`: agents received it, whose runs are their own where no agent
        sent it.
        """
        node = self._inside.get((trace_id, target.span_id))
        if node is None or node.span_class is SpanClass.SETUP or _in_model_call(node):
            return None
        is_top = node.parent is None or node.span_class in CANDIDATES
        by_agent = any(one.span_class in CANDIDATES for one in (node, *node.ancestors()))
        needs_agent = agents or target.how is How.RESUMED
        return None if (target.how is How.QUEUED and is_top) or (needs_agent and not by_agent) else node


def _in_model_call(node: Node) -> bool:
    """Whether a span is a model call or a part of one: calls below it would be taken for records of the same call."""
    for one in (node, *node.ancestors()):
        if one.span_class is SpanClass.MODEL:
            return True
        if one.span_class is SpanClass.TOOL or one.span_class in CANDIDATES:
            return False
    return False


def adopt_linked(
    roots: Collection[Node], followed: Mapping[str, Linked], segments: Sequence[Segment]
) -> Sequence[Node]:
    """Hang roots below the spans of other traces that sent them; which ones. `followed` is what `linked` said of all roots."""
    senders = Senders(segments)
    hung: list[Node] = []
    for root in sorted(roots, key=lambda node: (*node.key, node.trace_id)):
        if root.parent is not None or root.trace_id not in followed or root.span_class in CANDIDATES:
            continue
        agents = any(node.span_class in CANDIDATES for node in root.subtree())
        found = (senders.find(trace_id, target, agents=agents) for trace_id, target in _sent_by(root))
        sender = next((node for node in found if node is not None and not _within(node, root)), None)
        if sender is not None:
            _hang(root, sender)
            senders.add(root.subtree())
            hung.append(root)
    return hung


def resumed(segments: Sequence[Segment], followed: Mapping[str, Linked]) -> list[Segment]:
    """The runs, with those put together that go on with one of another trace."""
    senders = Senders(segments)
    holder = {id(node): one for one in segments for node in one.members}
    kept = {id(one): one for one in segments}
    for one in sorted(segments, key=lambda segment: segment.root.key):
        root = one.root
        if root.parent is not None or root.trace_id not in followed or root.span_class not in CANDIDATES:
            continue
        found = (senders.find(trace_id, target) for trace_id, target in _sent_by(root))
        before = next((holder[id(node)] for node in found if node is not None), one)
        if before is not one:
            before.members += one.members
            before.joined = True
            holder.update((id(node), before) for node in one.members)
            del kept[id(one)]
    return list(kept.values())


def _hang(node: Node, parent: Node) -> None:
    node.parent = parent
    insort(parent.children, node, key=lambda child: child.key)


def _within(node: Node, root: Node) -> bool:
    while node.parent is not None:
        node = node.parent
    return node is root
