"""Gives spans that lost their parent a place again, where the evidence leaves one (reference: conventions, section 8.3)."""

from __future__ import annotations

import heapq
from bisect import insort
from collections.abc import Sequence

from monitor.assembly.facts import Field, SpanClass, value
from monitor.assembly.neighbourhood import Surroundings
from monitor.assembly.segmentation import Segment, first_given
from monitor.assembly.tree import Node, Tree
from monitor.assembly.values import canonical

_MANY = 64
"""With more spans open than this at a time none of them is looked at."""

_SHORT = 8
"""User inputs of fewer characters prove nothing when they turn up in a tool's arguments."""


def adopt_orphans(segments: Sequence[Segment], around: Surroundings) -> bool:
    """Hang what lies under a lost parent below the run or the tool that it belongs to; whether there was any.

    A span that names its run (`gen_ai.agent.call.id`, ADK's invocation id, a thread's run) belongs to the one agent span of that run.
    A run without any step of its own takes what lies inside its time, if it is the only such run. A tool takes a run inside its time
    whose user input is in its arguments: that is the tool's sub-agent, whose own span was lost.
    """
    orphans = [one for one in segments if one.inferred and one.root.phantom and not one.joined]
    if not orphans:
        return False
    homes = [one.root for one in segments if not one.inferred and one.root.span is not None and one.root.span.ended]
    hollow = [root for root in homes if not any(id(node) in around.units for node in root.subtree())]
    tools = [
        node
        for one in segments
        for node in one.members
        if node.span_class is SpanClass.TOOL and id(node) in around.units
    ]
    changed = False
    by_run = _by_run(segments)
    open_tools, open_homes = _by_trace(tools), _by_trace(hollow)
    nothing = _Open(())
    for orphan in sorted(orphans, key=lambda one: one.root.key):
        trace = orphan.root.trace_id
        tool = _tool_of(orphan, open_tools.get(trace, nothing), around)
        home = tool or by_run.get(_run_of(orphan)) or _only(open_homes.get(trace, nothing).covering(orphan.root))
        if home is not None:
            orphan.root.span_class = SpanClass.AGENT if tool is not None else orphan.root.span_class
            _hang(orphan.root, home)
            changed = True
    return changed


def _run_of(one: Segment) -> tuple[str, str] | None:
    runs = (value(node.facts, Field.RUN) for node in one.members)
    run = next((run for run in runs if run), None)
    return (one.root.trace_id, str(run)) if run is not None else None


def _by_run(segments: Sequence[Segment]) -> dict[tuple[str, str] | None, Node]:
    """The root of each run that names itself, where only one does."""
    found: dict[tuple[str, str] | None, list[Node]] = {}
    for one in segments:
        run = None if one.inferred else _run_of(one)
        if run is not None:
            found.setdefault(run, []).append(one.root)
    return {run: roots[0] for run, roots in found.items() if len(roots) == 1}


def _by_trace(nodes: Sequence[Node]) -> dict[str, _Open]:
    traces: dict[str, list[Node]] = {}
    for node in nodes:
        traces.setdefault(node.trace_id, []).append(node)
    return {trace: _Open(of_trace) for trace, of_trace in traces.items()}


class _Open:
    """Which of some spans of a trace are open at a time, asked in order of time."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self._coming = sorted(nodes, key=lambda node: node.key, reverse=True)
        self._open: list[tuple[int, str, Node]] = []

    def covering(self, orphan: Node) -> list[Node]:
        """The spans of the trace around a node; none where too many are open for the question to have one answer."""
        while self._coming and self._coming[-1].start <= orphan.start:
            node = self._coming.pop()
            heapq.heappush(self._open, (node.end, node.span_id, node))
        while self._open and self._open[0][0] < orphan.start:
            heapq.heappop(self._open)
        if len(self._open) > _MANY:
            return []
        return [node for _, _, node in self._open if _covers(node, orphan)]


def _only(nodes: Sequence[Node]) -> Node | None:
    return nodes[0] if len(nodes) == 1 else None


def _tool_of(orphan: Segment, open_tools: _Open, around: Surroundings) -> Node | None:
    around_it = open_tools.covering(orphan.root)
    asked = first_given(orphan.root, around).text if around_it else None
    if asked is None or len(asked) < _SHORT:
        return None
    inside = {id(node) for node in orphan.members}
    said = canonical(asked)[1:-1]
    return _only(
        [tool for tool in around_it if id(tool) not in inside and said in canonical(value(tool.facts, Field.ARGUMENTS))]
    )


def _covers(home: Node, orphan: Node) -> bool:
    return home.start <= orphan.start and orphan.end <= home.end


def _hang(node: Node, parent: Node) -> None:
    node.parent = parent
    insort(parent.children, node, key=lambda child: child.key)


def retold(tree: Tree) -> Tree:
    """The tree after nodes have been hung elsewhere."""
    roots = tuple(root for root in tree.roots if root.parent is None)
    return Tree(tuple(node for root in roots for node in root.subtree()), roots)
