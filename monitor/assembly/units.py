"""Facts of model calls and tool runs, from the most usable of the spans that record them."""

from __future__ import annotations

from monitor.assembly.facts import Field, Found, rank
from monitor.assembly.neighbourhood import Unit
from monitor.model.invocation import Message


def unit_messages(unit: Unit, which: Field) -> tuple[Message, ...]:
    """The messages of a model call, from the most usable of its spans."""
    best = unit_fact(unit, which)
    return tuple(best.value or ()) if best is not None else ()


def unit_fact(unit: Unit, which: Field) -> Found | None:
    """A fact of a unit: the standing span's, else a more usable one of its copies; content also of a step around it."""
    if not unit.copies and not unit.steps:
        return unit.node.facts.get(which)
    best: Found | None = None
    around = unit.steps if which in (Field.INPUT, Field.OUTPUT) else []
    for node in (*unit.nodes, *around):
        found = node.facts.get(which)
        if found is not None and (best is None or rank(found) < rank(best)):
            best = found
    return best


NOTHING = Found(None, "")


def fact_of(unit: Unit | None, which: Field) -> Found:
    """A fact of a unit, an empty one where there is none."""
    if unit is None:
        return NOTHING
    if not unit.copies and not unit.steps:
        return unit.node.facts.get(which, NOTHING)
    return unit_fact(unit, which) or NOTHING
