"""Which invocations of an open trace are over, and stand by themselves whatever else comes of it (reference: conventions, sections 8.2, 9).

A run below a span that is open or was never seen may be a request of its own, or the step of an agent whose span comes last. It is known to be
its own when the same root holds other runs of the same agent, or one that goes on from its answer with a new user message: what encloses
them is a session, a batch, a connection. A root that has no parent at all is nobody's step; it waits only for the parents of spans that may
be its own.
"""

from __future__ import annotations

from collections.abc import Sequence

from monitor.assembly.facts import Field, SpanClass, value
from monitor.assembly.messages import message_text
from monitor.assembly.neighbourhood import Surroundings
from monitor.assembly.segmentation import Segment, first_given, last_answer
from monitor.assembly.tree import Node, Tree


def standing(tree: Tree, segments: Sequence[Segment], around: Surroundings) -> list[Segment]:
    """Those whose root and known members have ended, and which are known to be no step of something that is open."""
    orphans = [root for root in tree.roots if root.phantom]
    groups: dict[int, list[Segment]] = {}
    for one in sorted(segments, key=lambda segment: segment.root.key):
        groups.setdefault(id(_top(one.root)), []).append(one)
    known = [one for beside in groups.values() for one in _known(beside, around)]
    return [one for one in known if _is_over(one) and not _may_lack(one.root, orphans)]


def _may_lack(root: Node, orphans: Sequence[Node]) -> bool:
    """Whether spans that lost their parent lie in the time of a root that has none."""
    return root.parent is None and any(one.start <= root.end and root.start <= one.end for one in orphans)


def _top(node: Node) -> Node:
    while node.parent is not None:
        node = node.parent
    return node


def _is_over(one: Segment) -> bool:
    return one.root.span is not None and all(node.span is not None and node.span.ended for node in one.members)


def _known(beside: list[Segment], around: Surroundings) -> list[Segment]:
    """Of the segments below one root, in order of start, those that stand by themselves."""
    found: dict[int, Segment] = {}
    last_of: dict[str, Segment] = {}
    before: Segment | None = None
    for one in beside:
        if one.root.span is not None and not one.root.span.parent_span_id and not one.inferred:
            found[id(one)] = one
        name = None if one.inferred else value(one.root.facts, Field.AGENT_NAME)
        same = last_of.get(name) if name is not None else None
        if before is not None and ((before.inferred and one.inferred) or _goes_on(before, one, around)):
            found[id(before)] = before
            if not one.inferred:  # a further model call may belong to the last of them
                found[id(one)] = one
        if same is not None:
            found |= {id(same): same, id(one): one}
        if name is not None:
            last_of[name] = one
        before = one
    return list(found.values())


def _goes_on(before: Segment, one: Segment, around: Surroundings) -> bool:
    """Whether a run was given the answer of the one before in its history, and a new user message after it."""
    if before.inferred or one.inferred or one.root.span_class is SpanClass.TOOL:
        return False
    asked = first_given(one.root, around)
    answer = (last_answer(before.root, around) or "").strip()
    if not answer or not asked.asked or asked.after:
        return False
    return any(answer == (message_text(message) or "").strip() for message in asked.history)
