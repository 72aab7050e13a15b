"""Model calls recorded twice side by side: by two instrumentations, or by an application and the gateway that it calls."""

from __future__ import annotations

from collections.abc import Sequence

from monitor.assembly.facts import Field, value
from monitor.assembly.messages import lacking
from monitor.assembly.neighbourhood import Unit
from monitor.assembly.tree import Node


def without_twins(models: Sequence[Unit]) -> list[Unit]:
    """The model calls of one agent without repetitions: a poorer record inside the time of a richer one becomes its copy.

    Two records are one call when they have the same response id, or when the poorer one has no content, comes from another
    instrumentation, and counts the same tokens.
    """
    ordered = sorted(models, key=lambda unit: (unit.node.start, -unit.node.end, unit.node.span_id))
    kept: list[Unit] = []
    current: list[Unit] = []
    for unit in ordered:
        current = [other for other in current if other.node.end >= unit.node.start]
        twin = next((other for other in current if _same_call(other.node, unit.node)), None)
        if twin is None:
            kept.append(unit)
            current.append(unit)
        elif _has_content(unit.node) and not _has_content(twin.node):
            unit.copies.extend(twin.nodes)
            kept[kept.index(twin)] = unit
            current[current.index(twin)] = unit
        else:
            twin.copies.extend(unit.nodes)
    return kept


def _same_call(one: Node, other: Node) -> bool:
    mine, theirs = value(one.facts, Field.RESPONSE_ID), value(other.facts, Field.RESPONSE_ID)
    if mine is not None and theirs is not None:
        return bool(mine == theirs)
    if _has_content(one) and _has_content(other):
        return False
    if one.span is None or other.span is None or one.span.scope.name == other.span.scope.name:
        return False
    inside = one.start <= other.start and other.end <= one.end
    return inside and _counts(one) == _counts(other) != (None, None)


def _counts(node: Node) -> tuple[int | None, int | None]:
    return value(node.facts, Field.INPUT_TOKENS), value(node.facts, Field.OUTPUT_TOKENS)


def _has_content(node: Node) -> bool:
    return any(lacking(value(node.facts, field) or ()) is None for field in (Field.INPUT, Field.OUTPUT))
