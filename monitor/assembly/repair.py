"""Gives spans that lost their parent a place again, where the evidence leaves one (reference: conventions, section 8.3)."""

from __future__ import annotations

from collections.abc import Sequence

from monitor.assembly.facts import Field, SpanClass, value
from monitor.assembly.neighbourhood import Surroundings
from monitor.assembly.segmentation import Segment, first_given
from monitor.assembly.tree import Node, Tree
from monitor.assembly.values import canonical

_MESSAGE_KINDS = (4, 5)  # PRODUCER, CONSUMER
_SHORT = 8
"""User inputs of fewer characters prove nothing when they turn up in a tool's arguments."""


def follow_links(tree: Tree) -> bool:
    """Hang roots of message passing below the span that they link to; whether there was any.

    Frameworks that pass messages (AutoGen, Agent Framework) start a new root per message and link it to the sender.
    """
    known = {(node.trace_id, node.span_id): node for node in tree.nodes if not node.phantom}
    changed = False
    for root in tree.roots:
        span = root.span
        if (
            span is None
            or not span.links
            or not (span.kind in _MESSAGE_KINDS or root.name.startswith(("executor.", "message.")))
        ):
            continue
        for link in span.links:
            target = known.get((link.trace_id, link.span_id))
            if target is not None and target.span_class is not SpanClass.SETUP and not _within(target, root):
                _hang(root, target)
                changed = True
                break
    return changed


def adopt_orphans(segments: Sequence[Segment], around: Surroundings) -> bool:
    """Hang what lies under a lost parent below the run or the tool that it belongs to; whether there was any.

    A run without any step of its own takes what lies inside its time, if it is the only such run. A tool takes a run inside its time
    whose user input is in its arguments: that is the tool's sub-agent, whose own span was lost.
    """
    orphans = [one for one in segments if one.inferred and one.root.phantom and not one.joined]
    if not orphans:
        return False
    homes = [one for one in segments if not one.inferred and one.root.span is not None and one.root.span.ended]
    tools = [
        node
        for one in segments
        for node in one.members
        if node.span_class is SpanClass.TOOL and id(node) in around.units
    ]
    changed = False
    for orphan in orphans:
        tool = _tool_of(orphan, tools, around)
        if tool is not None:
            orphan.root.span_class = SpanClass.AGENT
            _hang(orphan.root, tool)
            changed = True
            continue
        hollow = [home for home in homes if _covers(home.root, orphan.root) and not _has_steps(home, around)]
        if len(hollow) == 1:
            _hang(orphan.root, hollow[0].root)
            changed = True
    return changed


def _tool_of(orphan: Segment, tools: Sequence[Node], around: Surroundings) -> Node | None:
    asked = first_given(orphan.root, around).text
    if asked is None or len(asked) < _SHORT:
        return None
    inside = {id(node) for node in orphan.members}
    fit = [
        tool
        for tool in tools
        if _covers(tool, orphan.root)
        and id(tool) not in inside
        and canonical(asked)[1:-1] in canonical(value(tool.facts, Field.ARGUMENTS))
    ]
    return fit[0] if len(fit) == 1 else None


def _covers(home: Node, orphan: Node) -> bool:
    return home.trace_id == orphan.trace_id and home.start <= orphan.start and orphan.end <= home.end


def _has_steps(home: Segment, around: Surroundings) -> bool:
    return any(id(node) in around.units for node in home.members)


def _hang(node: Node, parent: Node) -> None:
    node.parent = parent
    parent.children.append(node)
    parent.children.sort(key=lambda child: child.key)


def _within(node: Node, root: Node) -> bool:
    while node.parent is not None:
        node = node.parent
    return node is root


def retold(tree: Tree) -> Tree:
    """The tree after nodes have been hung elsewhere."""
    roots = tuple(root for root in tree.roots if root.parent is None)
    return Tree(tuple(node for root in roots for node in root.subtree()), roots)
