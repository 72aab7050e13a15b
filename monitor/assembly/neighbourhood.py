"""What only a span's place in the tree tells: which chains are agents, which model calls and tool spans are one and the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from monitor.assembly.facts import CANDIDATES, Field, SpanClass, value
from monitor.assembly.messages import lacking
from monitor.assembly.tree import Node, Tree

UNITS = frozenset({SpanClass.MODEL, SpanClass.TOOL})
_CANDIDATES_AND_UNITS = CANDIDATES | UNITS
_STARTERS = CANDIDATES | {SpanClass.TOOL}


@dataclass(frozen=True, slots=True, eq=False)
class Unit:
    """One model call or one tool run: the span that stands for it, and spans inside that record the same once more.

    `steps` are spans around a model call that hold nothing else (a graph's node, a turn): their content may stand in for its own.
    """

    node: Node
    copies: list[Node] = field(default_factory=list)
    steps: list[Node] = field(default_factory=list)

    @property
    def nodes(self) -> list[Node]:
        """The standing span first."""
        return [self.node, *self.copies]


@dataclass(frozen=True, slots=True)
class Surroundings:
    """For each node, by identity: `owner`, the nearest candidate at or above it; `starter`, the nearest tool run or candidate
    above it. `units` are the model calls and tool runs by their standing node.
    """

    owner: dict[int, Node | None]
    starter: dict[int, Node | None]
    units: dict[int, Unit]


def survey(tree: Tree) -> Surroundings:
    """Settle every node's class and find owners and units; linear in the number of spans."""
    said = {node.span_class for node in tree.nodes}
    if SpanClass.EVALUATION in said:
        _drop_evaluations(tree.nodes)
    if SpanClass.CHAIN in said:
        _promote_chains(tree.nodes)
    units = _units(tree.nodes, _nearest(tree.nodes, _CANDIDATES_AND_UNITS))
    if not said.isdisjoint((SpanClass.STEP, SpanClass.CHAIN)):
        _note_steps(tree.nodes, units)
    _note_fetched(tree.nodes, units)
    owner: dict[int, Node | None] = {}
    for node in tree.nodes:
        inherited = owner[id(node.parent)] if node.parent is not None else None
        owner[id(node)] = node if node.span_class in CANDIDATES else inherited
    return Surroundings(owner, _nearest(tree.nodes, _STARTERS), units)


def _note_steps(nodes: Sequence[Node], units: dict[int, Unit]) -> None:
    """Note the steps that hold exactly one model call and nothing else."""
    held: dict[int, list[Unit | None]] = {}
    for node in reversed(nodes):
        inside = held.get(id(node), [])
        if node.span_class in CANDIDATES:
            inside = [None]
        elif id(node) in units:
            inside = [units[id(node)] if node.span_class is SpanClass.MODEL else None]
        elif len(inside) == 1 and inside[0] is not None and node.span_class in (SpanClass.STEP, SpanClass.CHAIN):
            inside[0].steps.append(node)
        if inside and node.parent is not None:
            held.setdefault(id(node.parent), []).extend(inside[:2])


def _note_fetched(nodes: Sequence[Node], units: dict[int, Unit]) -> None:
    """A response that was made in the background and fetched later is the output of the call that asked for it."""
    fetched = [node for node in nodes if value(node.facts, Field.OPERATION) == "fetch_response"]
    if not fetched:
        return
    by_response = {value(unit.node.facts, Field.RESPONSE_ID): unit for unit in units.values()}
    for node in fetched:
        unit = by_response.get(value(node.facts, Field.RESPONSE_ID) or object())
        if unit is not None and Field.OUTPUT in node.facts:
            unit.steps.append(node)


def _drop_evaluations(nodes: Sequence[Node]) -> None:
    """Everything below an evaluator or a guardrail is not the agent's work."""
    for node in nodes:
        if node.parent is not None and node.parent.span_class is SpanClass.EVALUATION:
            node.span_class = SpanClass.EVALUATION


def _promote_chains(nodes: Sequence[Node]) -> None:
    """A chain with work below it is an agent run where nothing but a tool stands above it, or where it is called like an agent of its own."""
    works = _has_work(nodes)
    covered: dict[int, bool] = {}
    agent_name: dict[int, str | None] = {}
    for node in nodes:
        parent = node.parent
        inherited = covered[id(parent)] if parent is not None else False
        known = agent_name[id(parent)] if parent is not None else None
        name = _own_name(node)
        own = name is not None and name != known and name in _labels(node)
        if node.span_class is SpanClass.CHAIN and id(node) in works and (own or not inherited):
            node.span_class = SpanClass.WORKFLOW
        covered[id(node)] = _covers(node, inherited)
        agent_name[id(node)] = name or known


def _labels(node: Node) -> tuple[str | None, ...]:
    """What the chain itself is called."""
    return node.name, value(node.facts, Field.WORKFLOW_NAME)


def _covers(node: Node, inherited: bool) -> bool:
    if node.span_class in CANDIDATES or node.span_class is SpanClass.CHAIN:
        return True
    return False if node.span_class is SpanClass.TOOL else inherited


def _own_name(node: Node) -> str | None:
    found = node.facts.get(Field.AGENT_NAME)
    return found.value if found is not None and not found.weak else None


def _has_work(nodes: Sequence[Node]) -> set[int]:
    works: set[int] = set()
    for node in reversed(nodes):
        if node.span_class in CANDIDATES or node.span_class in UNITS or id(node) in works:
            works.add(id(node))
            if node.parent is not None:
                works.add(id(node.parent))
    return works


def _nearest(nodes: Sequence[Node], classes: frozenset[SpanClass]) -> dict[int, Node | None]:
    """For each node the nearest of the classes strictly above it."""
    above: dict[int, Node | None] = {}
    for node in nodes:
        parent = node.parent
        if parent is None:
            above[id(node)] = None
        else:
            above[id(node)] = parent if parent.span_class in classes else above[id(parent)]
    return above


def _units(nodes: Sequence[Node], above: dict[int, Node | None]) -> dict[int, Unit]:
    inside: dict[int, list[Node]] = {}
    for node in nodes:
        outer = above[id(node)]
        if node.span_class in UNITS and outer is not None and outer.span_class is node.span_class:
            inside.setdefault(id(outer), []).append(node)
    _open_containers(nodes, inside)
    standing: dict[int, Node] = {}
    units: dict[int, Unit] = {}
    for node in nodes:
        if node.span_class not in UNITS:
            continue
        outer = above[id(node)]
        if outer is not None and id(outer) in standing and _same_work(outer, node, len(inside.get(id(outer), ()))):
            stands = standing[id(node)] = standing[id(outer)]
            units[id(stands)].copies.append(node)
            continue
        standing[id(node)] = node
        units[id(node)] = Unit(node)
    return units


def _open_containers(nodes: Sequence[Node], inside: dict[int, list[Node]]) -> None:
    """A model span around several model calls that have the content is a container, no call of its own."""
    for node in nodes:
        inner = inside.get(id(node), [])
        if (
            node.span_class is SpanClass.MODEL
            and len(inner) > 1
            and not _has_content(node)
            and any(map(_has_content, inner))
        ):
            node.span_class = SpanClass.STEP


def _same_work(outer: Node, node: Node, siblings: int) -> bool:
    """Whether a span inside another of its class records the same call: a provider's span, a retry, a tool's protocol span."""
    if node.span_class is not outer.span_class:
        return False
    if node.span_class is SpanClass.MODEL:
        return True
    mine, theirs = value(node.facts, Field.TOOL_NAME), value(outer.facts, Field.TOOL_NAME)
    return _is_protocol(node) or (siblings == 1 and (mine is None or theirs is None or mine == theirs))


def _is_protocol(node: Node) -> bool:
    return bool(node.record and "mcp.method.name" in node.record.attributes)


def _has_content(node: Node) -> bool:
    return any(lacking(value(node.facts, field) or ()) is None for field in (Field.INPUT, Field.OUTPUT))
