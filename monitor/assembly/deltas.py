"""Inputs of which a span records only what changed, and names the span that it goes on from (LiveKit's input deltas).

The whole is the other span's whole without its last entries, and the span's own entries behind it. Where the other span never came, the span
has only a part of its input, and is marked so.
"""

from __future__ import annotations

from collections.abc import Sequence

from monitor.assembly.facts import Field, Found, value
from monitor.assembly.messages import lacking
from monitor.assembly.tree import Node
from monitor.model.invocation import Capture, Message

Entries = tuple[tuple[Message, ...], ...]
"""The messages of each recorded entry."""

MOST_ENTRIES = 5_000_000
"""Entries of all wholes of a trace together, some 100 MB: they grow with the square of the number of spans. What is more is marked as a part."""


def resolve_deltas(nodes: Sequence[Node]) -> None:
    """Give every span with a delta its whole input, and the instructions that it goes on from."""
    if not any(Field.BASE in node.facts for node in nodes):
        return
    known = {(node.trace_id, node.span_id): node for node in nodes if not node.phantom}
    whole: dict[int, Entries | None] = {}
    left = MOST_ENTRIES
    for node in nodes:
        chain = _chain(node, known, whole)
        while chain:
            step = chain.pop()
            _resolve(step, known, whole, left)
            left -= len(whole[id(step)] or ())


def _chain(node: Node, known: dict[tuple[str, str], Node], whole: dict[int, Entries | None]) -> list[Node]:
    """The span and those that it goes on from, as far as they are not resolved; a circle ends where it closes."""
    chain: list[Node] = []
    seen: set[int] = set()
    step: Node | None = node
    while step is not None and id(step) not in seen and id(step) not in whole:
        seen.add(id(step))
        chain.append(step)
        step = _base(step, known)
    return chain


def _base(node: Node, known: dict[tuple[str, str], Node]) -> Node | None:
    base = value(node.facts, Field.BASE)
    return known.get((node.trace_id, base[0])) if base is not None else None


def _resolve(node: Node, known: dict[tuple[str, str], Node], whole: dict[int, Entries | None], left: int) -> None:
    own: Entries = value(node.facts, Field.ENTRIES) or ()
    delta = value(node.facts, Field.BASE)
    if delta is None:
        whole[id(node)] = own
        return
    base = _base(node, known)
    before = whole.get(id(base)) if base is not None else None
    found = node.facts.get(Field.INPUT) or Found((), "lk.input.delta")
    if base is None or before is None or len(before) + len(own) > left:
        whole[id(node)] = None
        node.facts[Field.INPUT] = Found(found.value, found.source, found.convention, Capture.TRUNCATED)
        return
    entries = (*before[: max(0, len(before) - delta[1])], *own)
    whole[id(node)] = entries
    told = tuple(message for entry in entries for message in entry)
    source = f"{found.source} after span {base.span_id}"
    node.facts[Field.INPUT] = Found(told, source, found.convention, lacking(told))
    if Field.SYSTEM not in node.facts and Field.SYSTEM in base.facts:
        node.facts[Field.SYSTEM] = base.facts[Field.SYSTEM]
