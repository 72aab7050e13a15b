"""The span tree of a trace, with what each span says, phantoms for parents that never came, and no recursion."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from collectors.span import LogRecord, Span
from monitor.assembly.facts import Facts, Field, SpanClass
from monitor.assembly.record import Record
from monitor.assembly.told import Told


@dataclass(slots=True, eq=False)
class Node:
    """A span in its tree, or (without a record) the place of a parent that never came.

    `span_class` starts as what the span says and may be changed by its neighbourhood.
    """

    trace_id: str
    span_id: str
    record: Record | None = None
    facts: Facts = field(default_factory=dict)
    span_class: SpanClass = SpanClass.OTHER
    parent: Node | None = None
    children: list[Node] = field(default_factory=list)

    @property
    def phantom(self) -> bool:
        """Whether only children tell of this span."""
        return self.record is None

    @property
    def span(self) -> Span | None:
        """The span itself, None for a phantom."""
        return self.record.span if self.record else None

    @property
    def name(self) -> str:
        """The span's name, empty for a phantom."""
        return self.record.span.name if self.record else ""

    @property
    def start(self) -> int:
        """Start in nanoseconds; of a phantom its first child's."""
        if self.record:
            return self.record.span.start_time_unix_nano
        return min((child.start for child in self.children), default=0)

    @property
    def end(self) -> int:
        """End in nanoseconds, its start where it is open; of a phantom its last child's."""
        if self.record:
            return max(self.record.span.end_time_unix_nano, self.record.span.start_time_unix_nano)
        return max((child.end for child in self.children), default=0)

    @property
    def key(self) -> tuple[int, str]:
        """Order among siblings: start, then id."""
        return self.start, self.span_id

    def ancestors(self) -> Iterator[Node]:
        """Parent, its parent, and so on."""
        node = self.parent
        while node is not None:
            yield node
            node = node.parent

    def subtree(self) -> Iterator[Node]:
        """The node and all its descendants, parents first, siblings in order."""
        stack = [self]
        while stack:
            node = stack.pop()
            yield node
            if node.children:
                stack.extend(reversed(node.children))


@dataclass(frozen=True, slots=True)
class Tree:
    """All nodes of a trace, parents before children; `roots` have no parent."""

    nodes: tuple[Node, ...]
    roots: tuple[Node, ...]


Reading = Callable[[Record], Facts]


def build(spans: Sequence[Span], logs: Sequence[LogRecord], read: Reading) -> Tree:
    """Link unique spans, in order of start and id, into a tree; logs go to their span, without a span to the trace's first root.

    A parent that is not among the spans becomes a phantom that keeps its children together. Where parents go in a circle, the
    earliest span of the circle becomes a root.
    """
    belonging = _logs_by_span(spans, logs) if logs else {}
    told = Told()
    nodes = {
        (s.trace_id, s.span_id): Node(
            s.trace_id, s.span_id, Record(s, belonging.get((s.trace_id, s.span_id), ()), told)
        )
        for s in spans
    }
    for node in list(nodes.values()):
        _attach(node, nodes)
    ordered = sorted(nodes.values(), key=lambda node: (node.start, node.phantom, node.trace_id, node.span_id))
    for node in ordered:
        if node.record is not None:
            node.facts = read(node.record)
            found = node.facts.get(Field.CLASS)
            if found is not None:
                node.span_class = found.value
    return _rooted(ordered)


def _logs_by_span(spans: Sequence[Span], logs: Sequence[LogRecord]) -> dict[tuple[str, str], list[LogRecord]]:
    known = {(span.trace_id, span.span_id) for span in spans}
    first_root: dict[str, str] = {}
    for span in spans:
        if (span.trace_id, span.parent_span_id) not in known:
            first_root.setdefault(span.trace_id, span.span_id)
    found: dict[tuple[str, str], list[LogRecord]] = {}
    for log in logs:
        span_id = log.span_id if (log.trace_id, log.span_id) in known else first_root.get(log.trace_id, "")
        if not log.span_id or (log.trace_id, log.span_id) in known:
            found.setdefault((log.trace_id, span_id), []).append(log)
    return found


def _attach(node: Node, nodes: dict[tuple[str, str], Node]) -> None:
    span = node.span
    if span is None or not span.parent_span_id:
        return
    key = (span.trace_id, span.parent_span_id)
    parent = nodes.get(key)
    if parent is None:
        parent = nodes[key] = Node(*key)
    if parent is not node:
        node.parent = parent
        parent.children.append(node)


def _rooted(ordered: Sequence[Node]) -> Tree:
    roots = [node for node in ordered if node.parent is None]
    nodes = [node for root in roots for node in root.subtree()]
    if len(nodes) < len(ordered):
        _cut_circles(ordered, roots, {id(node) for node in nodes})
        nodes = [node for root in roots for node in root.subtree()]
    return Tree(tuple(nodes), tuple(roots))


def _cut_circles(ordered: Sequence[Node], roots: list[Node], reached: set[int]) -> None:
    for node in ordered:
        if id(node) not in reached:
            if node.parent is not None:
                node.parent.children.remove(node)
            node.parent = None
            roots.append(node)
            reached.update(id(inside) for inside in node.subtree())
