"""Agents inside one invocation: its own agent with the wrappers around it, and sub-agents with what started them."""

from __future__ import annotations

from dataclasses import dataclass, field

from monitor.assembly.facts import CANDIDATES, Field, Found, SpanClass, value
from monitor.assembly.neighbourhood import UNITS, Surroundings, Unit
from monitor.assembly.tree import Node
from monitor.assembly.twins import without_twins

_DEFAULT_NAMES = frozenset({"agent workflow", "workflow", "langgraph", "swarm", "graph"})
"""What frameworks call a workflow that nobody named."""

_HANDOVERS = ("transfer_to_", "handoff_to_", "transfer_back_to_")
"""How the tools are called by which agents hand over."""


@dataclass(slots=True, eq=False)
class Scope:
    """One agent: its spans from the outside in, its own model calls and tool runs, and its sub-agents.

    `via` is the tool run that started it, None for the own agent and for hand-overs. `lead` are the spans of the chain that belong to the
    first of several agents that hand over to each other. `submitted` are client calls that hand in what tools answered. `stated` are the
    names that its agents' spans state.
    """

    chain: list[Node]
    via: Node | None = None
    models: list[Unit] = field(default_factory=list)
    tools: list[Unit] = field(default_factory=list)
    children: list[Scope] = field(default_factory=list)
    handoffs: list[Node] = field(default_factory=list)
    lead: list[Node] = field(default_factory=list)
    submitted: list[Node] = field(default_factory=list)
    stated: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        for node in self.chain:
            self.stated |= _stated_names(node)

    def take(self, node: Node) -> None:
        """One more span of the agent, inside the others."""
        self.chain.append(node)
        self.stated |= _stated_names(node)

    @property
    def frames(self) -> list[Node]:
        """The spans that stand for the agent itself; a lone model call's is none."""
        return [node for node in self.chain if node.span_class not in UNITS]

    @property
    def start(self) -> int:
        """When its outermost span started."""
        return self.chain[0].start

    def name(self) -> Found | None:
        """The agent's name: an agent span's own, else what its steps say, else a workflow's or a span's."""
        agents = [node for node in self.chain if node.span_class is SpanClass.AGENT]
        others = [node for node in self.chain if node.span_class is not SpanClass.AGENT]
        named = [found for node in (*agents, *others) if (found := node.facts.get(Field.AGENT_NAME)) is not None]
        steps = [] if agents else [unit.node.facts.get(Field.AGENT_NAME) for unit in (*self.models, *self.tools)]
        for found in (*named, *(step for step in steps if step is not None)):
            if not found.weak:
                return found
        if named:
            return named[-1]
        workflows = [found for node in self.chain if (found := node.facts.get(Field.WORKFLOW_NAME)) is not None]
        return min(workflows, key=lambda found: found.weak) if workflows else None

    def carriers(self) -> list[Scope]:
        """The agent, and where all that it did was to start a single sub-agent that one too, and so on down to the one that worked."""
        found = [self]
        while not (found[-1].models or found[-1].tools or found[-1].lead) and len(found[-1].children) == 1:
            found.append(found[-1].children[0])
        return found

    def spans(self) -> list[Node]:
        """The chains of the carriers, from the outside in: where an agent says nothing, the one that it left all the work to does."""
        return [node for scope in self.carriers() for node in scope.chain]

    def all(self) -> list[Scope]:
        """The scope and all below it, parents first."""
        found: list[Scope] = []
        stack = [self]
        while stack:
            scope = stack.pop()
            found.append(scope)
            stack.extend(reversed(scope.children))
        return found


@dataclass(frozen=True, slots=True)
class _Inside:
    """The nodes of one invocation: its root stands above every member, whatever lies outside."""

    root: Node
    ids: frozenset[int]
    around: Surroundings

    def owner(self, node: Node) -> Node:
        """The candidate that a node belongs to, the root where none lies between."""
        owner = self.around.owner[id(node)]
        return owner if owner is not None and id(owner) in self.ids else self.root

    def above(self, node: Node) -> Node:
        """The candidate strictly above a candidate."""
        return self.owner(node.parent) if node.parent is not None and id(node.parent) in self.ids else self.root

    def via(self, node: Node) -> Node | None:
        """The tool run between a candidate and the candidate above it."""
        starter = self.around.starter[id(node)]
        is_tool = starter is not None and starter.span_class is SpanClass.TOOL and id(starter) in self.ids
        return starter if is_tool else None


def scope_tree(root: Node, members: list[Node], around: Surroundings) -> Scope:
    """The agents of an invocation. `members` are its nodes, parents first."""
    inside = _Inside(root, frozenset(map(id, members)) | {id(root)}, around)
    candidates = [node for node in members if node is not root and node.span_class in CANDIDATES]
    busy = {id(inside.owner(node)) for node in members if id(node) in around.units}
    beside: dict[int, int] = {}
    for node in candidates:
        if inside.via(node) is None:
            key = id(inside.above(node))
            beside[key] = beside.get(key, 0) + 1
    main = Scope([root])
    scopes: dict[int, Scope] = {id(root): main}
    for node in candidates:
        above = inside.above(node)
        outer, via = scopes[id(above)], inside.via(node)
        if via is None and _continues(node, id(above) in busy, beside.get(id(above), 0), outer):
            outer.take(node)
            scopes[id(node)] = outer
        else:
            scopes[id(node)] = scope = Scope([node], via)
            outer.children.append(scope)
    _fill(members, inside, scopes)
    _first_of_a_handoff(main)
    return main


def _fill(members: list[Node], inside: _Inside, scopes: dict[int, Scope]) -> None:
    for node in members:
        scope = scopes[id(inside.owner(node))]
        unit = inside.around.units.get(id(node))
        if unit is not None:
            (scope.models if node.span_class is SpanClass.MODEL else scope.tools).append(unit)
        elif node.span_class is SpanClass.HANDOFF:
            scope.handoffs.append(node)
        elif value(node.facts, Field.OPERATION) == "submit_tool_outputs":
            scope.submitted.append(node)
    for scope in {id(scope): scope for scope in scopes.values()}.values():
        scope.models = sorted(without_twins(scope.models), key=lambda unit: unit.node.key)
        scope.tools.sort(key=lambda unit: unit.node.key)
        scope.children.sort(key=lambda child: child.chain[0].key)


def _continues(node: Node, busy_above: bool, beside: int, outer: Scope) -> bool:
    """Whether a candidate is the same agent as the one above it, recorded once more."""
    if not busy_above and beside == 1:
        stated = _stated_names(node)
        return (
            not stated or not outer.stated or stated <= outer.stated
        )  # who bears a name of its own is no mere wrapper
    mine = node.facts.get(Field.AGENT_NAME)
    if mine is None or mine.weak:
        return node.span_class is SpanClass.WORKFLOW and beside == 1
    return any(value(known.facts, Field.AGENT_NAME) == mine.value for known in outer.chain)


def _stated_names(node: Node) -> set[str]:
    """What an agent's span calls its agent; nothing for a workflow's, and for names that are a span's or a framework's own."""
    found = node.facts.get(Field.AGENT_NAME) if node.span_class is SpanClass.AGENT else None
    if found is None or found.weak or str(found.value).lower() in _DEFAULT_NAMES:
        return set()
    return {str(found.value)}


def _first_of_a_handoff(main: Scope) -> None:
    """Where agents hand over to each other below a bare workflow, the first of them is the invocation's own agent."""
    if main.models or main.tools or len(main.children) < 2 or any(child.via for child in main.children):
        return
    named = any(
        node.span_class is SpanClass.AGENT
        and (found := node.facts.get(Field.AGENT_NAME)) is not None
        and not found.weak
        for node in main.chain
    )
    workflow = main.name()
    nameless = workflow is None or str(workflow.value).lower() in _DEFAULT_NAMES
    handed_over = main.handoffs or any(_hands_over(scope) for child in main.children for scope in child.all())
    if named or not (nameless or handed_over):
        return
    first = main.children.pop(0)
    main.chain += first.chain
    main.lead = first.chain
    main.models, main.tools = first.models, first.tools
    main.children = sorted(main.children + first.children, key=lambda child: child.chain[0].key)


def _hands_over(scope: Scope) -> bool:
    names = [value(unit.node.facts, Field.TOOL_NAME) for unit in scope.tools]
    for unit in scope.models:
        for message in value(unit.node.facts, Field.OUTPUT) or ():
            names += [part.get("name") for part in message.parts if part.get("type") == "tool_call"]
    return bool(scope.handoffs) or any(isinstance(name, str) and name.startswith(_HANDOVERS) for name in names)
