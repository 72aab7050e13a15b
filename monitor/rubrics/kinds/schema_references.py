"""References of a JSON Schema: each points to something, and none comes back to itself without having gone a step into the value. Pure.

A schema may be recursive, for values are finite; one whose reference leads back to the place where it stands asks the same question of the same
value for ever.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

_SAME_VALUE = ("allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas")
"""Keywords whose schemas are asked of the value itself, not of a part of it."""

_Place = tuple[str, ...]


def check_references(schema: Mapping[str, Any]) -> None:
    """Raises ValueError for a reference that points to nothing, and for one that never ends."""
    walk = _Walk(schema, dict(_anchors(schema)))
    for place, node in _nodes(schema, ()):
        walk.follow(place, node, ())


def _anchors(schema: Mapping[str, Any]) -> Iterator[tuple[str, _Place]]:
    for place, node in _nodes(schema, ()):
        yield from ((node[key], place) for key in ("$anchor", "$dynamicAnchor") if isinstance(node.get(key), str))


def _nodes(value: Any, place: _Place) -> Iterator[tuple[_Place, Mapping[str, Any]]]:
    """Every map of the schema with its place: more than its subschemas, which does no harm."""
    if isinstance(value, Mapping):
        yield place, value
        for key, item in value.items():
            if key not in ("const", "enum", "default", "examples"):
                yield from _nodes(item, (*place, str(key)))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _nodes(item, (*place, str(index)))


@dataclass(slots=True)
class _Walk:
    """Walks through all that is asked of the same value; what was walked through once is right."""

    root: Mapping[str, Any]
    anchors: Mapping[str, _Place]
    done: set[_Place] = field(default_factory=set)

    def follow(self, place: _Place, node: Mapping[str, Any], seen: tuple[_Place, ...]) -> None:
        """Raises ValueError where the walk comes back to where it was."""
        if place in seen:
            raise ValueError(f"`$ref` at {_shown(seen[-1])} comes back to itself: it would never end")
        if place in self.done:
            return
        for step, item in _of_the_same_value(node):
            self.follow((*place, *step), item, (*seen, place))
        reference = node.get("$ref", node.get("$dynamicRef"))
        if isinstance(reference, str):
            target = self._target(reference)
            found = _at(self.root, target) if target is not None else None
            if target is None or found is None:
                raise ValueError(f"`$ref` {reference!r} points to nothing in the schema")
            if isinstance(found, Mapping):
                self.follow(target, found, (*seen, place))
        self.done.add(place)

    def _target(self, reference: str) -> _Place | None:
        name = unquote(reference.removeprefix("#"))
        if name and not name.startswith("/"):
            return self.anchors.get(name)
        return tuple(part.replace("~1", "/").replace("~0", "~") for part in name.split("/")[1:])


def _of_the_same_value(node: Mapping[str, Any]) -> Iterator[tuple[_Place, Mapping[str, Any]]]:
    for key in _SAME_VALUE:
        held = node.get(key)
        if isinstance(held, list):
            yield from (((key, str(index)), item) for index, item in enumerate(held) if isinstance(item, Mapping))
        elif isinstance(held, Mapping) and key == "dependentSchemas":
            yield from (((key, str(name)), item) for name, item in held.items() if isinstance(item, Mapping))
        elif isinstance(held, Mapping):
            yield (key,), held


def _at(root: Any, place: _Place) -> Any:
    """What stands at a place; None where there is nothing. True and False are schemas, too."""
    found = root
    for part in place:
        if isinstance(found, Mapping):
            found = found.get(part)
        elif isinstance(found, list) and part.isdecimal() and int(part) < len(found):
            found = found[int(part)]
        else:
            return None
    return found if isinstance(found, (Mapping, bool)) else None


def _shown(place: _Place) -> str:
    return f"#/{'/'.join(place)}" if place else "#"
